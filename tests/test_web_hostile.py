"""What models, tools and files say, on the pages of a run in a real browser, by the rows of tests/security/web.yaml that have a
text: it is shown as the letters that it is, and has no effect.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import pytest
from hostile_texts import BROUGHT, ENDINGS, HIDES, LETTERS, SETTLED, TEXTS, made, written
from patience import PATIENCE
from web_desk import Client, serving

from metaflow_agents.kits.company.probing import browser_path

NO_BROWSER = "" if browser_path() else "no Chromium on this machine: the pages are not looked at"
pytestmark = pytest.mark.skipif(bool(NO_BROWSER), reason=NO_BROWSER)


@dataclass
class Seen:
    """What pages did that they should not."""

    effects: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Client, Seen]]:
    """A tab with a session at a server, whose one run holds all texts."""
    from playwright.sync_api import sync_playwright

    home = tmp_path_factory.mktemp("hostile")
    made(home)
    with serving(home, session=False) as client, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=["--no-sandbox"])
        try:
            page, seen = browser.new_page(), Seen()
            page.set_default_timeout(PATIENCE * 1000)

            def other(route: Any) -> None:
                seen.effects.append(f"asked {route.request.url}")
                route.abort()

            def said(message: Any) -> None:
                """What a frame's policy refuses is told on the console, and is as it should be."""
                blocked = message.location["url"] == "about:srcdoc" and message.text.startswith("Blocked script execution")
                if not blocked and not message.location["url"].startswith(f"{client.origin}/frame?"):
                    seen.effects.append(f"console: {message.text} {message.location}")

            page.route(lambda url: not url.startswith((client.origin, "data:", "blob:")), other)
            page.on("dialog", lambda dialog: (seen.effects.append(f"dialog {dialog.message}"), dialog.dismiss()))
            page.on("pageerror", lambda error: seen.effects.append(str(error)))
            page.on("console", said)
            page.goto(f"{client.origin}/#token={client.token}")
            page.get_by_role("heading", name="Runs").wait_for()
            yield page, client, seen
        finally:
            browser.close()


@pytest.mark.one_in(32, always=False)
@pytest.mark.parametrize("name", [*TEXTS])
def test_a_text_has_no_effect(looked: tuple[Any, Client, Seen], name: str) -> None:
    page, client, seen = looked
    seen.effects.clear()
    said = written(TEXTS[name])
    views: list[tuple[dict[str, str], str]] = [             # each with what it shows, letter by letter
        ({"view": "conversation", "key": f"say@1[{name}]~0"}, said), ({"view": "graph"}, ""), ({"view": "time"}, ""),
        ({"view": "artifacts", "name": "data"}, written(json.dumps(TEXTS[name], ensure_ascii=False))),
        *(({"view": "artifacts", "name": "pages", "path": f"pages/{name}.{ending}"}, said if ending == "txt" else "")
          for ending in ENDINGS)]
    for view, letters in views:
        page.goto("about:blank")
        page.goto(f"{client.origin}/#/run/it?{urlencode(view)}")
        page.locator("h1").wait_for()
        page.wait_for_function("document.querySelectorAll('main *').length > 5")
        if view.get("path"):
            page.locator(".shown-body > *").first.wait_for()
        page.wait_for_function(SETTLED, arg=letters)
        assert page.evaluate(BROUGHT) == [] and page.evaluate(HIDES) is None, view
        assert page.evaluate(LETTERS, letters), view
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
