"""The page of a SOP in a real browser, over a real server: typing, completion, edits of the graph, saving, by keyboard alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from patience import until
from web_browser import NO_BROWSER, Server, Watch, browsing, serving

pytestmark = [pytest.mark.skipif(bool(NO_BROWSER), reason=NO_BROWSER), pytest.mark.one_in(3, always=False)]
NOTES = """\
# What comes of a note.
sop: notes
inputs:
  topic: {type: string, description: What it is about}   # a word or two

roles:
  writer: {profile: You write.}

artifacts:
  draft: {}            # the first text
  final: {description: "<img src=x onerror=alert(1)> the last"}

steps:
  write:               # by a model
    role: writer
    needs: [topic]
    makes: draft
    task: |
      Write about {{ topic }}.

  # what is sent
  finish: {value: draft | trim, needs: [draft], makes: final}

outputs: [final]
"""
AA = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("sops")) as found:
        yield found


@pytest.fixture(scope="module")
def browser(server: Server) -> Iterator[tuple[Any, Watch]]:
    with browsing(server) as found:
        yield found


@pytest.fixture
def file(server: Server) -> Path:
    """The SOP as it was."""
    path = server.folder / "notes.yaml"
    path.write_text(NOTES)
    return path


@pytest.fixture
def page(server: Server, browser: tuple[Any, Watch], file: Path) -> Iterator[Any]:
    """A tab with the SOP. Whatever a test does, the console stays empty, and nobody else is asked."""
    context, watch = browser
    watch.faults()
    found = context.new_page()
    found.goto(f"{server.origin}/#/sop?file=notes.yaml")
    found.locator(".editor-text").wait_for()
    found.locator('[data-node="step:finish"]').wait_for()
    yield found
    found.evaluate("onbeforeunload = null")
    found.close()
    assert watch.faults() == []


def text(page: Any) -> str:
    return str(page.locator(".editor-text").input_value())


def at(page: Any, words: str) -> None:
    """The cursor behind some words of the text."""
    page.locator(".editor-text").focus()
    page.evaluate("""(words) => {
      const field = document.querySelector(".editor-text");
      const to = field.value.indexOf(words) + words.length;
      field.setSelectionRange(to, to);
    }""", words)


def refused(watch: Watch, status: int, times: int) -> None:
    """The browser itself notes each answer that refuses: these, and nothing else."""
    assert watch.faults() == [f"Failed to load resource: the server responded with a status of {status} "
                              f"({ {400: 'Bad Request', 409: 'Conflict'}[status]})"] * times


def says(page: Any, words: str) -> None:
    page.locator(".checks-head .state").get_by_text(words).wait_for()


def reads(page: Any, expected: str) -> None:
    until(lambda: text(page) == expected, f"the text: {expected}")


def test_what_is_typed_is_checked_at_its_place(page: Any) -> None:
    says(page, "no problem")
    at(page, "needs: [topi")
    page.keyboard.press("Delete")
    page.keyboard.type("k")
    says(page, "1 error")
    wrong = page.locator(".editor-line.error")
    assert wrong.locator(".editor-number").inner_text() == "16" and wrong.locator(".wavy").inner_text() == "topik"
    page.locator(".check-list").get_by_text("did you mean `topic`").wait_for()
    at(page, "outputs")
    page.get_by_role("button", name="line 16").click()
    behind = "(field) => field.value.slice(field.selectionStart, field.selectionStart + 5)"
    until(lambda: page.locator(".editor-text").evaluate(behind) == "topik", "the cursor is where the problem is")
    at(page, "final]")
    page.keyboard.type("\nsteps: [")
    page.get_by_text("the graph before the error").wait_for()
    assert page.locator('[data-node="step:write"]').count() == 1, "the graph before stays"
    while text(page) != NOTES:
        page.keyboard.press("Control+z")
    says(page, "no problem")
    assert page.locator(".pill").first.inner_text() == "saved"


def test_the_graph_follows_the_text(page: Any) -> None:
    at(page, "needs: [draft], makes: final}")
    page.keyboard.type("\nread: {value: final, needs: [final], makes: draft, rounds: 1}")
    page.locator('[data-node="step:read"]').wait_for()
    at(page, "by a model")
    page.locator('.node.selected[data-node="step:write"]').wait_for()               # the cursor chooses in the graph
    page.locator('[data-node="step:finish"]').click()
    page.locator(".editor-line.active .editor-number").get_by_text("22").wait_for()     # and the graph moves the cursor


def test_completion_by_keyboard(page: Any) -> None:
    at(page, "needs: [topic]")
    page.keyboard.press("Enter")
    page.keyboard.type("se")
    options = page.get_by_role("listbox", name="Suggestions")
    options.wait_for()
    assert options.get_by_role("option").first.inner_text().startswith("sees:")
    field = page.locator(".editor-text")
    assert page.locator(f"#{field.get_attribute('aria-activedescendant')}").get_attribute("aria-selected") == "true"
    page.keyboard.press("Tab")
    page.keyboard.type("[dr")
    options.get_by_role("option", name="draft").wait_for()
    page.keyboard.press("Escape")
    options.wait_for(state="detached")
    page.keyboard.press("Control+Space")
    options.get_by_role("option", name="draft").wait_for()
    page.keyboard.press("Enter")
    page.keyboard.type("]")
    seen = NOTES.replace("needs: [topic]\n", "needs: [topic]\n    sees: [draft]\n")
    reads(page, seen)
    at(page, "{{ topic }}.")
    page.keyboard.type(" {{ dr")
    options.get_by_role("option", name="draft").click()
    reads(page, seen.replace("{{ topic }}.", "{{ topic }}. {{ draft"))


def test_keys_of_the_text(page: Any) -> None:
    at(page, "artifacts:")
    page.keyboard.press("Enter")
    page.keyboard.type("more:")
    page.keyboard.press("Enter")
    page.keyboard.type("a")
    reads(page, NOTES.replace("artifacts:\n", "artifacts:\n  more:\n    a\n"))
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") != "editor-text", "Escape and Tab leave the field"
    at(page, "  more:\n")
    page.keyboard.press("Shift+ArrowUp")
    page.keyboard.press("Tab")
    reads(page, NOTES.replace("artifacts:\n", "artifacts:\n    more:\n    a\n"))
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    reads(page, NOTES.replace("artifacts:\n", "artifacts:\nmore:\n    a\n"))


def test_edits_of_the_graph_by_keyboard_alone_and_saving(page: Any, file: Path, browser: tuple[Any, Watch]) -> None:
    page.locator('[data-node="step:write"]').focus()
    page.keyboard.press("F2")
    page.get_by_role("dialog").wait_for()
    page.keyboard.type("draft it")
    page.keyboard.press("Enter")
    page.get_by_role("alert").get_by_text("can't be a name").wait_for()
    page.keyboard.press("Control+a")
    page.keyboard.type("compose")
    page.keyboard.press("Enter")
    renamed = NOTES.replace("  write:  ", "  compose:  ")
    reads(page, renamed)
    page.locator('[data-node="step:compose"]').focus()
    page.get_by_role("dialog").wait_for(state="detached")
    page.keyboard.press("c")                                                        # connect: it, and the one that reads it
    page.get_by_text("Choose the step that shall read").wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.get_by_role("dialog", name="Let a step read").wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("alert").get_by_text("already").wait_for()                     # it does read it
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    page.locator('[data-node="step:compose"]').focus()
    page.keyboard.press("e")
    page.get_by_role("dialog", name="Set the role").wait_for()
    page.keyboard.type("editor")
    page.keyboard.press("Enter")
    final = renamed.replace("    role: writer", "    role: editor").replace("You write.}\n", "You write.}\n  editor: {}\n")
    reads(page, final)
    page.locator(".editor-text").focus()
    page.keyboard.press("Control+z")
    reads(page, renamed)                                                            # an edit is one step back
    page.keyboard.press("Control+y")
    reads(page, final)
    assert file.read_text() == NOTES
    page.keyboard.press("Control+s")
    dialog = page.get_by_role("dialog", name="Save notes.yaml")
    dialog.locator("tr.added").first.wait_for()
    assert [row.inner_text().strip() for row in dialog.locator("tr.taken .line").all()] == [
        "write:               # by a model", "role: writer"]
    page.keyboard.press("Enter")
    until(lambda: file.read_text() == final, "the file")
    page.locator(".pill").get_by_text("saved", exact=True).wait_for()
    refused(browser[1], 400, 2)


def test_edits_of_the_graph_by_menus(page: Any) -> None:
    page.locator('[data-node="step:finish"]').click()
    page.get_by_role("button", name="Edit").click()
    page.get_by_role("menuitem", name="Rename final").click()
    page.get_by_label("New name of final").fill("text")
    page.get_by_role("button", name="Rename", exact=True).click()
    renamed = NOTES.replace("  final: {", "  text: {").replace("makes: final", "makes: text").replace("[final]", "[text]")
    reads(page, renamed)
    page.get_by_text("is an output").wait_for()                                     # what can't follow is told
    page.get_by_role("button", name="Let finish not read draft").click()
    page.get_by_role("button", name="Disconnect").click()
    reads(page, renamed.replace("needs: [draft], ", ""))
    page.get_by_text("still names `draft`").wait_for()
    page.get_by_role("button", name="Reads…").click()
    page.get_by_label("Artifact or input").select_option("draft")
    page.get_by_label("sees").check()
    page.get_by_role("button", name="Connect", exact=True).click()
    reads(page, renamed.replace("needs: [draft], ", "sees: [draft], "))
    page.get_by_role("button", name="Edit").click()
    page.get_by_role("menuitem", name="Add a step").click()
    page.get_by_label("Name").fill("check")
    page.get_by_label("Makes").fill("verdict")
    page.get_by_label("Role", exact=True).fill("writer")
    page.get_by_role("dialog").get_by_label("text", exact=True).check()
    page.get_by_label("Task").fill("Judge:\n{{ text }}")
    page.get_by_role("button", name="Add", exact=True).click()
    page.locator('.node.selected[data-node="step:check"]').wait_for()
    assert ("  check:\n    role: writer\n    needs: [text]\n    makes: verdict\n    task: |-\n      Judge:\n      {{ text }}\n"
            in text(page))
    page.locator(".check-list").get_by_text("nobody reads `verdict`").wait_for()
    page.get_by_role("button", name="Edit").click()
    page.get_by_role("menuitem", name="Remove the step").click()
    page.get_by_role("button", name="Remove", exact=True).click()
    page.locator('[data-node="step:check"]').wait_for(state="detached")
    assert "by a model" in text(page) and "# what is sent" in text(page)


def test_what_somebody_else_wrote_is_shown_before_it_is_written_over(page: Any, file: Path, browser: tuple[Any, Watch]) -> None:
    at(page, "You write")
    page.keyboard.type(" well")
    until(lambda: "well" in text(page), "what was typed")
    theirs = NOTES.replace("# the first text", "# somebody else's")
    file.write_text(theirs)
    page.get_by_role("button", name="Save…").click()
    page.get_by_text("changed by somebody else since").first.wait_for()
    page.get_by_role("button", name="Save over it").click()
    page.get_by_role("alert").get_by_text("save again to keep yours").wait_for()
    assert file.read_text() == theirs
    page.get_by_role("button", name="Save over it").click()
    until(lambda: file.read_text() == NOTES.replace("You write", "You write well"), "the file")
    refused(browser[1], 409, 1)


def test_what_is_not_saved_survives_another_page(page: Any, server: Server) -> None:
    at(page, "You write")
    page.keyboard.type(" well")
    until(lambda: "well" in text(page), "what was typed")
    page.get_by_role("link", name="Run what is saved").click()
    page.get_by_role("heading", name="New run").wait_for()
    page.go_back()
    page.locator(".editor-text").wait_for()
    assert "You write well" in text(page) and page.locator(".pill").first.inner_text() == "not saved"
    page.get_by_role("button", name="Revert…").click()
    page.get_by_role("button", name="Take back").click()
    reads(page, NOTES)


def test_the_preview_of_a_step(page: Any) -> None:
    at(page, "Write about")
    page.keyboard.type(" all of")
    page.get_by_role("tab", name="Preview").click()
    page.get_by_role("button", name="Preview", exact=True).click()
    page.get_by_text("Write about all of topic.").wait_for()
    page.get_by_text("system prompt").wait_for()
    assert "tokens to writer" in page.locator(".preview h3").first.inner_text()


def test_text_and_colours_stand_over_each_other(page: Any) -> None:
    """Wrapped or not, the textarea is as large as its text, line for line where the colours are."""
    measure = """() => {
      const [field, lines] = [document.querySelector(".editor-text"), document.querySelector(".editor-lines")];
      const found = { over: [field.scrollWidth - field.clientWidth, field.scrollHeight - field.clientHeight] };
      const code = document.querySelector(".editor-line code").getBoundingClientRect();
      const box = field.getBoundingClientRect();
      found.apart = [Math.abs(code.left - box.left), Math.abs(code.top - box.top)];
      const style = getComputedStyle(field);
      const copy = field.cloneNode();
      copy.value = field.value;
      copy.style.cssText = `position:static;height:0;padding-bottom:0;width:${style.width};display:block`;
      field.parentNode.append(copy);
      found.heights = [copy.scrollHeight, lines.offsetHeight];
      copy.remove();
      return found;
    }"""
    for width in (1100, 390):
        page.set_viewport_size({"width": width, "height": 760})
        for _ in range(2):
            found = page.evaluate(measure)
            assert max(found["over"]) <= 0 and max(found["apart"]) < 1, (width, found)
            assert abs(found["heights"][0] - found["heights"][1]) < 2, (width, found)
            page.get_by_role("button", name="Wrap").click()


def violations(page: Any) -> list[tuple[str, str]]:
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, options={"runOnly": {"type": "tag", "values": AA}})
    return [(one["id"], one["nodes"][0]["html"][:200]) for one in found.response["violations"]]


def test_axe_finds_no_violation(page: Any) -> None:
    at(page, "needs: [topi")
    page.keyboard.press("Delete")
    says(page, "1 error")
    page.locator('[data-node="step:write"]').click()
    assert violations(page) == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1100, 390])
def test_axe_finds_no_violation_anywhere(page: Any, scheme: Any, width: int) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    at(page, "needs: [topi")
    page.keyboard.press("Delete")
    for view in [tab.inner_text().split("\n")[0] for tab in page.get_by_role("tab").all()]:
        page.get_by_role("tab", name=view).click()
        if view == "Graph":
            page.locator('[data-node="step:write"]').click()
        assert violations(page) == [], view
        assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing reaches beyond the page"
    page.get_by_role("tab", name="Graph").click()
    page.get_by_role("button", name="Edit").click()
    page.get_by_role("menuitem", name="Add a step").click()
    assert violations(page) == []


def test_words_of_a_sop_are_never_markup(page: Any, file: Path, server: Server, browser: tuple[Any, Watch]) -> None:
    effects: list[str] = []
    page.on("dialog", lambda dialog: (effects.append(dialog.message), dialog.dismiss()))
    hostile = NOTES.replace("sop: notes", 'sop: "<svg/onload=alert(2)>"')
    file.write_text(hostile.replace("needs: [topic]", "needs: ['<script>alert(3)</script>']"))
    page.reload()
    page.get_by_text("<script>alert(3)</script>").first.wait_for()
    page.get_by_text("<img src=x onerror=alert(1)>").first.wait_for()
    assert effects == [] and page.locator(".sop-page :is(script, img)").count() == 0
