"""`human:` steps: what is asked, what becomes the artifact, and what else stands in for a person."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, events, finished, write

from metaflow_agents.api.run import run, start
from metaflow_agents.questions.question import Answer, Question
from metaflow_agents.runtime.handle import RunResult
from metaflow_agents.schema.event import Answered, Asked, Committed
from metaflow_agents.sop.check import check


def asking(human: str, artifact: str = "{}", more: str = "") -> str:
    return f"""
        sop: asking
        inputs: {{topic: {{type: string, default: rain}}}}
        artifacts: {{word: {artifact}}}
        steps:
          ask: {{human: {human}, needs: [topic], makes: word, task: "What of {{{{ topic }}}}?"{more}}}
    """


class Person:
    """Says what the script says, one answer after the other, and keeps what was asked."""

    def __init__(self, *script: Answer | None) -> None:
        self.script, self.asked = list(script), list[Question]()

    async def __call__(self, question: Question, number: int) -> Answer | None:
        self.asked.append(question)
        return self.script.pop(0)


def played(folder: Path, text: str, person: Person | None = None, **options: Any) -> RunResult:
    return asyncio.run(run(write(folder, text), asker=person, workspace=folder / "w", name="one", **options))


YES, NO = Answer(verdict="yes"), Answer(verdict="no", text="dull")
FIXED = [
    ("text", Answer(text="wet"), {"text": "wet", "assumed": False}),
    ("approve", YES, {"approved": True, "reason": "", "assumed": False}),
    ("approve", NO, {"approved": False, "reason": "dull", "assumed": False}),
    ("{choice: [warm, cold]}", Answer(text="cold"), {"choice": "cold", "assumed": False}),
]


@pytest.mark.parametrize(("human", "answer", "value"), FIXED)
def test_the_fixed_schemas(tmp_path: Path, human: str, answer: Answer, value: Any) -> None:
    person = Person(answer)
    assert played(tmp_path, asking(human), person)["word"] == value
    (question,) = person.asked
    assert (question.text, question.key, question.step) == ("What of rain?", "ask@1~0", "ask")


OWN = [
    ("text", "{schema: string}", Answer(text="wet"), "wet"),
    ("text", "{schema: integer}", Answer(text="3"), 3),
    ("text", "{schema: {days: [string]}}", Answer(text='{"days": ["today"]}'), {"days": ["today"]}),
    ("text", "{schema: {text: string, assumed: boolean}}", Answer(text='{"text": "a", "assumed": true}'),
     {"text": "a", "assumed": True}),
    ("approve", "{schema: boolean}", YES, True),
    ("approve", "{schema: {approved: boolean, reason: string, assumed: boolean}}", NO,
     {"approved": False, "reason": "dull", "assumed": False}),
    ("{choice: [warm, cold]}", "{schema: warm | cold}", Answer(text="cold"), "cold"),
]


@pytest.mark.parametrize(("human", "artifact", "answer", "value"), OWN)
def test_an_artifact_with_a_schema_of_its_own_gets_the_answer_itself(
        tmp_path: Path, human: str, artifact: str, answer: Answer, value: Any) -> None:
    assert played(tmp_path, asking(human, artifact), Person(answer))["word"] == value


def test_what_does_not_fit_is_asked_again_with_what_is_wrong(tmp_path: Path) -> None:
    text = asking("text", "{schema: integer, rules: [{assert: word > 0, message: it has to rain}]}")
    person = Person(Answer(text="-1"), Answer(text="0"), Answer(text="2"))
    assert played(tmp_path, text, person)["word"] == 2
    assert [question.key for question in person.asked] == ["ask@1~0", "ask@1~0/again.1", "ask@1~0/again.2"]
    assert "it has to rain" in person.asked[1].text and person.asked[1].text.startswith("What of rain?")
    assert len(events(tmp_path / "w", "one", Asked)) == len(events(tmp_path / "w", "one", Answered)) == 3


def test_a_judgement_that_does_not_fit_fails(tmp_path: Path) -> None:
    result = played(tmp_path, asking("approve", "{schema: boolean, rules: [{assert: not word}]}"), Person(YES))
    assert result.outcome == "stopped" and "the answer 'approved' does not fit" in result.reason


ASSUMED = [
    ("text", "{}", {"text": "", "assumed": True}),
    ("approve", "{}", {"approved": False, "reason": "", "assumed": True}),
    ("{choice: [warm, cold]}", "{}", {"choice": "warm", "assumed": True}),
    ("text", "{schema: {days: [string], cold: boolean}}", {"days": [], "cold": False}),
    ("text", "{schema: string}", "word"),
]


@pytest.mark.parametrize(("human", "artifact", "value"), ASSUMED)
def test_what_is_assumed_stands_in_the_artifact_and_in_the_journal(
        tmp_path: Path, human: str, artifact: str, value: Any) -> None:
    assert played(tmp_path, asking(human, artifact, ", on_no_answer: assume"))["word"] == value
    assert [words.partition(":")[0] for words in finished(tmp_path / "w", "one")["ask@1~0"].assumed] == ["ask@1~0"]


def test_each_item_is_asked_about_and_unchanged_ones_once(tmp_path: Path) -> None:
    text = """
        sop: each
        inputs: {names: {type: [string], default: [a, b]}}
        artifacts: {ok: {each: {}}, tries: {schema: integer, initial: 0}}
        steps:
          ask: {human: approve, needs: [names], sees: [tries], foreach: {in: names, as: name}, makes: ok, task: "{{ name }}?"}
          again: {value: tries + 1, needs: [ok], sees: [tries], when: tries < 1, makes: tries, rounds: 1}
        outputs: [ok]
    """
    person = Person(YES, NO)
    result = played(tmp_path, text, person)
    assert [question.text for question in person.asked] == ["a?", "b?"]
    assert result["ok"] == {"a": {"approved": True, "reason": "", "assumed": False},
                            "b": {"approved": False, "reason": "dull", "assumed": False}}


def test_dry_asks_nobody(tmp_path: Path) -> None:
    person = Person()
    for human, value in (("text", {"text": "text", "assumed": False}), ("approve", {"approved": False, "reason": "reason",
                         "assumed": False}), ("{choice: [warm, cold]}", {"choice": "warm", "assumed": False})):
        assert asyncio.run(run(write(tmp_path, asking(human)), model="dry", asker=person, workspace=None))["word"] == value
    assert person.asked == []


def test_what_is_given_stands_in_for_the_answer(tmp_path: Path) -> None:
    result = asyncio.run(run(write(tmp_path, asking("approve")), given={"word": {"approved": True}}, workspace=None))
    assert result["word"] == {"approved": True, "reason": "reason", "assumed": False}


def test_a_later_run_takes_the_answer_over_where_nothing_changed(tmp_path: Path) -> None:
    played(tmp_path, asking("text"), Person(Answer(text="wet")))
    options: dict[str, Any] = {"from_run": "one", "workspace": tmp_path / "w"}
    assert asyncio.run(run(write(tmp_path, asking("text")), **options))["word"]["text"] == "wet"
    other = asyncio.run(run(write(tmp_path, asking("text")), topic="snow", **options))
    assert other.outcome == "waiting"


def test_a_later_run_does_not_take_an_assumption_over(tmp_path: Path) -> None:
    text = asking("text", "{}", ", on_no_answer: assume")
    played(tmp_path, text)
    person = Person(Answer(text="wet"))
    asyncio.run(run(write(tmp_path, text), from_run="one", workspace=tmp_path / "w", asker=person))
    assert len(person.asked) == 1


def test_what_a_person_said_is_trusted_and_the_person_hears_what_is_not(tmp_path: Path) -> None:
    text = asking("approve").replace("{type: string, default: rain}", "{type: string, default: rain, trusted: false}")
    person = Person(YES)
    played(tmp_path, text, person)
    labels = {version.artifact: version.untrusted for event in events(tmp_path / "w", "one", Committed)
              for version in event.versions}
    assert labels["topic"] and labels["word"] == "" and person.asked[0].untrusted == labels["topic"]


def test_a_question_that_an_edit_changed_is_asked_anew(tmp_path: Path) -> None:
    from metaflow_agents.api.run import resume

    asyncio.run(run(write(tmp_path, asking("text")), workspace=tmp_path / "w", name="one"))
    write(tmp_path, asking("text").replace("What of", "What comes of"))
    person = Person(Answer(text="wet"))
    result = asyncio.run(resume("one", workspace=tmp_path / "w", accept_changes=True, asker=person))
    assert result.ok and [question.text for question in person.asked] == ["What comes of rain?"]
    first, second = events(tmp_path / "w", "one", Asked)
    assert first.key == second.key and second.why == "the question changed since it was asked: text"


def test_the_check_knows_what_a_person_gives(tmp_path: Path) -> None:
    text = asking("approve") + "      use: {value: word.aproved, needs: [word], makes: used}\n"
    found = check(write(tmp_path, text.replace("word: {}", "word: {}, used: {}")))
    assert [problem.code for problem in found.errors] == ["unknown-attribute"]
    assert "did you mean `approved`" in str(found.errors[0])


async def test_a_run_of_models_and_people_together(tmp_path: Path) -> None:
    text = """
        sop: both
        roles: {writer: {profile: You write.}}
        artifacts: {letter: {}, verdict: {}, better: {}}
        steps:
          write: {role: writer, makes: letter}
          judge: {human: approve, needs: [letter], makes: verdict, task: "{{ letter }}"}
          mend: {role: writer, needs: [verdict], when: not verdict.approved, makes: better, task: "{{ verdict.reason }}"}
    """
    model = Scripted()
    async with start(write(tmp_path, text), model=model, workspace=None, asker=Person(NO)) as going:
        result = await going.result()
    assert result["better"] == "mend done" and "dull" in model.said("mend@1~0/turn.0")
