"""What a run made stands at its end; `sop show RUN ARTIFACT` renders Markdown at a terminal, and `--raw` writes bytes."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from metaflow_agents.cli import command
from metaflow_agents.cli.told import telling
from metaflow_agents.terminal import printing
from metaflow_agents.views.markdown import markdown_lines
from metaflow_agents.views.outputs import outputs_lines
from metaflow_agents.views.page import Page, columns

SHOWN = r"""
sop: shown
artifacts:
  total: {schema: number}
  word: {}
  blank: {}
  report: {file: report.md}
  long: {file: long.txt}
  rows: {schema: [{name: string, amount: number}]}
  wide: {schema: [{name: string, note: string}]}
  pages: {files: "pages/**"}
  one: {files: "one/**"}
  logo: {file: logo.png}
steps:
  a: {value: "42.5", makes: total}
  b: {value: "'漢字 and \x1b[31mred'", makes: word}
  c: {value: "''", makes: blank}
  d: {call: making:report, makes: report}
  e: {call: making:long, makes: long}
  f: {value: "[{'name': '請求書', 'amount': 3}, {'name': 'b', 'amount': 4.5}]", makes: rows}
  g: {call: making:wide, makes: wide}
  h: {call: making:pages, makes: pages}
  i: {value: "{'one/x.txt': 'no line feed'}", makes: one}
  j: {call: making:logo, makes: logo}
"""
LOGO = bytes(range(256)) + b"\r\n"
MAKING = f"""
def report(): return "# Title\\n\\nSome *text*."
def long(): return "\\n".join(f"line {{i}}" for i in range(100))
def wide(): return [{{"name": "x", "note": "long words " * 20}}]
def pages(): return {{f"pages/{{i:02}}.txt": "t" for i in range(30)}}
def logo(): return {LOGO!r}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shown")
    (folder / "shown.yaml").write_text(SHOWN)
    (folder / "making.py").write_text(MAKING)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert command(["run", "shown.yaml", "--sandbox", "none", "--name", "it"]) == 0
    return folder


@pytest.fixture
def there(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(home)
    yield home


def lines(width: int | None) -> str:
    with telling(Path("workspace"), "it") as told:
        return "\n".join(outputs_lines(told.program, told.outline, told.values, "workspace/it", Page(width=width)))


@pytest.mark.usefixtures("there")
def test_short_outputs_stand_whole_and_others_by_their_place() -> None:
    found = lines(80)
    assert "\n  total: 42.5\n" in found and "\n  blank: (empty)\n" in found
    assert "\n  word: 漢字 and \N{SYMBOL FOR ESCAPE}[31mred\n" in found
    assert re.search(r"\n  report: workspace/it/report\.md\n    # Title\n *\n    Some \*text\*\.\n", found)
    assert "\n  long: workspace/it/long.txt, 100 lines, it begins:\n    line 0\n    line 1\n    line 2\n  rows:" in found
    assert re.search(r"\n  rows:\n    name    amount\n    請求書  3\n    b       4\.5\n", found)
    assert "\n  pages: 30 files\n    pages/00.txt\n    pages/01.txt\n    pages/02.txt\n    and 27 more\n" in found
    assert "\n  logo: workspace/it/logo.png, application/octet-stream, 258 bytes" in found


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize("width", [40, 80, 140])
def test_a_table_that_is_too_wide_is_cut_and_says_so(width: int) -> None:
    found = lines(width)
    assert "workspace/.artifacts/it/wide.json" in found and "cut to the width\n" in found
    assert all(columns(line) <= width for line in found.split("\n") if "workspace/" not in line), "a path is not cut"
    assert "cut to the width" not in lines(None)


@pytest.mark.usefixtures("there")
def test_they_stand_at_the_end_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["resume", "it"]) == 0
    out = capsys.readouterr().out
    assert out.index("made") < out.index("\noutputs:\n  total: 42.5\n") < out.index("\ncost: ")


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize(("artifact", "bytes_"), [
    ("logo", LOGO), ("report", b"# Title\n\nSome *text*.\n"), ("one", b"no line feed"), ("blank", b""), ("total", b"42.5\n"),
    ("word@1", "漢字 and \x1b[31mred".encode())])
def test_raw_writes_the_bytes(artifact: str, bytes_: bytes, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert command(["show", "it", artifact, "--raw"]) == 0
    assert capfdbinary.readouterr().out == bytes_


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize(("words", "message"), [
    (["pages", "--raw"], "`pages` is 30 files, and `--raw` writes one: the latest lie in workspace/it/"),
    (["--raw"], "name the artifact, `sop show it ARTIFACT --raw`"), (["logo", "--raw", "--json"], "leave out `--json`")])
def test_raw_is_refused(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["show", "it", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.usefixtures("there")
def test_a_terminal_gets_no_binary_and_markdown_rendered(monkeypatch: pytest.MonkeyPatch,
                                                         capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert command(["show", "it", "logo", "--raw"]) == 2
    told = capsys.readouterr()
    assert not told.out and "these 258 bytes are no text, and stdout is a terminal" in told.err
    assert command(["show", "it", "report"]) == 0
    out = capsys.readouterr().out
    assert "Title" in out and "# Title" not in out and "*text*" not in out
    assert command(["show", "it", "word", "--raw"]) == 0
    assert capsys.readouterr().out == "漢字 and \N{SYMBOL FOR ESCAPE}[31mred\n"


@pytest.mark.parametrize("hostile", ["&#27;[8mhidden", "`\x1b[8m`", "[a](https://example.org/&#27;[8m)", "&#8238;turned",
                                     "```\n\x1b]0;title\x07\n```", "# &#27;[8m"])
def test_markdown_commands_no_terminal(hostile: str) -> None:
    found = "\n".join(markdown_lines(hostile, Page(width=80)))
    assert "\x1b" not in found and "\u202e" not in found and "\x07" not in found
    painted = "\n".join(markdown_lines(hostile, Page(width=80, colour=True)))
    assert "\x1b[8m" not in painted and "\x1b]" not in painted


def test_markdown_parts_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "correct horse battery staple"
    monkeypatch.setitem(printing._redactors, "test", lambda text: text.replace(secret, "[secret]"))
    found = "\n".join(markdown_lines(f"words before it: {secret} and &#99;{secret[1:]}", Page(width=30)))
    assert "horse" not in found and found.count("[secret]") == 2


@pytest.mark.one_in(4)
def test_what_has_a_template_is_shown_by_it_and_without_its_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                                     capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.md.j2").write_text("# {{ plan.title }}\n{% for part in plan.parts %}- {{ part }}\n{% endfor %}")
    (tmp_path / "desk.yaml").write_text(
        "sop: desk\nartifacts:\n"
        "  plan: {schema: {title: string, parts: [string]}, render: plan.md.j2, file: [plan.md, plan.html]}\n"
        "steps: {make: {value: \"{'title': 'Tea', 'parts': ['leaves', 'water']}\", makes: plan}}\n")
    assert command(["run", "desk.yaml", "--name", "one", "--sandbox", "none"]) == 0
    out = capsys.readouterr().out
    assert "    # Tea\n    - leaves\n    - water\n" in out and '"title"' not in out
    assert command(["show", "one", "plan"]) == 0
    assert capsys.readouterr().out == "# Tea\n- leaves\n- water\n"
    assert command(["show", "one", "plan", "--raw"]) == 0
    assert capsys.readouterr().out == "# Tea\n- leaves\n- water\n"


@pytest.mark.parametrize("verb", ["run", "resume"])
def test_a_template_that_fails_leaves_the_run_its_end(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                      capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.md.j2").write_text("{{ plan.title }}: {{ plan.note }}\n")
    (tmp_path / "desk.yaml").write_text(
        "sop: desk\nartifacts:\n  plan: {schema: {title: string, 'note?': string}, render: plan.md.j2, file: plan.md}\n"
        "steps: {make: {value: \"{'title': 'Tea'}\", makes: plan}}\n")
    assert command(["run", "desk.yaml", "--name", "one"]) == 1
    if verb == "resume":
        capsys.readouterr()
        assert command(["resume", "one"]) == 1
    out = capsys.readouterr().out
    for part in ("one: stopped: plan.md.j2, which renders `plan` into plan.md", "`plan.note` is missing", "title  Tea",
                 "workspace/one/plan.md is not written: its template fails", "cost: 0 calls", "sop resume one"):
        assert part in out
