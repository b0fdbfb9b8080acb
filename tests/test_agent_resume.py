"""What a role's tools know when an activation is entered again: the same as if it had never been left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from metaflow_agents import run
from metaflow_agents.api.run import resume
from metaflow_agents.journal.journal import Journal
from metaflow_agents.models.port import ModelRequest, Reply, ToolCall
from metaflow_agents.questions.answering import give
from metaflow_agents.questions.question import Answer, Question
from metaflow_agents.schema.event import Asked, Decided
from metaflow_agents.settings import Settings

SOP = """
sop: left
inputs: {topic: string}
roles: {worker: {profile: a worker, tools: [write, python, ask_person]}}
artifacts: {source: {files: "src/**"}}
steps: {work: {role: worker, needs: [topic], makes: source, task: "Write about {{ topic }}."}}
"""
ASKING = ("ask_person", {"question": "Go on?", "assumption": "yes"})


class Script:
    """A model that says one thing after the other, wherever the run stands."""

    def __init__(self, *turns: Any) -> None:
        self.turns, self.last = turns, list[Any]()

    def __call__(self, request: ModelRequest) -> Any:
        said = self.turns[sum(message["role"] == "assistant" for message in request.messages)]
        self.last = [message["content"] for message in request.messages if message["role"] == "tool"]
        if isinstance(said, str):
            return said
        return Reply(text="", calls=tuple(ToolCall(id=f"c{number}", name=name, arguments=given)
                                          for number, (name, given) in enumerate(said)))


async def to_the_end(folder: Path, model: Script, *answers: Answer, policy: str = "", text: str = SOP) -> Any:
    """The run, left and entered again at each question; the answers in the order of the questions."""
    sop = folder / "left.yaml"
    sop.write_text(text + policy)
    result = await run(sop, topic="x", model=model, workspace=folder / "w", name="left")
    for answer in answers:
        assert result.exit_status == 4, result
        path = folder / "w" / ".journals" / "left.db"
        with Journal.read(path) as journal:
            (asked,) = journal.state.questions.values()
            question = Question.model_validate_json(journal.blob(asked.question))
        await give(path, question, answer, Settings.read())
        result = await resume("left", model=model, workspace=folder / "w")
    assert result.ok, result
    return result


@pytest.mark.one_in(4)
async def test_code_that_was_not_carried_out_is_not_carried_out_by_a_resume(tmp_path: Path) -> None:
    """Refused by a person, changed by a person, without its argument."""
    model = Script([("python", {"code": "x = 1"})], [("python", {"code": "y = 1"})], [("python", {})], [ASKING],
                   [("python", {"code": "'x' in globals(), y"})], [("write", {"path": "src/a", "text": "x"})], "done")
    await to_the_end(tmp_path, model, Answer(verdict="no"), Answer(verdict="yes", arguments={"code": "y = 2"}),
                     Answer(text="yes"), Answer(verdict="yes"), policy='policy: {ask: ["python"]}')
    assert "(False, 2)" in model.last[4], model.last


async def test_the_scratch_interpreter_has_the_files_of_its_first_use(tmp_path: Path) -> None:
    listed = "import os; os.path.exists('src/a')"
    model = Script([("python", {"code": listed})], [("write", {"path": "src/a", "text": "x"})], [ASKING],
                   [("python", {"code": listed})], "done")
    await to_the_end(tmp_path, model, Answer(text="yes"))
    assert "False" in model.last[0] and model.last[3] == model.last[0]


async def test_to_ask_a_person_may_be_asked_about(tmp_path: Path) -> None:
    """Two questions in one call: whether it may be put, and what it says."""
    model = Script([ASKING], [("write", {"path": "src/a", "text": "x"})], "done")
    await to_the_end(tmp_path, model, Answer(verdict="yes"), Answer(text="go on, by all means"),
                     policy='policy: {ask: ["ask_person"]}')
    assert model.last[0] == "go on, by all means"


async def test_a_call_that_is_done_is_not_done_again_and_what_it_wrote_is_there(tmp_path: Path) -> None:
    (tmp_path / "booking.py").write_text("def book(path: str) -> str:\n    with open(path, 'a') as file:\n"
                                         "        file.write('booked ')\n    return 'booked'\n")
    model = Script([("book", {"path": str(tmp_path / "book")}), ("write", {"path": "src/a", "text": "x"})], [ASKING], "done")
    result = await to_the_end(tmp_path, model, Answer(text="yes"), text=SOP.replace("[write,", "[book, write,"),
                              policy="tools: {book: {python: 'booking:book', effect: none}}")
    assert (tmp_path / "book").read_text() == "booked " and list(result["source"]) == ["src/a"]


async def test_what_a_person_changed_is_decided_once(tmp_path: Path) -> None:
    model = Script([("write", {"path": "src/a", "text": "x"}), ASKING], "done")
    sop = tmp_path / "left.yaml"
    sop.write_text(SOP + 'policy: {ask: ["write(src/a)"]}')

    async def changes(question: Question, number: int) -> Answer | None:
        return Answer(verdict="yes", arguments={"path": "src/b", "text": "x"}) if question.kind == "action" else None

    assert (await run(sop, topic="x", model=model, workspace=tmp_path / "w", name="left", asker=changes)).exit_status == 4
    with Journal.read(tmp_path / "w" / ".journals" / "left.db") as journal:
        decided = [event.action for _, event in journal.events(Decided)]
        asked = [event.key for _, event in journal.events(Asked)]
    assert sorted(decided) == ["ask_person", "write(src/a)", "write(src/b)"] and len(asked) == 2


@pytest.mark.parametrize(("effect", "event"), [("none", "Decided"), ("once", "Intended")])
async def test_a_call_is_made_after_what_speaks_of_it_is_on_disk(tmp_path: Path, effect: str, event: str) -> None:
    """Its decision, also where it changes nothing: it may tell somebody outside something. And where it has an effect, its
    intention: else a kill in its middle would leave nothing that asks about it.
    """
    (tmp_path / "looking.py").write_text(f"""
from metaflow_agents.journal.journal import Journal
from metaflow_agents.schema.event import {event}


def look(path: str) -> int:
    with Journal.read(__import__("pathlib").Path(path)) as journal:
        return len(list(journal.events({event})))
""")
    path = str(tmp_path / "w" / ".journals" / "left.db")
    model = Script([("look", {"path": path})], [("look", {"path": path})], "done")
    sop = tmp_path / "left.yaml"
    sop.write_text(SOP.replace("write, python, ask_person", "look").replace('{files: "src/**"}', "{}")
                   + f"tools: {{look: {{python: 'looking:look', effect: {effect}}}}}")
    assert (await run(sop, topic="x", model=model, workspace=tmp_path / "w", name="left")).ok
    assert model.last == ["1", "2"]
