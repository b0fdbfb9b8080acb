"""The pages of runs, a new run, a run and the inbox in a real browser, over a real server, with real runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from patience import until
from web_browser import NO_BROWSER, Server, Watch, browsing, serving

pytestmark = [pytest.mark.skipif(bool(NO_BROWSER), reason=NO_BROWSER), pytest.mark.one_in(3, always=False)]
MODEL = ("--model", "python:desk.py:article")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("shop")) as found:
        yield found


@pytest.fixture(scope="module")
def browser(server: Server) -> Iterator[tuple[Any, Watch]]:
    with browsing(server) as found:
        yield found


@pytest.fixture
def page(server: Server, browser: tuple[Any, Watch]) -> Iterator[Any]:
    """A tab. Whatever a test looks at, the console stays empty, and nobody else is asked."""
    context, watch = browser
    watch.faults()
    found = context.new_page()
    yield found
    found.close()
    server.open()
    assert watch.faults() == []


@pytest.fixture(scope="module")
def written(server: Server) -> str:
    """A run that is over: a draft was refused, and mended."""
    said = server.sop("run", "article.yaml", "--topic", "tea", *MODEL, "--name", "written")
    assert "success" in said, said
    return "written"


def visit(page: Any, server: Server, fragment: str) -> None:
    page.goto("about:blank")
    page.goto(f"{server.origin}/{fragment}")
    page.locator("h1").wait_for()


def state(page: Any) -> Any:
    """How the run of the page stands."""
    return page.locator(".run-title .state")


def ends(page: Any, how: str) -> None:
    """Waits until the page says, by itself, that the run has ended so."""
    state(page).get_by_text(how, exact=True).wait_for()


def step(page: Any, name: str) -> Any:
    return page.locator(f'[data-node="step:{name}"]')


def test_a_run_is_begun_from_its_form_and_watched_to_its_end(page: Any, server: Server) -> None:
    server.shut("review")
    visit(page, server, "#/new?file=article.yaml")
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("This input is required.").wait_for()                       # nothing was sent
    assert page.evaluate("document.activeElement.labels[0].textContent").startswith("topic")
    page.get_by_label("topic").fill("tea")
    page.get_by_label("Model", exact=True).fill("python:desk.py:article")
    page.get_by_text("18").wait_for()                                            # at most so many calls, before anything is spent
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_url("**/#/run/article-*")
    step(page, "review").and_(page.locator(".running")).wait_for()
    step(page, "write").and_(page.locator(".done")).wait_for()
    assert state(page).inner_text().endswith("running")
    server.open()
    ends(page, "success")                                                        # without a reload
    assert "×2" in step(page, "write").text_content() and step(page, "review").and_(page.locator(".done")).count() == 1
    assert page.locator(".meter", has_text="calls").locator(".meter-value").inner_text() == "4 of 20"


@pytest.mark.one_in(4)
def test_the_fault_its_repair_and_the_diff_are_found(page: Any, server: Server, written: str) -> None:
    visit(page, server, f"#/run/{written}")
    step(page, "review").click()
    page.locator(".graph-detail").get_by_text("2 firings").wait_for()
    visit(page, server, f"#/run/{written}?view=conversation&key=review@1~0")
    page.get_by_text("too long: one line will do").first.wait_for()
    visit(page, server, f"#/run/{written}?view=conversation&key=write@2~0")
    page.get_by_text("Tea in short").first.wait_for()
    visit(page, server, f"#/run/{written}?view=artifacts&name=draft&a=1&b=2")
    page.locator("tr.taken", has_text="there is much to say").wait_for()
    page.locator("tr.added", has_text="Tea in short").wait_for()


@pytest.mark.one_in(4)
def test_a_run_that_a_terminal_began_appears_and_is_followed(page: Any, server: Server) -> None:
    visit(page, server, "#/")
    server.shut("write")
    process = server.begin("run", "article.yaml", "--topic", "tea", *MODEL, "--name", "from-a-terminal")
    row = page.locator("tr[data-row]", has_text="from-a-terminal")
    row.get_by_text("running").wait_for()
    first = page.locator("tr[data-row]").first
    assert first.get_by_role("link").first.inner_text() == "from-a-terminal"     # what runs comes first
    server.open()
    row.get_by_text("success").wait_for()
    until(lambda: process.poll() == 0, "the end of the process")


@pytest.mark.one_in(8, always=False)
def test_questions_are_answered_in_the_inbox_and_the_run_goes_on(page: Any, server: Server) -> None:
    server.sop("run", "approval.yaml", "--customer", "Ada", "--model", "python:desk.py:letter", "--name", "asks")
    visit(page, server, "#/inbox")
    question = page.get_by_role("article", name="Question 1 of asks")
    assert "the bolts are forty short" in question.inner_text()
    question.get_by_label("Reason").fill("it is polite")
    question.get_by_role("button", name="Approve").click()
    question.wait_for(state="detached")
    second = page.get_by_role("article", name="Question 2 of asks")              # the run was resumed, and asks the next one
    second.get_by_label("green").check()
    second.get_by_role("button", name="Answer").click()
    second.wait_for(state="detached")                                            # and resumed again
    visit(page, server, "#/run/asks")
    ends(page, "success")
    said = server.sop("log", "asks", "--audit")
    assert "it is polite" in said and "green" in said


@pytest.mark.one_in(8, always=False)
def test_a_run_is_stopped_and_resumed(page: Any, server: Server) -> None:
    server.shut("review")
    process = server.begin("run", "article.yaml", "--topic", "tea", *MODEL, "--name", "stopped")
    visit(page, server, "#/")
    page.get_by_role("link", name="stopped", exact=True).click()
    step(page, "review").and_(page.locator(".running")).wait_for()
    page.get_by_role("button", name="Stop", exact=True).click()
    ends(page, "interrupted")
    until(lambda: process.poll() == 130, "the end of the process, as after Ctrl-C")
    server.open()
    page.get_by_role("button", name="Resume", exact=True).click()
    ends(page, "success")
    assert "4 calls" in server.sop("show", "stopped")


@pytest.mark.one_in(4)
def test_a_run_is_forked_from_a_step(page: Any, server: Server, written: str) -> None:
    visit(page, server, f"#/run/{written}?key=write@2")
    page.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name=re.compile("Fork before write@2")).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("other-way")
    dialog.get_by_role("button", name="Fork").click()
    page.wait_for_url("**/#/run/other-way")
    ends(page, "success")
    page.get_by_text("fork of").wait_for()
    assert "write@2" in server.sop("log", "other-way", "--kind", "fired")


def test_the_slider_replays_the_run(page: Any, server: Server, written: str) -> None:
    visit(page, server, f"#/run/{written}")
    step(page, "write").and_(page.locator(".done")).wait_for()
    slider = page.get_by_role("slider", name="Event of the run")
    slider.focus()
    page.keyboard.press("Home")
    page.locator('[data-node="step:write"].idle').wait_for()
    assert "seq=1" in page.url
    page.get_by_role("button", name="Play the run").click()
    page.locator('[data-node="step:write"].running').wait_for()
    page.locator('[data-node="step:review"].running').wait_for()
    page.get_by_text("at its end").wait_for()
    assert "seq=" not in page.url and page.locator('[data-node="step:review"].done').count() == 1


def test_what_a_newcomer_did_not_find_is_there(page: Any, server: Server, written: str) -> None:
    """The log has a height, the past is told in the run's own time, and an output opens although two versions were compared."""
    visit(page, server, f"#/run/{written}")
    page.get_by_role("tab", name="Log").click()
    page.locator(".log-row").first.wait_for()
    assert page.locator(".log-rows").bounding_box()["height"] > 200
    page.get_by_role("slider", name="Event of the run").focus()
    page.keyboard.press("Home")
    page.locator(".slider-at", has_text="1 of").wait_for()
    assert re.fullmatch(r"1 of \d+ · [\d.]+ m?s", page.locator(".slider-at").inner_text().strip())
    visit(page, server, f"#/run/{written}?view=artifacts&name=draft&a=1&b=2")
    page.get_by_role("button", name="End comparing").wait_for()
    page.get_by_role("tab", name="Graph").click()
    page.locator(".outputs").get_by_role("button", name="draft").click()
    page.locator(".which", has_text="made by").wait_for()
    assert page.get_by_role("button", name="End comparing").count() == 0


@pytest.mark.slow
def test_all_of_it_by_keyboard_alone(page: Any, server: Server) -> None:
    """Begin a run, watch it, open the fault and the diff, answer a question, stop, resume, fork: no click."""
    press, server_shut = page.keyboard.press, server.shut

    def tab_to(name: str, kind: str = "") -> None:
        """The focus, moved by Tab until it is on what has that name."""
        for _ in range(80):
            press("Tab")
            if page.evaluate("""([name, kind]) => { const it = document.activeElement;
                const said = it.getAttribute("aria-label") || (it.labels?.[0] || it).textContent;
                return said.trim().replace(/\\s+/g, " ").startsWith(name) && (!kind || it.matches(kind)); }""", [name, kind]):
                return
        raise AssertionError(f"{name} is not reached by Tab")

    server_shut("review")
    visit(page, server, "#/")
    press("g")
    press("n")
    page.get_by_role("heading", name="New run").wait_for()
    page.get_by_role("link", name="Run article").wait_for()
    while page.evaluate("document.activeElement.textContent") != "article":
        press("j")
    press("Enter")
    page.get_by_role("heading", name="New run of article").wait_for()
    tab_to("topic")
    page.keyboard.type("tea")
    tab_to("Model")
    page.keyboard.type("python:desk.py:article")
    press("Enter")
    page.wait_for_url("**/#/run/article-*")
    name = page.locator("h1").inner_text()
    step(page, "review").and_(page.locator(".running")).wait_for()
    tab_to("Stop")
    press("Enter")
    ends(page, "interrupted")
    server.open()
    tab_to("Resume")
    press("Enter")
    ends(page, "success")
    tab_to("write,", "[data-node]")
    press("ArrowDown")
    press("Enter")
    page.locator(".graph-detail h2", has_text="review").wait_for()
    press("3")
    page.get_by_text("too long: one line will do").first.wait_for()
    press("1")
    press("?")
    page.get_by_role("dialog", name="Keyboard").wait_for()
    press("Escape")
    tab_to("More")
    press("Enter")
    press("ArrowDown")
    press("Enter")
    tab_to("Name")
    page.keyboard.type("by-hand")
    tab_to("Fork", "button")
    press("Enter")
    page.wait_for_url("**/#/run/by-hand")
    ends(page, "success")
    server.sop("run", "approval.yaml", "--customer", "Ada", "--model", "python:desk.py:letter", "--name", "keys")
    press("g")
    press("i")
    page.get_by_role("article", name="Question 1 of keys").wait_for()
    tab_to("Approve", "button")
    press("Enter")
    page.get_by_role("article", name="Question 2 of keys").wait_for()
    assert name.startswith("article-")


def test_a_mistake_is_told_in_the_words_of_the_command_line(page: Any, server: Server, browser: tuple[Any, Watch]) -> None:
    visit(page, server, "#/run/nobody")
    page.get_by_role("alert").get_by_text("nobody").wait_for()
    visit(page, server, "#/new?file=article.yaml")
    page.get_by_label("topic").fill("tea")
    page.get_by_label("Name", exact=True).fill("../etc")
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("'../etc' can't be a run's name").wait_for()
    refused = browser[1].faults()                                                # the browser itself notes refused requests
    assert refused and all("Failed to load resource" in one for one in refused)


def test_single_keys_can_be_turned_off(page: Any, server: Server) -> None:
    visit(page, server, "#/")
    page.keyboard.press("?")
    switch = page.get_by_label("Single keys act as shortcuts")
    switch.uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("n")
    page.get_by_role("button", name="Keyboard help").click()
    assert page.locator("h1").inner_text() == "Runs"
    switch.check()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("n")
    page.get_by_role("heading", name="New run").wait_for()


@pytest.mark.one_in(16, always=False)
def test_more_tabs_than_a_browser_has_connections_follow_a_run(page: Any, server: Server, browser: tuple[Any, Watch]) -> None:
    """Six connections to a server are all that a browser opens: with a stream each, the seventh tab would wait for ever."""
    server.shut("write")
    process = server.begin("run", "article.yaml", "--topic", "tea", *MODEL, "--name", "watched")
    visit(page, server, "#/")
    page.locator("tr[data-row]", has_text="watched").get_by_text("running").wait_for()
    tabs = [browser[0].new_page() for _ in range(7)]
    try:
        for tab in tabs:
            tab.goto(f"{server.origin}/#/run/watched")
            step(tab, "write").and_(tab.locator(".running")).wait_for()
        server.open()
        for tab in tabs:
            ends(tab, "success")
        until(lambda: process.poll() == 0, "the end of the process")
    finally:
        for tab in tabs:
            tab.close()


def test_a_used_token_opens_no_second_browser(page: Any, server: Server, browser: tuple[Any, Watch]) -> None:
    other = browser[0].browser.new_context()
    try:
        stranger = other.new_page()
        stranger.goto(server.address)
        stranger.get_by_role("heading", name="No session").wait_for()
        stranger.get_by_text("holds a token for this browser, which works once").wait_for()
        assert "token" not in stranger.url
    finally:
        other.close()


PAGES = {"runs": "#/", "new": "#/new", "form": "#/new?file=article.yaml", "graph": "#/run/written?key=write", "inbox": "#/inbox"}
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


def violations(page: Any) -> list[str]:
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, options={"runOnly": RULES}).response["violations"]
    return [f"{one['id']}: {node['target']} {node['failureSummary']}" for one in found for node in one["nodes"]]


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_no_page_has_a_fault_of_level_aa(page: Any, server: Server, written: str, name: str) -> None:
    if name == "inbox":
        server.sop("run", "approval.yaml", "--customer", "Ada", "--model", "python:desk.py:letter", "--name", "inbox")
    visit(page, server, PAGES[name])
    page.locator("tr[data-row], .node, .question, .sops li, form").first.wait_for()
    assert violations(page) == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1100])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_fault_of_level_aa_at_any_width(page: Any, server: Server, written: str, width: int, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    for name, fragment in PAGES.items():
        visit(page, server, fragment)
        page.locator("tr[data-row], .node, .question, .sops li, form").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} is wider than {width} pixels"
        assert violations(page) == [], name


@pytest.mark.slow
def test_the_demo_is_started_from_the_page_and_watched_to_its_end(page: Any, server: Server) -> None:
    visit(page, server, "#/new")
    page.get_by_role("button", name="Demo of software_company").click()
    page.wait_for_url("**/#/run/software_company-*")
    step(page, "build").and_(page.locator(".running")).wait_for()
    step(page, "verify").and_(page.locator(".running")).wait_for()
    ends(page, "success")
    assert step(page, "tell").and_(page.locator(".done")).count() == 1
