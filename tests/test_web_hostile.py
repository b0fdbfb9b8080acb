"""What models, tools and files say, on the pages of a run in a real browser, by the rows of tests/security/web.yaml that have a
text: it is shown as the letters that it is, and has no effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from patience import PATIENCE
from test_web_security import ROWS
from web_desk import Client, serving

from metaflow_agents.api.run import start
from metaflow_agents.kits.company.probing import browser_path

NO_BROWSER = "" if browser_path() else "no Chromium on this machine: the pages are not looked at"
pytestmark = pytest.mark.skipif(bool(NO_BROWSER), reason=NO_BROWSER)
ELSEWHERE = "http://elsewhere.example"
TEXTS = {row["id"]: row["text"].replace("{elsewhere}", ELSEWHERE).replace("{{", "{").replace("}}", "}")
         for row in ROWS if "text" in row}
HOSTILE = """
sop: hostile
roles: {writer: {profile: a writer}}
inputs: {texts: {type: any}}
artifacts:
  said: {each: string}
  pages: {files: "pages/**"}
  data: {schema: any}
steps:
  say: {role: writer, needs: [texts], foreach: {in: "texts | list", as: name}, makes: said, on_fail: skip}
  lay: {needs: [texts], makes: pages, value: "PAGES"}
  keep: {needs: [texts], makes: data, value: "DATA"}
"""
ENDINGS = ("md", "html", "svg", "txt")
PAGES = "{" + ", ".join(f"'pages/{name}.{ending}': texts['{name}']" for name in TEXTS for ending in ENDINGS) + "}"
DATA = "{" + ", ".join(f"texts['{name}']: [texts['{name}']]" for name in TEXTS) + "}"


@dataclass
class Seen:
    """What pages did that they should not."""

    effects: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Client, Seen]]:
    """A tab with a session at a server, whose one run holds all texts."""
    from playwright.sync_api import sync_playwright

    home = tmp_path_factory.mktemp("hostile")
    (home / "hostile.yaml").write_text(HOSTILE.replace("PAGES", PAGES).replace("DATA", DATA))
    asyncio.run(_made(home))
    with serving(home, session=False) as client, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=["--no-sandbox"])
        try:
            page, seen = browser.new_page(), Seen()
            page.set_default_timeout(PATIENCE * 1000)

            def other(route: Any) -> None:
                seen.effects.append(f"asked {route.request.url}")
                route.abort()

            page.route(lambda url: not url.startswith((client.origin, "data:", "blob:")), other)
            page.on("dialog", lambda dialog: (seen.effects.append(f"dialog {dialog.message}"), dialog.dismiss()))
            page.on("pageerror", lambda error: seen.effects.append(str(error)))
            page.goto(f"{client.origin}/#token={client.token}")
            page.get_by_role("heading", name="Runs").wait_for()
            yield page, client, seen
        finally:
            browser.close()


async def _made(home: Path) -> None:
    def answer(request: Any) -> str:
        name = request.key.partition("[")[2].partition("]")[0]
        if name.endswith("style"):
            raise ValueError(TEXTS[name])
        return TEXTS[name]

    async with start(home / "hostile.yaml", inputs={"texts": TEXTS}, model=answer, workspace=home / "workspace",
                     name="it") as going:
        assert (await going.result()).outcome == "success"


@pytest.mark.one_in(12, always=False)
@pytest.mark.parametrize("name", [*TEXTS])
def test_a_text_has_no_effect(looked: tuple[Any, Client, Seen], name: str) -> None:
    page, client, seen = looked
    seen.effects.clear()
    views = [{"view": "conversation", "key": f"say@1[{name}]~0"}, {"view": "graph"}, {"view": "time"},
             {"view": "artifacts", "name": "data"},
             *({"view": "artifacts", "name": "pages", "path": f"pages/{name}.{ending}"} for ending in ENDINGS)]
    for view in views:
        page.goto("about:blank")
        page.goto(f"{client.origin}/#/run/it?{urlencode(view)}")
        page.locator("h1").wait_for()
        page.wait_for_function("document.querySelectorAll('main *').length > 5")
        brought = page.evaluate("""() => [...document.querySelectorAll(
            'script:not([src]), object, embed, base, meta[http-equiv], iframe:not([sandbox]), [onerror], [onload], [onfocus], '
            + 'a[href^="javascript:"], a[href^="data:"], form[action], link[href^="http"], img[src^="http"], style')]
            .map(one => one.outerHTML.slice(0, 200))""")
        assert brought == [], view
        assert "pwned" not in page.title() and page.url.startswith(client.origin), view
    frame = page.evaluate("""async address => {
        const frame = document.createElement("iframe");
        frame.setAttribute("sandbox", "");
        frame.src = address;
        const loaded = new Promise(resolve => frame.addEventListener("load", resolve));
        document.body.append(frame);
        await loaded;
        return frame.contentDocument === null;
    }""", f"/frame?{urlencode({'run': 'it', 'name': 'pages', 'path': f'pages/{name}.html'})}")
    assert frame, "it has an origin of its own"
    assert seen.effects == [] and "pwned" not in page.title()
