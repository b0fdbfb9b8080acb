"""The file of `sop show RUN --html` in a real browser, from the disk: the run is full of hostile texts (tests/hostile_texts.py).
They are shown letter by letter, and nothing comes of them: no script, no request, no message of the console.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import pytest
from cli_desk import sop
from hostile_texts import BROUGHT, ENDINGS, HIDES, LETTERS, TEXTS, made, written
from patience import PATIENCE

from metaflow_agents.kits.company.probing import browser_path

NO_BROWSER = "" if browser_path() else "no Chromium on this machine: the file is not looked at"
pytestmark = pytest.mark.skipif(bool(NO_BROWSER), reason=NO_BROWSER)
MARK = """document.querySelectorAll('script, style, meta').forEach(one => one.setAttribute('data-ours', ''))"""


@dataclass
class Opened:
    """A tab with the file, and what it did that it should not."""

    page: Any
    address: str
    effects: list[str] = field(default_factory=list)

    def at(self, **query: str) -> None:
        """Goes to a view, without loading the file again."""
        self.page.evaluate("to => { location.hash = to }", f"#/run/it?{urlencode(query)}")

    def nothing_came(self) -> None:
        assert self.page.evaluate(BROUGHT) == [] and self.page.evaluate(HIDES) is None
        assert self.page.evaluate("document.querySelectorAll('iframe').length") == 0
        assert "pwned" not in self.page.title() and self.page.url.partition("#")[0] == self.address
        assert self.effects == []


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    from playwright.sync_api import sync_playwright

    home = tmp_path_factory.mktemp("hostile")
    made(home)
    shown = sop(home, "show", "it", "--html", "it.html")
    assert shown.returncode == 0, shown.stderr
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=["--no-sandbox"])
        try:
            page = browser.new_page()
            found = Opened(page, (home / "it.html").as_uri())
            page.set_default_timeout(PATIENCE * 1000)
            page.on("request", lambda request: request.url.partition("#")[0] == found.address
                    or request.url.startswith(("data:", "blob:")) or found.effects.append(f"asked {request.url}"))
            page.on("dialog", lambda dialog: (found.effects.append(f"dialog {dialog.message}"), dialog.dismiss()))
            page.on("pageerror", lambda error: found.effects.append(str(error)))
            page.on("console", lambda message: found.effects.append(f"console: {message.text}"))
            page.goto(found.address)
            page.locator("h1").wait_for()
            page.evaluate(MARK)
            yield found
        finally:
            browser.close()


def look(opened: Opened, names: Sequence[str], endings: Sequence[str]) -> None:
    """What was said, and files with these endings, of some of the texts."""
    for name in names:
        said = written(TEXTS[name])
        opened.at(view="conversation", key=f"say@1[{name}]~0")
        opened.page.wait_for_function(LETTERS, arg=said)
        for ending in endings:
            path = f"pages/{name}.{ending}"
            opened.at(view="artifacts", name="pages", path=path)
            opened.page.locator(".shown-body > *").first.wait_for()
            if ending in ("html", "txt"):
                opened.page.wait_for_function(LETTERS, arg=said)
        opened.nothing_came()


@pytest.mark.one_in(12, always=False)
def test_texts_have_no_effect_in_the_file(opened: Opened) -> None:
    """Each as what somebody said, and as a page."""
    look(opened, [*TEXTS], ["html"])
    for view in ({"view": "graph"}, {"view": "time"}, {"view": "artifacts", "name": "data"}):
        opened.at(**view)
        opened.page.wait_for_function("document.querySelectorAll('main *').length > 5")
        opened.nothing_came()


@pytest.mark.slow
def test_files_of_all_kinds_have_no_effect_in_the_file(opened: Opened) -> None:
    look(opened, [*TEXTS], ENDINGS)
