"""A page in a real browser, as commands of a first user get it: what they see and do, and what is wrong by itself."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import struct
import subprocess
import sys
from base64 import b64decode
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from deliveries import SHELF, free_port, lay_out

from metaflow_agents.kits.company import means, photographs, probe_pack, requirements, transcript

FOUND = means("page")
pytestmark = pytest.mark.skipif(not FOUND["browser"] or importlib.util.find_spec("playwright") is None,
                                reason="no browser on this machine, or no playwright beside it")
HEAD = "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'><title>t</title>"
COUNTER = HEAD + """<main><label>Name <input id=name></label><button id=add>Add</button><ul id=all></ul>
<button id=bad>Break</button><button id=ask>Ask</button></main><script>
const kept = JSON.parse(localStorage.getItem("all") || "[]")
const typed = () => document.getElementById("name").value
const draw = () => { all.replaceChildren(...kept.map(one => Object.assign(document.createElement("li"), {textContent: one}))) }
add.onclick = () => { kept.push(typed()); localStorage.setItem("all", JSON.stringify(kept)); draw() }
bad.onclick = () => { nothing.there() }
ask.onclick = () => { if (confirm("Really?")) kept.push("confirmed"); draw() }
draw()</script>"""


def ran(folder: Path, source: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A Python that has the module, in a folder with a home of its own."""
    (folder / "browse.py").write_text(FOUND["browse"], "utf-8")
    (folder / "home").mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-c", source, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=120,
        env={"PATH": os.environ["PATH"], "BROWSE_WITH": FOUND["browser"], "HOME": str(folder / "home"),
             "PYTHONPATH": str(folder)})


def looked_at(folder: Path, pages: Mapping[str, str]) -> dict[str, Any]:
    for path, text in pages.items():
        (folder / path).write_text(text, "utf-8")
    done = ran(folder, FOUND["browse"], "index.html")
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


WRONG = {
    "<button><svg></svg></button>": "a control that says nothing to who can't see it: `<button>",
    "<input id=a>": "a control that says nothing to who can't see it: `<input id=\"a\">",
    "<div style='width:900px' class=wide>x</div>": "has to be scrolled sideways: `<div style=\"width:900px\" class=\"wide\">",
    "<script>nothing.there()</script>": "when it is opened a script throws: nothing is not defined",
    "<script>Promise.reject(new Error('lost'))</script>": "when it is opened a script throws: lost",
    "<script>console.error('no place')</script>": "when it is opened: no place",
    "<script src=gone.js></script>": "when it is opened: can't be loaded: file://",
    "<script>fetch('http://127.0.0.1:9/a').catch(() => {})</script>": "it asks another host, 127.0.0.1:9"}


@pytest.mark.one_in(8, always=False)
def test_what_is_wrong_with_a_page_by_itself_is_told_and_each_thing_once(tmp_path: Path) -> None:
    faults = looked_at(tmp_path, {"index.html": f"{HEAD}<p>words</p>{''.join(WRONG)}"})["faults"]
    for said in WRONG.values():
        assert sum(said in one for one in faults) == 1, (said, faults)
    assert len(faults) == len(WRONG) + 1                        # and that the other host, who does not answer, can't be loaded


@pytest.mark.one_in(8, always=False)
def test_a_sound_page_has_no_fault_and_what_is_seen_has_roles_and_names(tmp_path: Path) -> None:
    """Controls that have a name, each in another way, or are not drawn; and what scrolls by itself."""
    body = ("<label>a <input></label><input aria-label=b><input title=c><input placeholder=d><button aria-label=e></button>"
            "<button><img alt=f src='data:image/gif;base64,R0lGODlhAQABAAAAACw='></button><input type=submit>"
            "<input type=button value=g><input hidden><a href='#x'>h</a>"
            "<div style='overflow:auto'><div style='width:3000px'>i</div></div>"
            "<div hidden><button></button></div>")
    told = looked_at(tmp_path, {"index.html": f"{COUNTER.replace('nothing.there()', '')}{body}"})
    assert told["faults"] == [] and 'textbox "Name"' in told["text"] and 'button "Add"' in told["text"]


HIDING = HEAD + """<p>words</p><nav><a href="#add">New game</a></nav><button id=off disabled>Off</button>
<section id=add hidden><label>Player <input></label></section><button id=keep>Keep</button><button id=bad>Break</button>
<ul id=all></ul>
<script>onhashchange = () => { document.getElementById("add").hidden = location.hash != "#add" }
const draw = () => { all.innerHTML = localStorage.kept ? "<li>kept</li>" : "" }
keep.onclick = () => { localStorage.kept = 1; draw() }
bad.onclick = () => { nothing.there() }
draw()</script>"""


@pytest.mark.one_in(8, always=False)
def test_what_is_behind_a_click_is_seen_too_and_what_goes_wrong_then_is_told(tmp_path: Path) -> None:
    """A control that is off is no fault; what one click keeps is not there at the next."""
    told = looked_at(tmp_path, {"index.html": HIDING})
    assert told["faults"] == ["after a click on `Break` a script throws: nothing is not defined"]
    first, *more = told["text"].split("\n\n")
    assert 'textbox "Player"' not in first and [one.splitlines()[0] for one in more] == [
        "After a click on `New game` there is also:", "After a click on `Keep` there is also:"]
    assert 'textbox "Player"' in more[0] and "listitem: kept" in more[1]


USED = """
from browse import opened, seen
with opened("index.html") as page:
    page.get_by_label("Name").fill("Ann")
    page.get_by_role("button", name="Add").click()
    WHAT
"""


def used(folder: Path, what: str) -> subprocess.CompletedProcess[str]:
    (folder / "index.html").write_text(COUNTER, "utf-8")
    return ran(folder, USED.replace("WHAT", what))


@pytest.mark.one_in(8, always=False)
def test_a_page_is_used_as_a_user_does_and_what_it_keeps_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    again = "with opened('index.html', width=390) as page: print(seen(page), page.viewport_size['width'])"
    done = used(tmp_path, f"page.get_by_role('button', name='Ask').click(); print(seen(page))\n{again}")
    first, _, then = done.stdout.rpartition("main:")
    assert done.returncode == 0 and "listitem: confirmed" in first, done
    assert "listitem: Ann" in then and "390" in then
    assert done.stderr == "dialog, accepted: Really?\n"


@pytest.mark.one_in(8, always=False)
@pytest.mark.parametrize(("what", "said"), [
    ("page.get_by_role('button', name='Break').click()", "a script of the page threw: nothing is not defined"),
    ("page.get_by_role('button', name='Nobody').click()", "listitem: Ann"),
    ("page.evaluate('setTimeout(() => { for (;;); }, 0)'); page.get_by_label('x').click(timeout=9)", "does not answer within"),
    ("1 / 0", "ZeroDivisionError")])
def test_what_went_wrong_is_told_with_what_is_on_the_page_then(what: str, said: str, tmp_path: Path) -> None:
    done = used(tmp_path, what)
    assert done.returncode == 1 and done.stderr.count(said) == 1, done
    assert "Traceback" not in done.stderr or "1 / 0" in what


@pytest.mark.one_in(8, always=False)
def test_a_long_text_is_pasted_at_once(tmp_path: Path) -> None:
    """Into a field and into what can be edited; the page hears of it once, and of all of it."""
    page = HEAD + ("<textarea aria-label=Text oninput='heard.push(this.value.length)'></textarea>"
                   "<div role=textbox aria-label=Rich contenteditable oninput='heard.push(this.textContent.length)'></div>"
                   "<script>const heard = []</script>")
    (tmp_path / "index.html").write_text(page, "utf-8")
    done = ran(tmp_path, "from browse import opened, paste\nwith opened('index.html') as page:\n"
               "    for name in ('Text', 'Rich'): paste(page.get_by_label(name), 'a line\\n' * 20_000)\n"
               "    print(page.evaluate('heard'))")
    assert done.stdout == "[140000, 140000]\n", done


async def test_a_browser_is_for_pages_and_what_it_shows_stands_in_the_transcript() -> None:
    assert means("cli")["browser"] == means("cli")["browse"] == ""
    assert FOUND["browse"] == files("metaflow_agents.kits.company").joinpath("browse.py").read_text("utf-8")
    assert "playwright>=1.50" in requirements({}, FOUND) and "playwright>=1.50" not in requirements({}, means("cli"))
    told = await transcript({}, {"uses": []}, None, {"text": "- main", "faults": ["a script throws: no"]}, None, {})
    assert told["broken"] == [{"id": "tried-1", "why": "index.html: a script throws: no"}]
    assert "It was opened in a browser.\n- index.html: a script throws: no" in told["text"]


@pytest.mark.one_in(8, always=False)
def test_a_page_is_photographed_on_a_desk_and_on_a_phone(tmp_path: Path) -> None:
    told = looked_at(tmp_path, {"index.html": COUNTER})
    made = photographs(told, None)
    assert {name: struct.unpack(">II", data[16:24]) for name, data in made.items()} == {
        "photos/desk.png": (1280, 800), "photos/phone.png": (390, 800)}
    assert all(data.startswith(b"\x89PNG\r\n\x1a\n") for data in made.values())
    assert json.loads(ran(tmp_path, FOUND["browse"], "about:blank").stdout)["pictures"] == {}


@pytest.mark.one_in(16, always=False)
async def test_the_pages_of_a_server_are_seen_and_photographed_too(tmp_path: Path) -> None:
    """As the probe starts it. What goes wrong in the browser is told with the page's path."""
    shelf = {path: text.replace("<h1 class", "<script>nothing.there()</script><h1 class") for path, text in SHELF.items()}
    folder = lay_out(shelf, tmp_path / "product", free_port())
    (tmp_path / "probe.zip").write_bytes(b64decode(probe_pack("web")))
    (tmp_path / "browse.py").write_text(FOUND["browse"], "utf-8")
    words = [sys.executable, tmp_path / "probe.zip", "web", tmp_path / "browse.py"]
    done = await asyncio.to_thread(subprocess.run, words, cwd=folder, capture_output=True, text=True,
                                   env={**os.environ, "BROWSE_WITH": FOUND["browser"]})
    found = json.loads(done.stdout)
    assert found["left_out"] == [] and found["faults"] == [], done.stderr
    paths = [sight["path"] for sight in found["sights"]]
    assert paths[0] == "/" and 1 < len(paths) <= 5
    made = photographs(None, found)
    assert {*made} == {"photos/desk.png", "photos/phone.png", *(f"photos/{n}.desk.png" for n in range(2, len(paths) + 1))}
    told = await transcript({}, {"uses": []}, found, None, None, {})
    assert "its pages opened in a browser" in told["text"]
    assert "GET /, in a browser: when it is opened a script throws: nothing is not defined" in told["broken"][0]["why"]
