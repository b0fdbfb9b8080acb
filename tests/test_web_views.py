"""The time line, conversations, artifacts, comparisons and memories in a real browser, over a real server, with real runs."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE, until
from views_scenes import HOSTILE, lay_out_scenes, run_scene
from web_browser import NO_BROWSER, Server, Watch, browsing, serving

pytestmark = [pytest.mark.skipif(bool(NO_BROWSER), reason=NO_BROWSER), pytest.mark.one_in(3, always=False)]
CLASSICS = Path(__file__).parent.parent / "examples" / "classics"
AA = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("views")) as found:
        lay_out_scenes(found.folder)
        yield found


@pytest.fixture(scope="module")
def browser(server: Server) -> Iterator[tuple[Any, Watch]]:
    with browsing(server) as found:
        found[0].add_init_script("window.effects = 0")
        yield found


@pytest.fixture
def page(browser: tuple[Any, Watch]) -> Iterator[Any]:
    """A tab. Whatever a test looks at, the console stays empty, nobody else is asked, and no text acts."""
    context, watch = browser
    watch.faults()
    found = context.new_page()
    yield found
    try:
        if not found.is_closed():
            assert found.evaluate("window.effects") in (0, None)
    finally:
        found.close()
    assert watch.faults() == []


class Runs:
    """Runs of the scenes, each carried out once, when it is asked for."""

    def __init__(self, server: Server) -> None:
        self._server, self._there = server, set[str]()

    def __call__(self, scene: str, model: str, *words: str, name: str = "") -> str:
        name = name or scene
        if name not in self._there:
            run_scene(self._server.folder, scene, model, *words, name=name)
            self._there.add(name)
        return name


@pytest.fixture(scope="module")
def runs(server: Server) -> Runs:
    return Runs(server)


def visit(page: Any, server: Server, fragment: str) -> None:
    page.goto("about:blank")
    page.goto(f"{server.origin}/{fragment}")
    page.locator("h1").first.wait_for()


def in_view(locator: Any) -> bool:
    """Whether an element stands where somebody sees it, without scrolling."""
    found: bool = locator.evaluate("""(element) => {
        const box = element.getBoundingClientRect();
        const there = document.elementFromPoint(box.left + Math.min(box.width, 200) / 2, box.top + box.height / 2);
        return !!there && (element.contains(there) || there.contains(element));
    }""")
    return found


# -- the time line


@pytest.mark.one_in(4)
def test_what_failed_and_what_was_repeated_is_seen_at_once(page: Any, server: Server, runs: Runs) -> None:
    visit(page, server, f"#/run/{runs('pages', 'writer')}?view=time")
    again = page.get_by_role("option", name="write [two], try 2")
    again.wait_for()
    assert in_view(again) and again.locator(".tl-try").inner_text() == "try 2"
    failed = page.locator(".tl-row.failed")
    assert [one.get_attribute("data-key") for one in failed.all()] == ["write@1[two]~0", "write@1[four]~0", "write@1[four]~1"]
    assert all(in_view(one) for one in failed.all())
    colour = "(element) => getComputedStyle(element).backgroundColor"
    assert failed.first.evaluate(colour) != page.locator(".tl-row.done").first.evaluate(colour)
    assert failed.first.locator(".tl-sign").inner_text() == "✕", "not by the colour alone"
    counts = {one.inner_text().split()[0]: one.inner_text().split()[1] for one in page.locator(".chip").all()}
    assert (counts["All"], counts["Failed"], counts["Repeated"]) == ("10", "3", "2")

    page.get_by_role("button", name="Failed 3").click()                           # only these
    until(lambda: page.locator(".tl-row").count() == 3, "the filter acts")
    failed.first.click()
    page.locator(".tl-detail .complaint", has_text="no ink left for this page").wait_for()
    assert "key=write%401%5Btwo%5D~0" in page.url.replace("%7E", "~")
    page.get_by_role("button", name="Open conversation").click()
    page.get_by_role("heading", name="write [two]").wait_for()


@pytest.mark.slow
def test_the_time_line_is_zoomed_and_moved_by_keys_and_wheel(page: Any, server: Server, runs: Runs) -> None:
    visit(page, server, f"#/run/{runs('pages', 'writer')}?view=time")
    rows = page.get_by_role("listbox")
    page.locator(".tl-row[data-key]").first.wait_for()
    marks = page.locator(".tl-axis text")
    whole = marks.all_text_contents()
    rows.focus()
    for key in ("+", "+"):
        page.keyboard.press(key)
    until(lambda: marks.all_text_contents() != whole, "the keyboard zooms")
    near = marks.all_text_contents()
    page.keyboard.press("ArrowRight")
    until(lambda: marks.all_text_contents() != near, "the keyboard moves")
    page.keyboard.press("0")
    until(lambda: marks.all_text_contents() == whole, "the whole run again")
    box = page.locator(".tl-axis svg").bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 10)
    page.mouse.wheel(0, -400)
    until(lambda: marks.all_text_contents() != whole, "the wheel zooms over the axis")
    page.get_by_role("button", name="Whole run").click()
    until(lambda: marks.all_text_contents() == whole, "a button shows all")
    page.mouse.move(box["x"] + 100, box["y"] + 10)                                # a span of the axis, chosen by dragging
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"] + 12, steps=4)
    page.mouse.up()
    until(lambda: marks.all_text_contents() != whole, "a span is chosen")
    rows.focus()
    page.keyboard.press("ArrowDown")
    until(lambda: rows.get_attribute("aria-activedescendant"), "a row is chosen by the keyboard")
    page.keyboard.press("f")
    chosen = page.locator(".tl-row.active")
    until(lambda: "failed" in (chosen.get_attribute("class") or ""), "the next failed one")
    page.keyboard.press("Enter")
    page.locator(".conversation").wait_for()


def test_the_critical_path_and_what_more_at_once_would_have_saved_are_told(page: Any, server: Server, runs: Runs) -> None:
    visit(page, server, f"#/run/{runs('pages', 'writer')}?view=time")
    page.get_by_text("Critical path:").wait_for()
    marked = page.locator(".tl-row", has=page.locator(".tl-critical"))
    told = json.loads(page.evaluate("fetch('/api/run/activations?run=pages').then((answer) => answer.text())"))
    keys = [row["key"] for row in told["rows"] if row["key"] in told["critical"]]
    assert [row.get_attribute("data-key") for row in marked.all()] == keys
    assert "tell@1~0" in told["critical"], "nothing could end before the last step"


@pytest.mark.slow
def test_a_thousand_live_items_keep_up(page: Any, server: Server) -> None:
    live(page, server, 1000)


def number_in(chip: Any) -> int:
    return int(chip.inner_text().replace(",", "").split()[1])


@pytest.mark.one_in(8, always=False)
def test_live_items_keep_up(page: Any, server: Server) -> None:
    live(page, server, 120)


def live(page: Any, server: Server, items: int) -> None:
    """A page that follows a run to its end shows all of it, more and more, with as few elements as fit on it."""
    go = server.folder / "go"
    go.write_text("0")
    name = f"live-{items}"
    process = server.begin("run", "live.yaml", "--many", str(items), "--model", "python:desk.py:counter", "--name", name)
    try:
        until(lambda: (server.folder / "workspace" / ".journals" / f"{name}.db").exists(), "the run has begun")
        visit(page, server, f"#/run/{name}?view=time")
        page.locator(".tl-row.running").first.wait_for()
        page.evaluate("window.most = 0; setInterval(() => { "
                      "window.most = Math.max(window.most, document.querySelectorAll('*').length) }, 50)")
        begun = page.locator(".chip").first
        for part in (3, 2, 1):                          # it is seen to grow
            before = number_in(begun)
            go.write_text(str(items // part))
            until(lambda before=before: number_in(begun) > before, "the page is told of more")
        page.locator(".run-title .state").get_by_text("success", exact=True).wait_for()
        until(lambda: number_in(begun) == items, "all rows are there")
        until(lambda: page.locator(".chip.failed").inner_text().split()[1] == "1", "the one that failed is counted")
        until(lambda: page.locator(".tl-row.running").count() == 0, "nothing seems to go on")
        assert page.evaluate("window.most") < 1500
        rows = page.get_by_role("listbox")
        rows.evaluate("(list) => { list.scrollTop = list.scrollHeight }")
        page.locator(f'.tl-row[aria-posinset="{items}"]').wait_for()
    finally:
        go.write_text(str(items))
        if process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)
            process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE)


# -- conversations


@pytest.mark.one_in(8, always=False)
def test_a_conversation_reads_from_the_prompt_to_what_was_made(page: Any, server: Server, runs: Runs) -> None:
    visit(page, server, f"#/run/{runs('talk', 'reader')}?view=conversation&key=read@1~0")
    first = page.locator(".turn").first
    first.wait_for()
    for part in ("task", "form of the answer"):
        first.locator(".part-head", has_text=part).wait_for()
    assert "tokens" in first.locator(".part-head", has_text="task").inner_text()
    assert "Read a long book." in first.text_content()
    torn = page.locator(".turn").nth(7)
    torn.scroll_into_view_if_needed()
    assert "page 7 is torn out" in torn.text_content() and torn.locator(".pill.failed").text_content() == "error"


@pytest.mark.one_in(8, always=False)
def test_a_conversation_of_a_hundred_turns_scrolls_and_is_searched(page: Any, server: Server, runs: Runs) -> None:
    visit(page, server, f"#/run/{runs('talk', 'reader')}?view=conversation")      # the activation that there is
    page.locator(".turn").first.wait_for()
    turns = page.locator(".turns > article")
    scroll_to(page, turns, 100)
    find = page.get_by_placeholder("Find in it…")
    find.fill("zanzibar")
    found = page.locator(".find [role=status]")
    found.get_by_text("1 of 1", exact=True).wait_for()
    until(lambda: in_view(page.locator("mark.current")), "the place comes into view")
    find.fill("page 7 is torn")
    found.get_by_text("1 of 2", exact=True).wait_for()
    until(lambda: "torn" in page.locator("mark.current").inner_text() and in_view(page.locator("mark.current")), "another place")


@pytest.mark.slow
def test_four_hundred_calls_of_a_tree_of_thoughts_scroll(page: Any, server: Server) -> None:
    said = server.sop("run", str(CLASSICS / "tree_of_thoughts.yaml"), "--numbers", "4 5 6 10",
                      "--model", f"python:{CLASSICS}/desk.py:player", "--name", "tree")
    assert "success" in said, said
    visit(page, server, "#/run/tree?view=conversation&key=solve@1~0")
    page.locator(".thoughts").get_by_text("gone on with", exact=False).first.wait_for()
    kept = page.locator(".thought.kept")
    assert kept.count() >= 3 and page.locator(".thought-level .thought-level .thought-level .kept").count() >= 1, "three deep"
    total = int(page.locator(".conversation-told").inner_text().split(" turns")[0].split()[-1])
    assert total >= 200
    turns = page.locator(".turns > article")
    scroll_to(page, turns, total)
    kept.first.locator("button").first.click()
    page.wait_for_url("**key=solve%401%7E0%2F*".replace("%7E", "*"))


def scroll_to(page: Any, turns: Any, number: int) -> None:
    """Scrolls down to the end, again and again, until so many turns are there."""
    def down() -> bool:
        page.locator(".run-view").evaluate("(view) => { view.scrollTop = view.scrollHeight }")
        return int(turns.count()) >= number
    until(down, f"turn {number} comes into view")


@pytest.mark.slow
def test_a_run_begins_again_from_a_step(page: Any, server: Server, runs: Runs) -> None:
    visit(page, server, f"#/run/{runs('draft', 'drafts', '--topic', 'tea', name='draft-1')}?view=conversation&key=write@2~0")
    page.get_by_role("button", name="Run again from here…").click()
    page.get_by_label("Name", exact=True).fill("from-write-2")
    page.get_by_role("button", name="Fork", exact=True).click()
    page.wait_for_url("**/#/run/from-write-2")
    page.locator(".run-title .state").get_by_text("success", exact=True).wait_for()
    assert "from-write-2" in server.sop("runs")


# -- artifacts


@pytest.mark.one_in(4)
def test_versions_are_shown_and_compared(page: Any, server: Server, runs: Runs) -> None:
    visit(page, server, f"#/run/{runs('draft', 'drafts', '--topic', 'tea', name='draft-1')}?view=artifacts&name=draft")
    page.locator(".markdown h2, .markdown h3").get_by_text("Tea", exact=True).wait_for()
    assert "It may be cold." in page.locator(".markdown").inner_text()
    page.get_by_role("button", name="write@2").wait_for()                         # who made it
    page.get_by_label("version").select_option("1")
    page.locator(".markdown", has_text="It is hot.").wait_for()
    page.get_by_role("button", name="Compare with @2").click()
    page.locator("tr.taken", has_text="It is hot.").wait_for()
    page.locator("tr.added", has_text="It may be cold.").wait_for()
    page.get_by_role("button", name="program").click()                            # files, one of which changed
    page.get_by_role("button", name="other.py").click()
    page.locator(".code", has_text="x = 1").wait_for()
    page.get_by_role("tab", name="Files", exact=True).click()
    page.get_by_role("button", name="draft.md").first.click()
    page.get_by_role("button", name="Compare with draft@1").click()
    page.locator("tr.added", has_text="It may be cold.").wait_for()
    page.get_by_role("tab", name="Changes").click()
    change = page.locator(".commits li", has_text="write: draft@2 by writer")
    assert "after judge@1" in change.inner_text() or "after verdict@1" in change.inner_text(), change.inner_text()
    change.get_by_role("button", name="draft.md").click()
    page.locator("tr.taken", has_text="It is hot.").wait_for()


# -- whatever anybody says is text

HOSTILE_VIEWS = {
    "time": "?view=time", "prompt": "?view=conversation&key=think@1~0", "failed": "?view=conversation&key=write_note@1~0",
    "text": "?view=artifacts&name=text", "markdown": "?view=artifacts&name=note", "html": "?view=artifacts&name=page",
    "table": "?view=artifacts&name=table", "svg": "?view=artifacts&name=drawing", "data": "?view=artifacts&name=data",
    "files": "?view=artifacts&name=tree", "tree": "?view=artifacts&tab=files",
    "changes": "?view=artifacts&tab=changes"}


@pytest.mark.parametrize("view", HOSTILE_VIEWS)
def test_whatever_is_said_is_text(page: Any, server: Server, runs: Runs, browser: tuple[Any, Watch], view: str) -> None:
    name = runs("hostile", "hostile", "--idea", HOSTILE)
    visit(page, server, f"#/run/{name}{HOSTILE_VIEWS[view]}")
    page.locator(".tl-row[data-key], .turn, .shown, .inside, .commits li").first.wait_for()
    folded = page.locator(".part-head[aria-expanded=false], .fold[aria-expanded=false]")
    for _ in range(folded.count()):
        folded.first.click()
    if page.get_by_role("button", name="Source").count():
        page.get_by_role("button", name="Source").click()
        page.locator(".code-frame, .padded-text").first.wait_for()
    nothing_acts(page)
    forgive(browser)
    if view in ("prompt", "text", "data"):
        shown = page.locator(".run-view").text_content()
        assert "<script>window.effects+=1</script>" in shown
        assert "\x1b" not in shown and "\u202e" not in shown, "controls are shown as signs"


def nothing_acts(page: Any) -> None:
    """No element that a text made: all there are come from the modules of the page."""
    found = page.evaluate("""() => ({
        effects: window.effects,
        scripts: [...document.querySelectorAll('script')].filter((one) => !one.src).length,
        frames: [...document.querySelectorAll('iframe')].filter((one) => one.getAttribute('sandbox') !== '').length,
        images: [...document.images].filter((one) => !/^(blob:|data:image|icon\\.svg)/.test(one.getAttribute('src'))).length,
        links: [...document.links].map((one) => one.getAttribute('href')).filter((href) => !/^(#|https?:|mailto:)/.test(href)),
        handlers: [...document.querySelectorAll('*')]
            .filter((one) => one.getAttributeNames().some((name) => /^on/.test(name))).length,
        titles: document.title.includes('<'),
    })""")
    assert found == {"effects": 0, "scripts": 0, "frames": 0, "images": 0, "links": [], "handlers": 0, "titles": False}


def forgive(browser: tuple[Any, Watch]) -> None:
    """What the browser says of a page in its frame: that it did not run its scripts, and did not load its images."""
    watch = browser[1]
    told = ("frame is sandboxed", '"img-src data:"')
    watch.console[:] = [line for line in watch.console if not any(words in line for words in told)]


def test_a_page_that_somebody_wrote_stands_in_a_frame_that_can_do_nothing(page: Any, server: Server, runs: Runs,
                                                                          browser: tuple[Any, Watch]) -> None:
    visit(page, server, f"#/run/{runs('hostile', 'hostile', '--idea', HOSTILE)}?view=artifacts&name=page")
    frame = page.frame_locator("iframe.page-frame")
    frame.get_by_role("heading", name="Page").wait_for()
    assert page.locator("iframe.page-frame").get_attribute("sandbox") == ""
    colour = frame.locator("body").evaluate("(body) => getComputedStyle(body).backgroundColor")
    assert colour == "rgb(255, 238, 238)", "its own style acts"
    frame.get_by_role("button", name="stop").click()
    nothing_acts(page)
    forgive(browser)


# -- compare, memory


@pytest.mark.one_in(4)
def test_two_runs_are_compared(page: Any, server: Server, runs: Runs) -> None:
    one = runs("draft", "drafts", "--topic", "tea", name="draft-1")
    two = runs("draft", "drafts", "--topic", "coffee", name="draft-2")
    visit(page, server, f"#/compare?a={one}")
    page.get_by_label("Second run").select_option(two)
    page.get_by_role("heading", name="1 artifact differs").wait_for()
    page.locator("tr.taken", has_text="tea").wait_for()
    page.locator("tr.added", has_text="coffee").wait_for()
    page.get_by_role("row", name="tokens").first.wait_for()
    page.get_by_role("button", name="write").click()
    page.get_by_text("The first that differs is write@1~0/turn.0.").wait_for()
    page.get_by_role("button", name="Swap the two runs").click()
    page.locator("tr.taken", has_text="coffee").wait_for()


@pytest.mark.slow
def test_a_memory_is_searched_and_forgotten(page: Any, server: Server, runs: Runs) -> None:
    runs("hostile", "hostile", "--idea", HOSTILE)
    before = json.loads(server.sop("memory", "show", "--json", "--limit", "100"))
    visit(page, server, "#/memory")
    rows = page.locator(".memory-row")
    rows.first.wait_for()
    assert rows.count() == len(before) > 1
    nothing_acts(page)
    key = before[0]["key"]
    page.get_by_role("button", name=f"Forget memory {key}").focus()
    page.keyboard.press("Enter")
    page.get_by_role("dialog").get_by_text("deleted for good").wait_for()
    page.get_by_role("button", name="Cancel").click()
    assert rows.count() == len(before)
    page.get_by_role("button", name=f"Forget memory {key}").click()
    page.get_by_role("dialog").get_by_role("button", name="Forget", exact=True).click()
    until(lambda: rows.count() == len(before) - 1, "it is gone from the page")
    assert key not in [one["key"] for one in json.loads(server.sop("memory", "show", "--json", "--limit", "100"))]
    page.get_by_placeholder("Search memories…").fill("nothinglikethis")
    page.get_by_text("No memory matches").wait_for()


# -- for everybody


@pytest.mark.slow
@pytest.mark.parametrize("view", ["time", "conversation&key=write@2~0", "artifacts&name=draft", "artifacts&name=draft&a=1&b=2",
                                  "artifacts&name=program", "artifacts&tab=files"])
def test_axe_finds_no_violation_in_a_view(page: Any, server: Server, runs: Runs, view: str) -> None:
    name = runs("draft", "drafts", "--topic", "tea", name="draft-1")
    accessible(page, server, f"#/run/{name}?view={view}", ".tl-row[data-key], .turn, .shown, .diff")


@pytest.mark.slow
@pytest.mark.parametrize("at", ["#/compare?a=draft-1&b=draft-2", "#/memory"])
def test_axe_finds_no_violation_in_a_page(page: Any, server: Server, runs: Runs, at: str) -> None:
    runs("hostile", "hostile", "--idea", HOSTILE)
    runs("draft", "drafts", "--topic", "tea", name="draft-1")
    runs("draft", "drafts", "--topic", "coffee", name="draft-2")
    accessible(page, server, at, ".memory-row, .compare-value")


def accessible(page: Any, server: Server, at: str, ready: str) -> None:
    """axe-core finds nothing against level AA, light and dark, wide and narrow; nothing reaches beyond a narrow page."""
    axe = Path(pytest.importorskip("axe_playwright_python").__file__).parent / "axe.min.js"
    visit(page, server, at)
    page.locator(ready).first.wait_for()
    session = page.context.new_cdp_session(page)
    session.send("Runtime.enable")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for width in (1100, 390):
            page.set_viewport_size({"width": width, "height": 760})
            session.send("Runtime.evaluate", {"expression": axe.read_text()})
            found = page.evaluate("(tags) => axe.run({runOnly: {type: 'tag', values: tags}})", AA)
            told = [(one["id"], node["html"][:150]) for one in found["violations"] for node in one["nodes"][:3]]
            assert told == [], f"{at}, {scheme}, {width}"
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{at} is wider than {width}"


# -- what is worked out in the page


WORKED_OUT = """async () => {
    const scale = await import('/pages/timeline_scale.js');
    const { hunksOf } = await import('/pages/unified.js');
    const { treeOf } = await import('/pages/conversation_thoughts.js');
    const { places } = await import('/pages/conversation_find.js');
    const { words, segments } = await import('/pages/activation.js');
    const { paths } = await import('/pages/timeline_bars.js');
    const ring = treeOf(Object.entries({a: 'b', b: 'a', c: 'a', d: null, e: 'd'}).map(([branch, parent]) => ({branch, parent})));
    const messages = [{role: 'user', parts: [{kind: 'text', text: {text: 'One one'}}]}];
    const tools = [{key: 't', arguments: {text: 'x'}, result: {text: 'ONE'}}];
    const bar = (n) => ({kind: 'call', began: n / 100, ended: n / 100 + 0.001, state: n === 7 ? 'failed' : 'done'});
    const bars = Array.from({length: 400}, (_, n) => bar(n));
    return {
        zoomed: scale.zoomed({from: 0, to: 100}, 0.5, 0.25, 100), edge: scale.panned({from: 50, to: 100}, 1, 100),
        marks: scale.ticks({from: 0, to: 100}, 500).map(({text}) => text),
        long: scale.moment(90061, 60), short: scale.moment(0.25, 0.05),
        hunks: hunksOf('--- a\\n+++ b\\n@@ -3,2 +3,2 @@\\n same\\n-old\\n+--- new'),
        roots: ring.map(({thought}) => thought.branch), inside: ring.find(({thought}) => thought.branch === 'd').children.length,
        places: places('one', [{key: 'k', messages, answer: 'none', tools}], []).map(({id}) => id),
        words: words({key: 'write@1[a/b]~0/draft@2~1', step: 'write/draft', round: 2, item: null, attempt: 1}),
        segments: segments('write@1[a/b]~0/draft@2~1/turn.0'),
        paths: paths({bars}, (t) => t * 25, 4, 100).map(({name, d}) => [name, d.split('M').length - 1 <= 2]),
    };
}"""


@pytest.mark.slow
def test_scales_trees_and_places_are_worked_out(page: Any, server: Server) -> None:
    visit(page, server, "#/memory")
    found = page.evaluate(WORKED_OUT)
    assert found["zoomed"] == {"from": 12.5, "to": 62.5} and found["edge"] == {"from": 50, "to": 100}
    assert found["marks"] == ["0 s", "30 s", "1:00", "1:30"] and (found["long"], found["short"]) == ("1 d 1:01", "0.25 s")
    assert found["hunks"] == [{"old": 3, "new": 3, "lines": [[" ", "same"], ["-", "old"], ["+", "--- new"]]}]
    assert found["roots"] == ["a", "b", "c", "d"] and found["inside"] == 1, "a ring is no tree, and loses nothing"
    assert found["places"] == ["k/m0/p0", "k/m0/p0", "k/answer", "t/result"]
    assert found["words"] == "write [a/b] › draft 2, try 2"
    assert found["segments"] == ["write@1[a/b]~0", "draft@2~1", "turn.0"]
    assert sorted(name for name, _ in found["paths"]) == ["call done", "call failed"] and all(few for _, few in found["paths"]), \
        "what is narrower than a pixel is drawn once"
