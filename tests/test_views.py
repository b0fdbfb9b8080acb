"""The views as pure functions: pages and tables, the live board at every state of a run, drawings and wordings."""

from __future__ import annotations

import textwrap
from io import StringIO
from pathlib import Path
from typing import Any, cast, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metaflow_agents import resume, run
from metaflow_agents.cli.renderers import LiveFace
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.places import journal_path
from metaflow_agents.journal.projection import outline
from metaflow_agents.journal.run_summary import RawJournal
from metaflow_agents.journal.state import RunState
from metaflow_agents.models.port import ModelRequest
from metaflow_agents.schema.caps import Budget
from metaflow_agents.schema.event import (
    Answered,
    Asked,
    Committed,
    Decided,
    Done,
    Event,
    Failed,
    Finished,
    Fired,
    Intended,
    Observed,
    Reserved,
    RunEnded,
    RunOpened,
    Settled,
    Version,
)
from metaflow_agents.schema.program import Program
from metaflow_agents.sop.graph import SOPGraph
from metaflow_agents.sop.load import load_sop
from metaflow_agents.views import event_log as minutes
from metaflow_agents.views import wording
from metaflow_agents.views.board import Board, Row
from metaflow_agents.views.event_log import KINDS, full, minute
from metaflow_agents.views.graph import mermaid
from metaflow_agents.views.page import Page, columns, cut, safe, table
from metaflow_agents.views.writing import Writing

DESK = """
sop: desk
inputs: {topic: string}
roles: {writer: {profile: a writer}}
artifacts: {plan: {schema: [string]}, parts: {each: string}, book: {}, verdict: {schema: {ok: boolean}}, extra: {}}
steps:
  plan_it: {role: writer, needs: [topic], makes: plan}
  write_it: {role: writer, needs: [plan], foreach: {in: plan}, makes: parts, on_fail: skip}
  bind_it: {value: "parts | values | join", needs: [parts], makes: book}
  judge_it: {role: writer, needs: [book], sees: [plan], makes: verdict}
  mend_it: {role: writer, needs: [verdict], when: not verdict.ok, makes: book, rounds: 2}
  extra_it: {role: writer, needs: [topic], when: "topic == 'more'", makes: extra}
outputs: [book, extra]
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    path = tmp_path_factory.mktemp("views") / "desk.yaml"
    path.write_text(DESK)
    return load_sop(path).program


class Desk:
    """A run told event by event, and the board beside it; the clock stands where it is put."""

    def __init__(self, program: Program, **budget: int) -> None:
        self.state = RunState()
        self.writing = Writing()
        self.board = Board(program, SOPGraph(program.sop), self.state, Budget(**budget), writing=self.writing)
        self.now, self._seq = 1000.0, 0
        self.tell(RunOpened(run="desk-1", sop="s", compiled="c", sources={}, entry="desk.yaml", models={"*": "dry"}),
                  Committed(versions=(Version(artifact="topic", number=1, payload="t"),)))

    def tell(self, *events: Event) -> None:
        for event in events:
            self._seq += 1
            stamped = event.model_copy(update={"at": self.now})
            self.state.apply(self._seq, stamped)
            self.board.apply(stamped)

    def made(self, step: str, artifact: str, round_: int = 1, *, number: int = 1, items: tuple[str, ...] | None = None,
             read: dict[str, int] | None = None) -> None:
        self.tell(Fired(step=step, round=round_, read=read or {}, items=items),
                  *(Finished(activation=f"{step}@{round_}{f'[{item}]' if item else ''}~0", payload="p")
                    for item in items or (None,)),
                  Committed(firing=f"{step}@{round_}", versions=(Version(artifact=artifact, number=number, payload="p"),)))

    def rows(self, most: int | None = None) -> dict[str, tuple[str, str]]:
        return {row.name: (row.mark, row.what) for row in self.board.rows(self.now, most)}


def test_the_board_tells_who_waits_for_whom(program: Program) -> None:
    desk = Desk(program)
    rows = desk.rows()
    assert rows["plan_it"] == ("waiting", "ready")
    assert rows["write_it"] == ("waiting", "waits for plan (plan_it)")
    assert rows["judge_it"] == ("waiting", "waits for book (bind_it, mend_it)")
    assert rows["extra_it"] == ("waiting", "when topic == 'more'")
    desk.tell(Fired(step="plan_it", round=1, read={"topic": 1}))
    desk.now += 2.5
    assert desk.rows()["plan_it"] == ("running", "2.5 s")


def test_the_board_tells_what_is_being_written(program: Program) -> None:
    desk = Desk(program)
    desk.tell(Fired(step="plan_it", round=1, read={"topic": 1}))
    for call, text in (("turn.0", "a first answer"), ("turn.1", "x" * 1500), ("turn.1", ", and then\n  the \x1b[2Jend")):
        desk.writing.hear(f"plan_it@1~0/{call}", text)

    def line(width: int | None) -> str:
        return next(line for line in desk.board.lines(Page(width), desk.now) if "plan_it" in line)

    assert line(None).endswith("0.0 s, 1.5k characters  " + "x" * 38 + ", and then the ␛[2Jend")
    assert line(64).endswith("0.0 s, 1.5k characters  xxxxx, and then the ␛[2Jend") and columns(line(64)) == 64
    assert line(46).endswith("0.0 s, 1.5k characters")
    desk.tell(Failed(activation="plan_it@1~0", error="no ink"))
    assert line(None).endswith("0.0 s, attempt 2")


def test_the_board_tells_tries_and_silence(program: Program) -> None:
    desk = Desk(program)
    desk.made("plan_it", "plan", read={"topic": 1})
    desk.tell(Fired(step="write_it", round=1, read={"plan": 1}, items=("a", "b")))
    call = {"digest": "d", "request": "r", "model": "m", "tokens": 9}
    for item in "ab":
        desk.tell(Reserved.model_validate({"key": f"write_it@1[{item}]~0/turn.0", **call}))
    desk.now += 12
    desk.tell(Settled(key="write_it@1[b]~0/turn.0", error="busy", again=True, trouble="rate", wait=30, calls=0))
    desk.now += 3
    rows = desk.rows()
    assert rows["a"] == ("running", "15 s, silent for 15 s")
    assert rows["b"] == ("running", "15 s, refused for the rate, try 2 in 27 s")
    assert "   failed tries: 1 refused for the rate" in desk.board.lines(Page(), desk.now)[1]


def test_the_board_tells_items(program: Program) -> None:
    desk = Desk(program)
    desk.made("plan_it", "plan", read={"topic": 1})
    assert desk.rows()["plan_it"] == ("done", "plan@1")
    desk.tell(Fired(step="write_it", round=1, read={"plan": 1}, items=("a", "b", "c", "d/e")))
    desk.now += 1
    desk.tell(*(Reserved(key=f"write_it@1[{item}]~0/turn.0", role="writer", digest="d", request="r", model="dry", tokens=9)
                for item in ("a", "b", "d/e")))
    desk.now += 2
    desk.tell(Finished(activation="write_it@1[a]~0", payload="p"),
              Failed(activation="write_it@1[b]~0", error="no ink", final=True))
    rows = desk.rows()
    assert rows["write_it"] == ("running", "1/4 items, 1 failed, 3.0 s")
    assert "a" not in rows and rows["b"] == ("failed", "no ink")
    assert rows["d/e"] == ("running", "2.0 s") and rows["…"] == ("waiting", "1 item waiting")


def test_a_lost_item_stays_seen_and_a_later_firing_forgets_it(program: Program) -> None:
    desk = Desk(program)
    desk.made("plan_it", "plan", read={"topic": 1})
    desk.tell(Fired(step="write_it", round=1, read={"plan": 1}, items=("a",)),
              Failed(activation="write_it@1[a]~0", error="x", final=True),
              Committed(firing="write_it@1", versions=(Version(artifact="parts", number=1, payload="p"),)))
    assert desk.rows()["write_it"] == ("failed", "parts@1, 1 failed")
    desk.made("write_it", "parts", 2, number=2, items=("a",), read={"plan": 1})
    assert desk.rows()["write_it"] == ("done", "parts@2, 2 rounds")


def test_a_step_in_a_loop_waits_again_and_rests_when_its_rounds_are_used(program: Program) -> None:
    desk = Desk(program)
    desk.made("plan_it", "plan", read={"topic": 1})
    desk.made("write_it", "parts", items=("a",), read={"plan": 1})
    desk.made("bind_it", "book", read={"parts": 1})
    assert desk.rows()["mend_it"] == ("waiting", "waits for verdict (judge_it)")
    desk.made("judge_it", "verdict", read={"book": 1})
    assert desk.rows()["mend_it"] == ("waiting", "when not verdict.ok")
    desk.made("mend_it", "book", number=2, read={"verdict": 1})
    assert desk.rows()["judge_it"] == ("waiting", "fired 1 time; ready")
    desk.made("judge_it", "verdict", 2, number=2, read={"book": 2})
    desk.made("mend_it", "book", 2, number=3, read={"verdict": 2})
    desk.made("judge_it", "verdict", 3, number=3, read={"book": 3})
    assert desk.rows()["mend_it"] == ("done", "book@3, 2 rounds")


def test_what_never_fired_is_told_at_the_end(program: Program) -> None:
    desk = Desk(program)
    desk.tell(RunEnded(outcome="failure", never={"extra_it": "`when` never held"}))
    assert desk.rows()["extra_it"] == ("never", "`when` never held")


def test_the_head_tells_calls_and_tokens_against_the_caps(program: Program) -> None:
    desk = Desk(program, calls=300, tokens=1_500_000)
    desk.tell(Fired(step="plan_it", round=1, read={}),
              Reserved(key="plan_it@1~0/turn.0", role="writer", digest="d", request="r", model="dry", tokens=12_345))
    desk.now += 61
    head = desk.board.lines(Page(), desk.now)[:2]
    assert head == ["desk-1   calls 0 of 300   tokens 0 of 1.5M   time 1 min 01 s",
                    "desk.yaml with dry   1 call unanswered, at most 12.3k tokens"]
    desk.tell(Settled(key="plan_it@1~0/turn.0", reply="p", tokens_in=12_000, tokens_out=345))
    assert desk.board.lines(Page(), desk.now)[0] == "desk-1   calls 1 of 300   tokens 12.3k of 1.5M   time 1 min 01 s"


def test_the_board_tells_what_steps_items_roles_and_models_cost(program: Program) -> None:
    desk = Desk(program)
    desk.made("plan_it", "plan", read={"topic": 1})
    desk.tell(Fired(step="write_it", round=1, read={"plan": 1}, items=("a", "b")))
    for item, role, model, cost in (("a", "writer", "one", 2 * 10**10), ("b", "judge", "two", 0)):
        key = f"write_it@1[{item}]~0/turn.0"
        desk.tell(Reserved(key=key, role=role, digest="d", request="r", model=model, tokens=20_000, cost=10**12),
                  Settled(key=key, reply="p", tokens_in=12_000, tokens_out=345, cost=cost))
    lines = desk.board.lines(Page(), desk.now)
    assert lines[2:4] == ["writer 1 call, 12.3k tokens, $0.020   judge 1 call, 12.3k tokens",
                          "one 1 call, 12.3k tokens, $0.020   two 1 call, 12.3k tokens"]
    assert any("write_it" in line and line.endswith("2 calls, 24.7k tokens, $0.020") for line in lines)
    assert any(line.strip().startswith("● a ") and line.endswith("1 call, 12.3k tokens, $0.020") for line in lines)
    assert desk.board.lines(Page(), desk.now, 12)[2] == "", "a low window has no room for them"


@pytest.mark.parametrize("size", [(40, 10), (80, 12), (80, 24), (120, 60)])
def test_the_board_fits_its_window(program: Program, size: tuple[int, int]) -> None:
    width, height = size
    desk = Desk(program)
    desk.made("plan_it", "plan", read={"topic": 1})
    items = tuple(f"chapter {number}: of what became of it in the end, 終わり" for number in range(1000))
    desk.tell(Fired(step="write_it", round=1, read={"plan": 1}, items=items),
              *(Failed(activation=f"write_it@1[{number}]~0", error="no ink " * 50) for number in range(5)))
    lines = desk.board.lines(Page(width=width), desk.now, height)
    assert len(lines) <= height and max(columns(line) for line in lines) <= width
    assert any("write_it" in line and "0/1,000 items" in line for line in lines)


def test_a_board_of_very_many_steps_shows_what_is_alive(tmp_path: Path) -> None:
    steps = "".join(f"  step{n}: {{role: writer, needs: [topic], makes: a{n}}}\n" for n in range(60))
    (tmp_path / "wide.yaml").write_text(
        "sop: wide\ninputs: {topic: string}\nroles: {writer: {profile: a writer}}\nartifacts:\n"
        + "".join(f"  a{n}: {{}}\n" for n in range(60)) + f"steps:\n{steps}")
    desk = Desk(load_sop(tmp_path / "wide.yaml").program)
    desk.tell(Fired(step="step58", round=1, read={"topic": 1}))
    rows = desk.rows(10)
    assert rows["step58"][0] == "running" and rows["…"] == ("waiting", "59 steps not shown")


# -- pages

@given(st.text(max_size=60), st.integers(1, 40))
def test_cut_fits(text: str, width: int) -> None:
    shown = cut(safe(text), width)
    assert columns(shown) <= width
    assert shown == safe(text) or shown.endswith("…")


@given(st.text())
def test_safe_text_holds_no_control_character(text: str) -> None:
    assert not any(ord(letter) < 32 or 0x7F <= ord(letter) < 0xA0 for letter in safe(text))
    assert set("".join(letter for letter in safe(text, lines=True) if ord(letter) < 32)) <= {"\n", "\t"}


def test_safe_text_can_not_turn_lines_around() -> None:
    assert "\u202e" not in safe("evil \u202etxt.exe") and safe("déjà 終わり") == "déjà 終わり"


CELL = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=50)


@given(st.lists(st.lists(CELL, min_size=3, max_size=3), min_size=1, max_size=5), st.integers(30, 100))
def test_a_table_fits_and_keeps_its_columns(rows: list[list[str]], width: int) -> None:
    lines = table(rows, Page(width=width), headings=("one", "two", "three"))
    assert len(lines) == len(rows) + 1
    assert all(columns(line) <= width for line in lines)


def test_colours_do_not_shift_columns() -> None:
    rows = [["a", "green", "x"], ["bb", "no", "y"]]
    plain = table(rows, Page())
    painted = table(rows, Page(colour=True), styles={1: lambda _: "green"})
    assert [line.replace("\x1b[32m", "").replace("\x1b[0m", "") for line in painted] == plain and plain != painted


def test_wrapped_text_keeps_its_lines_and_its_indent() -> None:
    page = Page(width=40)
    text = "one line that is longer than the page is wide\nanother"
    assert page.wrapped(text, "- ", "  ") == ["- one line that is longer than the page", "  is wide", "  another"]
    assert Page().wrapped(text, "- ") == ["- one line that is longer than the page is wide", "  another"]


# -- drawings and words

def test_mermaid_can_not_be_broken_by_what_stands_in_a_sop(tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_text(textwrap.dedent("""
        sop: odd
        inputs: {class: string}
        roles: {writer: {profile: x}}
        artifacts: {end: {}, click: {}}
        steps:
          subgraph: {role: "'wri' ~ \\"ter\\"", needs: [class], makes: end}
          style: {value: end, needs: [end], makes: click}
        outputs: [click]
        """))
    program = load_sop(tmp_path / "odd.yaml").program
    lines = mermaid(program.sop, SOPGraph(program.sop))
    assert '    step_subgraph["subgraph<br/>role \'wri\' ~ #quot;ter#quot;"]' in lines
    assert '    step_subgraph -->|"end"| step_style' in lines and '    step_style --> output_click' in lines


def test_words_for_numbers() -> None:
    assert [wording.duration(seconds) for seconds in (0.04, 9.96, 59.4, 61, 3599.7, 7260)] == [
        "0.0 s", "10.0 s", "59 s", "1 min 01 s", "1 h 00 min", "2 h 01 min"]
    assert [wording.short(number) for number in (999, 1000, 12_345, 1_500_000)] == ["999", "1k", "12.3k", "1.5M"]
    assert [wording.amount(number, "reply", "replies") for number in (1, 2000)] == ["1 reply", "2,000 replies"]
    assert wording.listed(["a"] * 4) == "a, a, a, a" and wording.listed(list("abcdef")) == "a, b, c, … (6 in all)"


@pytest.mark.parametrize(("event", "told"), [
    (Fired(step="a", round=2, read={"x": 3, "y": 0}), "a@2: starts on x@3, no y"),
    (Fired(step="a", round=1, read={}, items=()), "a@1: starts, for no item"),
    (Finished(activation="a@1[src/x%20y.py]~1", payload="p", seconds=3.2), "a@1[src/x y.py]~1: is done in 3.2 s"),
    (Finished(activation="a@1~0", payload="p", reused_from="one:a@1~0"), "a@1: taken over from one:a@1~0"),
    (Finished(activation="a@1~0", payload="p", why=("step", "need:facts")),
     "a@1: is done in 0.0 s; anew, since its step changed, facts changed"),
    (Finished(activation="a@1~0", payload="p", why=("one has no a@1",)), "a@1: is done in 0.0 s; anew, since one has no a@1"),
    (Failed(activation="a@1~2", error="no", final=True, stops=True), "a@1~2: stops the run: no"),
    (Committed(firing="a@1", reused=("k",)), "a@1: makes nothing new (1 item unchanged)"),
    (Committed(firing="a@1", versions=(Version(artifact="x", number=2, payload="p"),)), "a@1: makes x@2 for b, c"),
    (RunEnded(outcome="budget", reason="calls"), "run: ends: a cap is reached; calls"),
    (Observed(key="a@1~0/tools", payload="p"), "a@1: learns what tools it has"),
    (Decided(key="a@1~0/turn.0/tool.0", role="w", tool="write", action="write(x)", verdict="deny", rule="deny write of the SOP"),
     "a@1/turn.0/tool.0: may not write(x): deny write of the SOP"),
    (Intended(key="a@1~0/turn.0/tool.0", tool="write", arguments="p", effect="none"), "a@1/turn.0/tool.0: calls write"),
    (Done(key="a@1~0/turn.0/tool.0", payload="p", staged=True), "a@1/turn.0/tool.0: staged"),
    (Done(key="a@1~0/turn.0/tool.0", payload="p", error=True, untrusted="from the API b"),
     "a@1/turn.0/tool.0: an error; from the API b"),
    (Asked(key="a@1~0/turn.0/tool.0", question="q"), "a@1/turn.0/tool.0: asks a person"),
    (Answered(key="a@1~0/turn.0/tool.0", answer="p", by="assumed"),
     "a@1/turn.0/tool.0: nobody answers: goes on with an assumption"),
])
def test_the_minutes_in_words(event: Event, told: str) -> None:
    raw = event.model_dump(mode="json", by_alias=True)
    found = minute(raw, {"x": ["b", "c"]})
    assert f"{found.who}: {found.what}" == told
    lean = {"kind": event.kind, **event.model_dump(mode="json", by_alias=True, exclude_defaults=True)}
    assert minute(lean, {"x": ["b", "c"]}) == found, "the journal leaves defaults out"


@pytest.mark.parametrize(("event", "stored", "told"), [
    (Intended(key="a@1~0/turn.0/tool.0", tool="write", arguments="p", effect="none"), {"kind": "data", "value": {"to": "ann"}},
     ['      {', '        "to": "ann"', '      }']),
    (Done(key="a@1~0/turn.0/tool.0", payload="p"), {"kind": "data", "value": "two\nlines\x1b[2J"},
     ["      two", "      lines␛[2J"]),
    (Observed(key="a@1~0/tools", payload="p"), {"kind": "data", "value": [{"name": "ear.hear", "description": "Hear\n\nit."}]},
     ["      ear.hear: Hear it."]),
    (Asked(key="a@1~0", question="q"), {"text": "Which?", "choices": ["warm", "cold"], "untrusted": "the input x"},
     ["      Which?", "      (warm | cold)", "    why", "      read: the input x"]),
    (Answered(key="a@1~0", answer="a", by="terminal"), {"verdict": "no", "text": "too dear"}, ["      no", "      too dear"]),
    (Answered(key="a@1~0", answer="a", by="answer"), {"verdict": "yes", "scope": "run", "arguments": {}},
     ["      yes, and so every equal one in this run", "    with", "      {}"]),
    (Settled(key="a@1~0/turn.0", reply="r"), {"text": "", "value": None, "calls": [{"name": "x\x1b[2J", "arguments": "{}"}]},
     ["    call of x␛[2J", "      {}"]),
], ids=lambda part: getattr(part, "kind", None))
def test_the_minutes_in_full(event: Event, stored: dict[str, Any], told: list[str]) -> None:
    found = list(full(event.model_dump(mode="json", by_alias=True), lambda _: stored, Page()))
    assert found == told


def test_a_row_of_the_board_is_one_line() -> None:
    line = Row("running", "a\nb", "c\x1b[2Jd", item=True).line(Page(width=40), 10, Writing())
    assert "\n" not in line and "\x1b" not in line and columns(line) <= 40


def test_of_a_thousand_items_only_those_that_fit_are_drawn(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is drawn several times a second: what can't be seen is not made into text."""
    desk = Desk(program)
    items = [f"k{n}" for n in range(1000)]
    desk.tell(Fired(step="write_it", round=1, read={"plan": 1}, items=tuple(items)),
              *(Reserved(key=f"write_it@1[{item}]~0/turn.0", role="writer", digest="d", request="r", model="dry", tokens=9)
                for item in items))
    drawn: list[str] = []
    inside = Row.line

    def counted(row: Row, *given: Any) -> str:
        drawn.append(row.name)
        return inside(row, *given)

    monkeypatch.setattr(Row, "line", counted)
    assert len(desk.board.lines(Page(width=80), desk.now, 24)) <= 24
    assert len(drawn) <= 24 and {"k0", *program.sop.steps} <= set(drawn)


@pytest.mark.one_in(4)
async def test_a_run_in_outline_agrees_with_its_state(tmp_path: Path) -> None:
    """Two folds of the same events: of every prefix of a run with a loop, a failing item, an interruption and a resume."""
    (tmp_path / "desk.yaml").write_text(DESK)

    async def model(request: ModelRequest) -> object:
        if request.step == "plan_it":
            return ["a", "b", "c"]
        if request.step == "judge_it":
            return {"ok": "@1" not in request.key}
        if "[b]" in request.key:
            raise ValueError("no ink")
        return request.key

    home = tmp_path / "workspace"
    await run(tmp_path / "desk.yaml", model=model, topic="tea", name="whole", workspace=home, until="bind_it")

    async def another(request: ModelRequest) -> object:
        return await model(request)

    await resume("whole", model=another, workspace=home)
    with Journal.read(journal_path(home, "whole")) as journal:
        last = journal.last
    assert last > 30
    for until in range(1, last + 1):
        Journal.copy(journal_path(home, "whole"), journal_path(home, f"until-{until}"), until).__exit__()
        with Journal.read(journal_path(home, f"until-{until}")) as journal, RawJournal(journal.path) as raw:
            state, told = journal.state, outline(raw)
        assert told.compiled == state.compiled and told.fired == state.fired and told.models == state.models
        assert {name: [tuple(made) for made in versions] for name, versions in told.versions.items()} == {
            name: [(made.payload, made.firing, made.untrusted) for made in versions] for name, versions in state.versions.items()}
        assert {key: (firing.step, firing.items, firing.done) for key, firing in told.active.items()} == {
            key: (firing.step, firing.items, len(firing.done)) for key, firing in state.active.items()}
        assert told.walked == {step: len(keys) for step, keys in state.walked.items()}
        assert told.last == next(reversed(state.reads), None)
        ended, glance = state.ended, told.glance
        assert (glance.state, told.never) == (("killed", {}) if ended is None else (ended.outcome, ended.never))
        spent = state.total()
        assert (glance.calls, glance.tokens, glance.activations) == (spent.calls, spent.tokens, state.activations)
        assert glance.seconds == pytest.approx(state.elapsed, abs=0.002) and glance.began == state.began


@pytest.mark.parametrize(("event", "stored", "told"), [
    (Intended(key="a@1~0/turn.0/tool.1", tool="write", arguments="d"), {"kind": "data", "value": {"path": "a.md"}},
     'a@1/turn.0/tool.1: calls write {"path": "a.md"}'),
    (Done(key="a@1~0/turn.0/tool.1", payload="d", error=True), {"kind": "data", "value": "there is no\nfile"},
     "a@1/turn.0/tool.1: an error: there is no file"),
    (Done(key="a@1~0/turn.0/tool.1", payload="d"), {"kind": "data", "value": "long words"}, "a@1/turn.0/tool.1: done"),
    (Asked(key="a@1~0", question="d"), {"text": "Shall it?"}, "a@1: asks a person: Shall it?"),
    (Answered(key="a@1~0", answer="d", by="answer"), {"verdict": "no", "text": "too wet"},
     "a@1: is answered with `sop answer`: no, too wet"),
    (Answered(key="a@1~0", answer="d", by="answer"), {"verdict": "yes", "scope": "rule"},
     "a@1: is answered with `sop answer`: yes, for this rule"),
    (Asked(key="a@1~0", question="d"), {"text": "x" * 500}, f"a@1: asks a person: {'x' * 159}…"),
])
def test_the_minutes_tell_first_words_where_they_may_look_them_up(event: Event, stored: dict[str, Any], told: str) -> None:
    found = minute(event.model_dump(mode="json", by_alias=True), {}, {"d": stored}.__getitem__)
    assert f"{found.who}: {found.what}" == told


def test_every_kind_of_event_can_be_asked_for_in_the_log() -> None:
    kinds = {kind.model_fields["kind"].default for kind in get_args(get_args(Event)[0])}
    assert set(KINDS) == kinds - {"inner"}, "what happens inside of a SOP is asked for by what it is"
    assert set(minutes._WORDS) == set(KINDS), "and each has words"


class _Plain:
    """A board of two lines."""

    def lines(self, page: Page, now: float, height: int) -> list[str]:
        """Two."""
        return ["one", "two"]


def test_a_board_that_is_drawn_again_leaves_what_was_asked_in_between() -> None:
    from rich.console import Console
    from rich.live import Live

    file = StringIO()
    console = Console(file=file, force_terminal=True, width=60, height=20)
    face = LiveFace(cast(Board, _Plain()), lambda: Live(console=console, auto_refresh=False, transient=True))
    face.draw()
    face.pause()
    file.write("May it?\n> yes\n")
    face.go_on()
    after = file.getvalue().partition("> yes\n")[2]
    assert "one" in after and "\x1b[1A" not in after.partition("one")[0], "the board goes up over what was asked"
    face.close()


def test_the_cursor_comes_back_in_the_middle_of_a_drawing(capfd: pytest.CaptureFixture[str]) -> None:
    """A second Ctrl-C comes when it likes, and the process ends right after: what rich would write later nobody sees."""
    from rich.console import Console
    from rich.live import Live

    class Interrupted(StringIO):
        shown: str | None = None
        inside = False

        def write(self, text: str) -> int:
            if self.inside:
                raise RuntimeError("reentrant call")            # as Python's own buffered streams do
            self.inside = True
            written = super().write(text)
            if "two" in text and self.shown is None:
                face.close()
                self.shown = self.getvalue() + capfd.readouterr().out
            self.inside = False
            return written

    file = Interrupted()
    console = Console(file=file, force_terminal=True, width=60, height=20)
    face = LiveFace(cast(Board, _Plain()), lambda: Live(console=console, auto_refresh=False, transient=True))
    face.draw()
    assert file.shown is not None and file.shown.count("\x1b[?25l") == file.shown.count("\x1b[?25h") == 1
    face.close()
