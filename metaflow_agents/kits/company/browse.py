"""A page in a browser, for what a first user tries: `from browse import opened, paste, seen`.

It runs where the product runs, with `playwright` beside it, and knows nothing of this project: commands are given its text.
`BROWSE_WITH` names the browser. As a program, with the address of a page, it looks at that page and prints
`{"text": what is seen, "faults": [what is wrong with it], "pictures": {name: PNG in base64}}` as JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

Page = Any
"""`playwright.sync_api.Page`, which is there where this runs."""

PATIENCE = 5_000
"""Milliseconds that an action waits for what it is about."""
MOST, LINES = 6_000, 20
"""Characters of what is seen, and things of one kind that are told."""
WIDE, NARROW = 1_280, 390
"""Pixels of a desk and of a phone."""
CLICKS, BEHIND, LONGEST = 10, 700, 30
"""Controls that are clicked, each on a page that is opened anew; characters that are told of each view; seconds for all."""
LARGEST = 1 << 20
"""Bytes of a picture."""
_LEADS = "button:visible, [role=button]:visible, [role=tab]:visible, summary:visible, a[href^='#']:visible"
_SCHEMES = ("http", "https", "file", "about")
_UNNAMED = """() => [...document.querySelectorAll("button, a[href], input:not([type=hidden]), select, textarea")].filter(one => {
    const drawn = one.checkVisibility ? one.checkVisibility() : one.offsetParent !== null
    const said = one.getAttribute("aria-label") || one.getAttribute("aria-labelledby") || one.title || one.textContent.trim()
        || one.placeholder || (one.labels && one.labels.length) || one.querySelector("img[alt]:not([alt='']), svg title")
        || (one.tagName == "INPUT" && (["submit", "reset"].includes(one.type) || (one.type == "button" ? one.value : one.alt)))
    return drawn && !said
}).map(one => one.cloneNode(false).outerHTML.slice(0, 120))"""
_OVER = """() => {
    const room = document.documentElement.clientWidth
    if (document.documentElement.scrollWidth <= room + 1) return ""
    const over = [...document.body.querySelectorAll("*")].filter(one => one.getBoundingClientRect().right > room + 1)
    return over.length ? over[0].cloneNode(false).outerHTML.slice(0, 120) : "the page"
}"""


class Seen:
    """What a page did by itself: what its scripts threw, what they wrote as errors, what could not be loaded, whom it asked."""

    def __init__(self) -> None:
        self.thrown: list[str] = []
        self.said: list[str] = []

    def watch(self, page: Page) -> None:
        """Notes what this page does, and accepts its dialogs."""
        page.on("pageerror", lambda error: self.thrown.append(str(error)[:300]))
        page.on("console", self._written)
        page.on("requestfailed", lambda one: self.said.append(f"can't be loaded: {one.url[:200]}"))
        page.on("response", self._answered)
        page.on("dialog", self._accepted)

    def _answered(self, one: Any) -> None:
        if one.status >= 400:
            self.said.append(f"answered {one.status}: {one.url[:200]}")

    def _written(self, one: Any) -> None:
        """What a script wrote as an error. The browser's own line on what it could not load is told, with its address, above."""
        if one.type == "error" and not one.text.startswith("Failed to load resource"):
            self.said.append(one.text[:300])

    def _accepted(self, dialog: Any) -> None:
        self.said.append(f"dialog, accepted: {dialog.message[:300]}")
        dialog.accept()


@contextlib.contextmanager
def opened(address: str, width: int = WIDE, quiet: Seen | None = None) -> Iterator[Page]:
    """The page of a path or a URL. What it keeps is there for the next `opened` of the same home.

    What its scripts threw is told at the end, and the command ends with 1; so it does, without a traceback, where an action
    finds nothing to act on. `quiet`: whoever asks keeps what was seen, and decides.
    """
    from playwright.sync_api import Error, sync_playwright

    saw = quiet or Seen()
    kept = Path(os.environ.get("HOME") or tempfile.mkdtemp()) / ".browse"
    with sync_playwright() as browsers:
        context = browsers.chromium.launch_persistent_context(
            str(kept), executable_path=os.environ["BROWSE_WITH"], viewport={"width": width, "height": 800},
            args=["--no-sandbox", "--disable-gpu"], accept_downloads=True)
        try:
            context.set_default_timeout(PATIENCE)
            context.on("page", saw.watch)
            for page in context.pages:
                saw.watch(page)
            page = context.pages[0] if context.pages else context.new_page()
            page.goto(address if urlsplit(address).scheme in _SCHEMES else Path(address).resolve().as_uri())
            yield page
        except Error as error:
            if quiet is not None:
                raise
            try:
                then = f"On the page then:\n{seen(page, MOST // 3)}"
            except Error:                           # a script, or the size of what is shown, keeps it busy
                then = f"The page does not answer within {PATIENCE // 1000} s."
            sys.exit(f"browse: {error.message.strip()[:600]}\n{then}\n{_told(saw)}")
        finally:
            with contextlib.suppress(Error):
                context.close()
    if quiet is None and (saw.thrown or saw.said):
        sys.stderr.write(f"{_told(saw)}\n")
    if quiet is None and saw.thrown:
        sys.exit(1)


def _told(saw: Seen) -> str:
    thrown = (f"a script of the page threw: {one}" for one in saw.thrown)
    return "\n".join([*list(dict.fromkeys(thrown))[:LINES], *list(dict.fromkeys(saw.said))[:LINES]])


def seen(page: Page, most: int = MOST) -> str:
    """What is on a page, as assistive programs see it: roles, names, values."""
    return _short(page.locator("body").aria_snapshot(), most)


def paste(field: Any, text: str) -> None:
    """Puts a text in the place of a field's, as the clipboard does: at once. Playwright's `fill` has the browser insert it line
    by line, and takes a minute for what a page takes in within a second.
    """
    field.evaluate("""(field, text) => {
        field.focus()
        if (field.isContentEditable) field.textContent = text
        else field.value = text
        field.dispatchEvent(new InputEvent("input", {bubbles: true, inputType: "insertFromPaste", data: text}))
    }""", text)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}\n[… {len(text) - most:,} characters …]"


def behind(page: Page, saw: Seen) -> tuple[list[str], list[str]]:
    """What is seen besides, and what goes wrong, after a click on each of the first controls: a view or a form that is not there
    when the page is opened. What the page keeps is emptied before each.
    """
    from playwright.sync_api import Error

    first = set(page.locator("body").aria_snapshot().splitlines())
    more, faults = list[str](), list[str]()
    until = time.monotonic() + LONGEST
    for number in range(min(page.locator(_LEADS).count(), CLICKS)):
        if time.monotonic() > until:
            break
        before = len(saw.thrown)
        try:
            page.evaluate("() => { try { localStorage.clear(); sessionStorage.clear() } catch { } }")
            page.reload()
            control = page.locator(_LEADS).nth(number)
            name = " ".join((control.get_attribute("aria-label") or control.inner_text())[:60].split())
            control.click(timeout=1_000)
            page.wait_for_timeout(200)
            new = [line for line in page.locator("body").aria_snapshot().splitlines() if line not in first]
        except Error:                               # it is covered, off or gone, or its server is: which may be right
            continue
        faults += [f"after a click on `{name}` a script throws: {one}" for one in saw.thrown[before:]]
        del saw.thrown[before:]
        if new:
            more.append(f"After a click on `{name}` there is also:\n{_short(chr(10).join(new), BEHIND)}")
    return more, faults


def looked_at(address: str) -> dict[str, object]:
    """What is seen on a page when it is opened and after a click on each of its controls, what is wrong with it then, and
    pictures of it on a desk and on a phone.
    """
    saw, faults = Seen(), list[str]()
    asked: list[str] = []
    pictures: dict[str, str] = {}
    with opened(address, quiet=saw) as page:
        page.context.on("request", lambda one: asked.append(one.url))
        page.reload()
        page.wait_for_timeout(500)
        text = seen(page)
        pictures["desk.png"] = _photographed(page)
        faults += [f"a control that says nothing to who can't see it: `{one}`" for one in page.evaluate(_UNNAMED)[:LINES]]
        page.set_viewport_size({"width": NARROW, "height": 800})
        page.wait_for_timeout(200)
        pictures["phone.png"] = _photographed(page)
        if over := page.evaluate(_OVER):
            faults.append(f"at {NARROW} pixels, a phone, it has to be scrolled sideways: `{over}` is too wide")
        thrown, said = list(saw.thrown), list(saw.said)
        page.set_viewport_size({"width": WIDE, "height": 800})
        more, wrong = behind(page, saw)
    own = urlsplit(address).netloc
    others = {urlsplit(one).netloc for one in asked if urlsplit(one).scheme in ("http", "https", "ws", "wss")} - {own}
    faults += [f"it asks another host, {one}" for one in sorted(others)]
    faults += [f"when it is opened a script throws: {one}" for one in dict.fromkeys(thrown)]
    faults += [f"when it is opened: {one}" for one in dict.fromkeys(said)]
    faults += [one for one in dict.fromkeys(wrong) if not any(one.endswith(f": {old}") for old in thrown)]
    return {"text": "\n\n".join([text, *more]), "faults": faults[:LINES],
            "pictures": {name: data for name, data in pictures.items() if data and text.strip()}}


def _photographed(page: Page) -> str:
    """What is in view, as PNG in base64; empty where the page can't be drawn in time or is too large."""
    from playwright.sync_api import Error

    try:
        data: bytes = page.screenshot(timeout=PATIENCE, animations="disabled", caret="initial")
    except Error:
        return ""
    return b64encode(data).decode() if len(data) <= LARGEST else ""


if __name__ == "__main__":
    sys.stdout.buffer.write(json.dumps(looked_at(sys.argv[1]), ensure_ascii=False).encode("utf-8", "replace"))
