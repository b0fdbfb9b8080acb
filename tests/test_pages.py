"""What a page that is opened from the disk names and has not: files, ids, styles."""

from __future__ import annotations

from time import process_time

import pytest

from metaflow_agents.kits.company.pages import page_faults

PAGE = """<!doctype html>
<html lang="en">
<head>
  <link rel="stylesheet" href="assets/style.css?v=1">
  <link rel="canonical" href="https://example.org/">
  <link rel="icon" href="data:,">
</head>
<body class="wide">
  <main id="board" class="board"><button id="new" class="primary js-new">New</button></main>
  <a href="https://example.org/" class="quiet">more</a>
  <script src="assets/rules.js"></script>
  <script src="./assets/app%20main.js"></script>
</body>
</html>
"""
SCRIPT = """
const board = document.getElementById("board");
const made = document.createElement("p");
made.id = "score";
document.querySelector('#score').textContent = "0";
document.querySelector(".js-new");
"""
FINE = {"index.html": PAGE, "assets/style.css": ".wide {} .board {} .primary {} .quiet {}", "assets/rules.js": "",
        "assets/app main.js": SCRIPT}


async def faults(changes: dict[str, str | None]) -> list[str]:
    texts = {path: text for path, text in (FINE | changes).items() if text is not None}
    return await page_faults(texts, list(texts))


async def test_a_page_that_has_what_it_names_has_no_fault() -> None:
    assert await faults({}) == []


@pytest.mark.parametrize(("changes", "told"), [
    ({"assets/style.css": None}, ["`index.html`, line 4: `<link>` loads `assets/style.css?v=1`, and no such file is there"]),
    ({"assets/rules.js": None}, ["`index.html`, line 11: `<script>` loads `assets/rules.js`, and no such file is there"]),
    ({"index.html": PAGE.replace("assets/rules.js", "/assets/rules.js")}, ["line 11: `<script>` loads `/assets/rules.js`"]),
    ({"index.html": PAGE.replace("assets/rules.js", "../rules.js")}, ["line 11: `<script>` loads `../rules.js`"]),
    ({"index.html": PAGE.replace("assets/rules.js", "https://cdn.example/a.js")}, ["line 11", "from another host"]),
    ({"index.html": PAGE.replace("assets/rules.js", "//cdn.example/a.js")}, ["line 11", "from another host"]),
    ({"index.html": PAGE.replace("<script src", "<script type=module src", 1)}, ["line 11", "a browser refuses a module"]),
    ({"index.html": PAGE.replace('id="board"', 'id="table"')},
     ["`assets/app main.js`, line 2: no element has the id `board`, and no script gives it to one"]),
    ({"assets/app main.js": SCRIPT.replace('made.id = "score";\n', "")}, ["line 4: no element has the id `score`"]),
    ({"index.html": PAGE + "<script>document.getElementById('lost')</script>"},
     ["`index.html`, line 15: no element has the id `lost`"]),
    ({"index.html": PAGE + "<p class='one two three'>", "assets/style.css": "body {}"},
     ["no style sheet and no script names the classes `wide`, `primary`, `quiet`, `one`, `two`, `three`"]),
    ({"about.html": "<img src=no.png>"}, ["`about.html`, line 1: `<img>` loads `no.png`"]),
    ({"deep/a.html": "<img src=no.png>"}, ["`deep/a.html`, line 1"]),
])
async def test_what_is_missing_is_told_with_its_place(changes: dict[str, str | None], told: list[str]) -> None:
    found = await faults(changes)
    assert len(found) == 1 and all(part in found[0] for part in told), found


@pytest.mark.parametrize("changes", [
    {"index.html": PAGE.replace('<button id="new"', '<template id="row"></template><button id="new"'),
     "assets/app main.js": SCRIPT + "document.getElementById('row').content"},
    {"assets/app main.js": SCRIPT + "const ID = 'late'; make(ID); document.getElementById('late')"},
    {"assets/app main.js": SCRIPT + "make(`<i id=\"soon\">`); document.querySelector('#soon')"},
    {"assets/style.css": ".wide {} .board {}"},
    {"assets/style.css": "", "index.html": PAGE.replace("</head>", "<style>.wide{} .board{} .primary{}</style></head>")},
    {"deep/a.html": "<script src='../assets/rules.js'></script><a href='nowhere.html'>"},
    {"index.html": PAGE + "<a href='mailto:a@example.org'><img alt=''><img src=''><svg><use href='#x'/></svg>"},
    {"index.html": PAGE + "<img src='blob:x'><iframe src='about:blank'></iframe>"},
    {"index.html": PAGE + "<script src=\"assets/rules.js#x\"></script><!-- <img src=no.png> -->"},
])
async def test_what_a_sound_page_may_do_is_no_fault(changes: dict[str, str | None]) -> None:
    assert await faults(changes) == []


@pytest.mark.parametrize("text", [
    "<div " * 100_000, "<!--" * 100_000, "<a b='" * 100_000, "<style>" * 30_000, "<script>" * 30_000, "&" * 400_000,
    "<![CDATA[" * 60_000, "<a " + "b" * 400_000,
    pytest.param("<div>" * 100_000, marks=pytest.mark.one_in(8)), "getElementById('" * 20_000, "<p class='" + "a " * 100_000,
    "".join(f"<script>document.getElementById('a{number}')</script>" for number in range(3_000))])
async def test_hostile_pages_hold_up_nobody(text: str) -> None:
    began = process_time()
    found = await faults({"index.html": text})
    assert process_time() - began < 0.5, "it is the worker's time"
    assert all("`index.html`" in one or "assets" in one for one in found)
