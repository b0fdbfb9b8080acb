"""Text on its way out: what hides is found in all of Unicode, escaped on terminals and in JSON, and secrets are redacted."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import unicodedata

import pytest

from metaflow_agents.terminal import printing

KEPT = "\n\t"


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printing, "_redactors", {})


def test_every_letter_of_a_hiding_category_is_found() -> None:
    for code in range(0x110000):
        letter = chr(code)
        if unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") and letter not in KEPT:
            assert printing.HIDING.fullmatch(letter), f"U+{code:04X} {unicodedata.name(letter, '')}"


@pytest.mark.parametrize("text", ["äöü ß", "日本語", "❤️", "e\u0301", "العربية", "\U0001f600", "a b"])
def test_what_people_write_stays(text: str) -> None:
    assert printing.shown(text) == text
    assert printing.as_json(text) == json.dumps(text, ensure_ascii=False)


@pytest.mark.parametrize("letter", ["\x1b", "\x9b", "\x00", "\x7f", "\u202e", "\u2066", "\u200e", "\u061c", "\u200b", "\ufeff",
                                    "\u2060", "\ud800", "\U000e0041", "\u3164", "\u2028", "\u2029", "\U000e0100", "\xad", "\x85"])
def test_what_hides_shows_and_data_stay_the_same(letter: str) -> None:
    text = f"a{letter}b"
    for shown in (printing.shown(text), printing.shown(text, lines=True), printing.as_json({text: [text]})):
        assert letter not in shown
    assert json.loads(printing.as_json({text: [text]})) == {text: [text]}
    out = io.StringIO()
    printing.write(f"{text}\x1b[1mbold\x1b[0m\x1b[2J", out, painted=True)
    assert letter not in out.getvalue().replace("\x1b[1m", "").replace("\x1b[0m", "") and "\x1b[1mbold" in out.getvalue()
    assert "\x1b[2J" not in out.getvalue()


def test_secrets_are_redacted_on_the_way_out() -> None:
    printing.redact("one", lambda text: text.replace("hunter22", "[secret ONE]"))
    out = io.StringIO()
    printing.write("it is hunter22\n", out)
    printing.write_value("it is hunter22\n", out)
    assert out.getvalue() == "it is [secret ONE]\n" * 2


@pytest.mark.parametrize("how", ["raise ValueError(SAID)", "import warnings; warnings.warn(SAID)",
                                 "import logging; logging.error(SAID)", "import logging; logging.getLogger('x').warning(SAID)",
                                 "import threading; t = threading.Thread(target=lambda: int(SAID)); t.start(); t.join()"])
def test_what_python_prints_by_itself_goes_this_way(how: str) -> None:
    program = ("from metaflow_agents.terminal import printing\nfrom metaflow_agents.cli.output import prepare_streams\n"
               "prepare_streams()\n"
               "printing.redact(1, lambda text: text.replace('hunter22', '[secret ONE]'))\n"
               "SAID = 'it is hunter' + '22' + chr(0x9b) + chr(0x202e)\n" + how)
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).stderr.decode()
    assert "[secret ONE]" in said and "hunter22" not in said and "\x9b" not in said and "\u202e" not in said, said
