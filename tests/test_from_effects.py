# ruff: noqa: E501  (SOPs stand here as people write them)
"""`--from RUN` repeats no effect that may happen once only without a person's word: functions, tools, and those of roles and sub-SOPs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from crash_harness import NAME
from crash_prefixes import recorded
from scripted import events, write
from tiers import some

from metaflow_agents import RunResult, resume, run
from metaflow_agents.models.port import ModelRequest, Reply, ToolCall
from metaflow_agents.questions.question import Answer, Question
from metaflow_agents.schema.event import Asked, Failed, Finished, Intended

SHOP = """
import asyncio
from pathlib import Path

async def book(room, nights):
    while Path({ledger!r}).with_name("closed").exists():
        await asyncio.sleep(0.01)
    with Path({ledger!r}).open("a") as ledger:
        print(room, nights, file=ledger)
    return {{"receipt": f"{{room}}/{{nights}}"}}
"""
CALL = "book_it: {call: 'shop:book', effect: once, needs: [room, nights], makes: receipt}"
TOOL = "book_it: {tool: book, inputs: {room: room, nights: nights}, needs: [room, nights], makes: receipt, parse: json}"
ROLE = "book_it: {role: clerk, tools: [book], needs: [room, nights], makes: receipt, task: 'Book {{ room }} for {{ nights }}.'}"
INNER = "book_it: {sop: booking, inputs: {room: room, nights: nights}, needs: [room, nights], makes: receipt}"
BOOKING = """
    sop: booking
    inputs: {room: string, nights: integer}
    artifacts: {receipt: {schema: {receipt: string}}}
    steps: {do_it: {call: 'shop:book', effect: once, needs: [room, nights], makes: receipt}}
"""
KINDS = {"call": CALL, "tool": TOOL, "role": ROLE, "sop": INNER}


def clerk(request: ModelRequest) -> Any:
    """Books what it is told to, and answers with the receipt."""
    told = [message["content"] for message in request.messages if message["role"] == "tool"]
    if told:
        return told[-1][told[-1].rindex("{"):]
    words = str(request.messages[-1]["content"]).split("Book ")[1].split()
    return Reply(text="", calls=(ToolCall(id="c", name="book", arguments={"room": words[0], "nights": int(words[2].strip("."))}),))


def desk(folder: Path, step: str, *, description: str = "a receipt", more: str = "") -> Path:
    """Where the description of what it makes is another, the step is done again."""
    return write(folder, f"""
        sop: desk
        inputs: {{room: string, nights: integer}}
        roles: {{clerk: {{profile: You book.}}}}
        tools: {{book: {{python: 'shop:book', effect: once}}}}
        policy: {{preset: danger-full-access}}
        artifacts:
          receipt: {{schema: {{receipt: string}}, description: {description}}}
          note: {{}}
        steps:
          {step}
          note_it: {{value: "receipt.receipt ~ '!'", needs: [receipt], makes: note}}
          {more}
        outputs: [note]
    """, shop_py=SHOP.format(ledger=str(folder / "ledger.txt")), booking_yaml=BOOKING)


def booked(folder: Path) -> list[str]:
    return (folder / "ledger.txt").read_text().split("\n")[:-1]


class Person:
    """Answers every question with this, and keeps the questions."""

    def __init__(self, *answers: Answer | None) -> None:
        self.answers, self.asked = list(answers), list[Question]()

    async def __call__(self, question: Question, _: int) -> Answer | None:
        self.asked.append(question)
        return self.answers.pop(0)


async def go(path: Path, name: str, *, nights: int = 2, room: str = "7", **options: Any) -> RunResult:
    return await run(path, **{"room": room, "nights": nights, "model": clerk, "name": name, "workspace": path.parent, "sandbox": "none", **options})


async def first(folder: Path, kind: str) -> None:
    result = await go(desk(folder, KINDS[kind]), "first")
    assert result.ok, result.reason
    assert booked(folder) == ["7 2"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("answer", "outcome", "times"), [("take", "success", 1), ("again", "success", 2), ("stop", "stopped", 1)])
async def test_what_was_done_is_asked_about(tmp_path: Path, kind: str, answer: str, outcome: str, times: int) -> None:
    await first(tmp_path, kind)
    changed = desk(tmp_path, KINDS[kind], description="the receipt")
    if kind == "sop":
        (tmp_path / "booking.yaml").write_text((tmp_path / "booking.yaml").read_text().replace("schema: {", "description: x, schema: {"))
    person = Person(Answer(text=answer))
    result = await go(changed, "second", from_run="first", asker=person)
    assert (result.outcome, len(booked(tmp_path))) == (outcome, times), result.reason
    (question,) = person.asked
    assert question.kind == "choice" and question.default == "take" and question.earlier.startswith("first:book_it@1~0/")
    assert "Run `first` has done this already" in question.text and "the same arguments" in question.text and "7/2" in question.text
    if outcome == "success":
        assert result.outputs == {"note": "7/2!"}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("killed", [False, True])
async def test_what_was_done_inside_a_sop_is_taken_over_with_its_result_and_counts_on(tmp_path: Path, killed: bool) -> None:
    """Another step of the sub-SOP changed: nothing is asked, nothing done again, also by a later run that does it anew."""
    step = "book_it: {sop: booking, inputs: {room: room, nights: nights}, output: words, needs: [room, nights], makes: note}"

    def changed(words: str, receipt: str) -> Path:
        desk(tmp_path, step)
        path = write(tmp_path, f"""
            sop: desk
            inputs: {{room: string, nights: integer}}
            policy: {{preset: danger-full-access}}
            artifacts: {{note: {{}}}}
            steps: {{{step}}}
        """)
        write(tmp_path / "x", "", booking_yaml=f"""
            sop: booking
            inputs: {{room: string, nights: integer}}
            artifacts: {{receipt: {{schema: {{receipt: string}}, description: {receipt}}}, words: {{}}}}
            steps:
              do_it: {{call: 'shop:book', effect: once, needs: [room, nights], makes: receipt}}
              say: {{value: "receipt.receipt ~ '{words}'", needs: [receipt], makes: words}}
        """).with_name("booking.yaml").replace(tmp_path / "booking.yaml")
        return path

    path = changed("?", "a receipt")
    assert (await go(path, "first")).outputs == {"note": "7/2?"}
    changed(".", "a receipt")
    with recorded(tmp_path) as recording:
        assert (await go(path, NAME, from_run="first", asker=Person())).outputs == {"note": "7/2."}
    for moment in some(recording.open, 6) if killed else ():
        recording.lay(moment)
        assert (await resume(NAME, workspace=tmp_path, sandbox="none", asker=Person())).outputs == {"note": "7/2."}
    assert booked(tmp_path) == ["7 2"]
    changed(".", "the receipt")
    person = Person(Answer(text="take"))
    third = await go(path, "third", from_run=NAME, asker=person)
    assert third.outputs == {"note": "7/2."} and booked(tmp_path) == ["7 2"]
    assert [question.earlier for question in person.asked] == ["first:book_it@1~0/do_it@1~0/call"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", KINDS)
async def test_with_other_arguments_nothing_is_offered(tmp_path: Path, kind: str) -> None:
    await first(tmp_path, kind)
    person = Person(Answer(text="again"))
    result = await go(tmp_path / "desk.yaml", "second", nights=3, from_run="first", asker=person)
    assert result.ok and booked(tmp_path) == ["7 2", "7 3"], result.reason
    (question,) = person.asked
    assert question.default == "" and '"nights": 2' in question.text and "other arguments" in question.text
    taken = await go(tmp_path / "desk.yaml", "third", nights=4, from_run="second", asker=Person(Answer(text="take")))
    assert taken.ok and taken.outputs == {"note": "7/3!"} and len(booked(tmp_path)) == 2


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", KINDS)
async def test_who_never_did_it_is_not_asked(tmp_path: Path, kind: str) -> None:
    ahead = "ahead: {value: room, needs: [room], makes: x}"
    path = desk(tmp_path, KINDS[kind], more=ahead)
    path.write_text(path.read_text().replace("note: {}", "note: {}, x: {}").replace("  note: {}, x: {}", "  note: {}\n  x: {}"))
    assert (await go(path, "first", until="ahead", nights=1, model="dry")).outcome == "until"
    (tmp_path / "ledger.txt").write_text("")
    person = Person()
    result = await go(path, "second", from_run="first", asker=person)
    assert result.ok and person.asked == [] and booked(tmp_path) == ["7 2"], result.reason


async def test_it_is_known_through_runs_that_took_it_over(tmp_path: Path) -> None:
    await first(tmp_path, "call")
    assert (await go(tmp_path / "desk.yaml", "second", from_run="first", asker=Person())).ok
    (tmp_path / ".journals" / "first.db").rename(tmp_path / "gone.db")          # the first run need not be there any more
    (done,) = [event for event in events(tmp_path, "second", Finished) if event.effects]
    assert done.effects[0].source == "first:book_it@1~0/call"
    person = Person(Answer(text="take"))
    third = await go(desk(tmp_path, CALL, description="another"), "third", from_run="second", asker=person)
    assert third.ok and booked(tmp_path) == ["7 2"] and person.asked[0].earlier == "first:book_it@1~0/call"
    fourth = await go(desk(tmp_path, CALL, description="one more"), "fourth", from_run="third", asker=Person(Answer(text="take")))
    assert fourth.ok and booked(tmp_path) == ["7 2"]
    (took,) = events(tmp_path, "fourth", Intended)
    assert took.taken.source == "first:book_it@1~0/call"


@pytest.mark.one_in(4)
async def test_nobody_there_waits_in_the_inbox_and_a_stop_is_asked_anew(tmp_path: Path) -> None:
    await first(tmp_path, "call")
    result = await go(desk(tmp_path, CALL, description="another"), "second", from_run="first")
    assert result.outcome == "waiting" and "has done this already" in result.reason and booked(tmp_path) == ["7 2"]
    stopped = await resume("second", workspace=tmp_path, sandbox="none", asker=Person(Answer(text="stop")))
    assert stopped.outcome == "stopped" and "a person stopped the run" in stopped.reason
    assert [event.stops for event in events(tmp_path, "second", Failed)] == [True]
    person = Person(Answer(text="again"))
    again = await resume("second", workspace=tmp_path, sandbox="none", asker=person)
    assert again.ok and len(person.asked) == 1 and booked(tmp_path) == ["7 2", "7 2"]


async def test_a_stop_counts_whatever_on_fail_says(tmp_path: Path) -> None:
    step = CALL.replace("makes: receipt", "makes: receipt, retries: 3, on_fail: skip")
    await go(desk(tmp_path, step), "first")
    result = await go(desk(tmp_path, step, description="another"), "second", from_run="first", asker=Person(Answer(text="stop")))
    assert result.outcome == "stopped" and booked(tmp_path) == ["7 2"]


async def test_a_renamed_step_is_asked_about_and_a_second_one_is_not(tmp_path: Path) -> None:
    await first(tmp_path, "call")
    person = Person(Answer(text="take"))
    renamed = await go(desk(tmp_path, CALL.replace("book_it", "reserve")), "second", from_run="first", asker=person)
    assert renamed.ok and len(person.asked) == 1 and booked(tmp_path) == ["7 2"]
    more = "book_more: {call: 'shop:book', effect: once, needs: [room, nights], sees: [note], makes: more}"
    for step, answers, times in ((CALL, [], 2), (CALL.replace("book_it", "reserve"), [Answer(text="take")], 3)):
        path = desk(tmp_path, step, more=more)
        path.write_text(path.read_text().replace("  note: {}", "  note: {}\n  more: {schema: {receipt: string}}"))
        person = Person(*answers)
        both = await go(path, f"third-{times}", from_run="first", asker=person)
        assert both.ok and len(person.asked) == len(answers) and len(booked(tmp_path)) == times


async def test_what_a_failed_run_did_counts_and_what_it_was_cut_off_in_is_asked_about(tmp_path: Path) -> None:
    step = CALL.replace("makes: receipt", "makes: receipt, timeout: 60s")
    wrong = desk(tmp_path, step).read_text().replace("receipt: {schema: {receipt: string}", "receipt: {schema: {receipt: integer}")
    (tmp_path / "desk.yaml").write_text(wrong)
    assert (await go(tmp_path / "desk.yaml", "first")).outcome == "stopped" and booked(tmp_path) == ["7 2"]
    person = Person(Answer(text="take"))
    assert (await go(desk(tmp_path, step), "second", from_run="first", asker=person)).ok and booked(tmp_path) == ["7 2"]
    assert person.asked[0].default == "take"


@pytest.mark.parametrize(("answer", "times", "note"), [
    (Answer(verdict="yes", text=json.dumps({"receipt": "lost"})), 0, "lost!"), (Answer(verdict="no"), 1, "7/2!")])
async def test_what_nobody_knows_the_end_of_is_asked_about(tmp_path: Path, answer: Answer, times: int, note: str) -> None:
    path = desk(tmp_path, CALL.replace("makes: receipt", "makes: receipt, timeout: 0.05"))
    (tmp_path / "ledger.txt").write_text("")
    (tmp_path / "closed").touch()
    assert (await go(path, "first")).outcome == "stopped"
    (tmp_path / "closed").unlink()
    person = Person(answer)
    result = await go(desk(tmp_path, CALL), "second", from_run="first", asker=person)
    assert person.asked[0].kind == "effect" and "nobody knows what became of it" in person.asked[0].text
    assert result.ok and result.outputs == {"note": note} and len(booked(tmp_path)) == times, result.reason


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("answer", "times"), [("take", 1), ("again", 2)])
async def test_killed_at_any_write_it_is_asked_once_and_done_as_decided(tmp_path: Path, kind: str, answer: str, times: int) -> None:
    home = tmp_path / "home"
    home.mkdir()
    await first(home, kind)
    changed = desk(home, KINDS[kind], description="the receipt")
    if kind == "sop":
        (home / "booking.yaml").write_text((home / "booking.yaml").read_text().replace("schema: {", "description: x, schema: {"))

    async def there(question: Question, _: int) -> Answer:
        if question.kind == "choice":
            return Answer(text=answer)
        return Answer(verdict="yes", text=json.dumps({"receipt": "7/2"})) if len(booked(home)) == times else Answer(verdict="no")

    with recorded(home) as recording:
        whole = await go(changed, NAME, from_run="first", asker=there)
    assert whole.outputs == {"note": "7/2!"} and len(booked(home)) == times and len(recording.open) >= 5
    for moment in recording.open if len(recording.open) < 16 else some(recording.open, 4):
        recording.lay(moment)
        again = await resume(NAME, workspace=home, sandbox="none", model=clerk, asker=there)
        assert (again.outputs, len(booked(home))) == ({"note": "7/2!"}, times), moment.what
        choices = [event for event in events(home, NAME, Asked) if event.key.endswith("/again")]
        assert len(choices) == 1, moment.what
        if answer == "take":
            assert [event.taken.source.partition(":")[0] for event in events(home, NAME, Intended)] == ["first"]


async def test_yes_answers_no_such_question(tmp_path: Path) -> None:
    """It allows and approves: whether a thing is done twice is neither."""
    await first(tmp_path, "call")
    result = await go(desk(tmp_path, CALL, description="another"), "second", from_run="first", yes=True)
    assert result.outcome == "waiting" and booked(tmp_path) == ["7 2"]


async def test_items_are_asked_about_in_their_order_before_any_is_done_again(tmp_path: Path) -> None:
    step = "book_it: {foreach: {in: 'range(1, nights + 1)', as: night, key: 'night | string'}, call: 'shop:book', args: {room: '{{ room }}', nights: '{{ night }}'}, effect: once, needs: [room, nights], makes: receipt}"
    path = desk(tmp_path, step)
    path.write_text(path.read_text().replace("receipt.receipt ~ '!'", "'done'").replace("receipt: {schema: ", "receipt: {each: "))
    assert (await go(path, "first", nights=3)).ok and sorted(booked(tmp_path)) == ["7 1", "7 2", "7 3"]
    path.write_text(path.read_text().replace("a receipt", "the receipt"))
    person = Person(Answer(text="take"), Answer(text="again"), Answer(text="take"))
    assert (await go(path, "second", nights=3, from_run="first", asker=person)).ok
    assert [question.key.partition("~")[0] for question in person.asked] == ["book_it@1[1]", "book_it@1[2]", "book_it@1[3]"]
    assert sorted(booked(tmp_path)) == ["7 1", "7 2", "7 2", "7 3"]


async def test_the_runs_own_name_is_no_other_argument(tmp_path: Path) -> None:
    path = desk(tmp_path, CALL)
    (tmp_path / "shop.py").write_text((tmp_path / "shop.py").read_text().replace("book(room, nights)", "book(room, nights, run)"))
    assert (await go(path, "first")).ok
    path.write_text(path.read_text().replace("a receipt", "the receipt"))
    person = Person(Answer(text="take"))
    assert (await go(path, "second", from_run="first", asker=person)).ok
    assert person.asked[0].default == "take" and booked(tmp_path) == ["7 2"]
