"""`review:`: another role judges inside the activation, after form and check; its word goes back to the author."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from scripted import Scripted, block, events, write
from stopping import stopped_everywhere

from metaflow_agents import check, run
from metaflow_agents.models.port import ModelRequest
from metaflow_agents.schema.event import Failed, Reserved

LETTER = """
    sop: desk
    inputs: {topic: string}
    roles: {author: {profile: You write.}, critic: {profile: You judge.}}
    artifacts: {letter: {}}
    steps:
      write: {role: author, needs: [topic], makes: letter, review: {role: critic}}
"""


def answer_in(request: ModelRequest) -> str:
    """What the judge is shown as the answer."""
    found = re.search(r"<answer>\n(.*?)\n</answer>", request.messages[-1]["content"], re.DOTALL)
    return found[1] if found else ""


async def writing(request: ModelRequest) -> Any:
    """The author names a source when it is told to; the judge wants one, and a date where there is a source."""
    said = request.messages[-1]["content"]
    if "/reviewed." in request.key:
        answer = answer_in(request)
        lacks = [what for what in ("source", "date") if what not in answer][:1]
        return {"good": not lacks, "why": f"it names no {lacks[0]}" if lacks else "all is there"}
    earlier = next((message["content"] for message in reversed(request.messages) if message["role"] == "assistant"), "Snow.")
    told = re.search(r"names no (\w+)", said)
    return f"{earlier} With a {told[1]}." if told else earlier


async def test_what_the_judge_says_goes_back_until_the_judge_is_content(tmp_path: Path) -> None:
    model = Scripted(write=writing)
    result = await run(write(tmp_path, LETTER), topic="snow", model=model, workspace=None)
    assert result["letter"] == "Snow. With a source. With a date."
    assert [key.removeprefix("write@1~0/") for key in model.keys] == [
        "turn.0", "reviewed.0/verdict", "review.1", "reviewed.1/verdict", "review.2", "reviewed.2/verdict"]
    assert [request.role for request in model.requests] == ["author", "critic"] * 3
    judge = model.said("write@1~0/reviewed.1/verdict")
    assert "You judge." in judge and "snow" in judge and "You write." not in judge
    assert "it names no source" in judge, "the judge knows what it wanted before"
    assert "`critic`, who judges it, says: it names no date" in model.last_said("write@1~0/review.2")


async def test_the_last_refusal_fails_the_attempt_with_what_the_judge_said(tmp_path: Path) -> None:
    one = LETTER.replace("{role: critic}", "{role: critic, repairs: 1, accept: verdict.good and topic}")
    model = Scripted(write=writing)
    result = await run(write(tmp_path, one), topic="snow", model=model, workspace=tmp_path, name="one")
    assert result.reason.endswith("`accept: verdict.good and topic` does not hold")
    assert "`accept:" not in model.last_said("write@1~0/review.1"), "the author is told faults, not a condition"
    assert result.outcome == "stopped" and "rejected by its reviewer" in result.reason and "it names no date" in result.reason
    assert len(model.keys) == 4 and [event.final for event in events(tmp_path, "one", Failed)] == [True]


async def test_it_comes_after_the_form_and_the_check(tmp_path: Path) -> None:
    checked = LETTER.replace("letter: {}", "letter: {schema: {text: string}}").replace(
        "review:", "check: {call: 'desk_check:check'}, review:")
    (tmp_path / "desk_check.py").write_text(
        "def check(letter):\n    return None if 'Dear' in letter['text'] else 'no greeting'\n")

    def said(request: ModelRequest) -> Any:
        last = request.messages[-1]["content"]
        if "/reviewed." in request.key:
            return {"good": "bye" in answer_in(request), "why": "no bye"}
        if "no bye" in last:
            return {"text": "bye"}                              # and the check refuses that again
        if "no greeting" in last:
            return {"text": "Dear you" + (", bye" if "review.1" in request.key or "check.2" in request.key else "")}
        return {"text": "hello"} if "repair" in request.key else {"words": 1}

    model = Scripted(write=said)
    result = await run(write(tmp_path, checked), topic="snow", model=model, workspace=None)
    assert result["letter"] == {"text": "Dear you, bye"}
    assert [key.partition("~0/")[2] for key in model.keys] == [
        "turn.0", "turn.0/repair.1", "check.1", "reviewed.0/verdict", "review.1", "check.2", "reviewed.1/verdict"]


async def test_a_verdict_of_its_own_form_is_taken_by_an_expression(tmp_path: Path) -> None:
    scored = LETTER.replace("{role: critic}", "{role: critic, verdict: {score: integer, faults: [string]}, "
                            "accept: verdict.score > 2 * (answer | length) / 10}")

    def said(request: ModelRequest) -> Any:
        if "/reviewed." in request.key:
            return {"score": 3, "faults": ["too long"]}
        return "short letter" if "too long" in request.messages[-1]["content"] else "a letter that is far too long"

    model = Scripted(write=said)
    result = await run(write(tmp_path, scored), topic="snow", model=model, workspace=None)
    assert result["letter"] == "short letter" and len(model.keys) == 4
    assert "verdict.score > 2" in model.said("write@1~0/reviewed.0/verdict")
    assert '{"score":3,"faults":["too long"]}' in model.last_said("write@1~0/review.1")


async def test_files_are_shown_as_files_and_mended_by_edits(tmp_path: Path) -> None:
    filed = LETTER.replace("letter: {}", 'letter: {files: "out/**"}')

    def said(request: ModelRequest) -> Any:
        if "/reviewed." in request.key:
            return {"good": "y = 2" in answer_in(request), "why": "there is no y"}
        return block("out/a.py", "x = 1\ny = 2" if "no y" in request.messages[-1]["content"] else "x = 1")

    model = Scripted(write=said)
    result = await run(write(tmp_path, filed), topic="snow", model=model, workspace=None)
    assert result["letter"] == {"out/a.py": "x = 1\ny = 2\n"}
    assert '<file path="out/a.py">\nx = 1\n' in model.said("write@1~0/reviewed.0/verdict")


async def test_the_judge_pays_from_its_own_budget_and_counts_in_the_step(tmp_path: Path) -> None:
    capped = LETTER.replace("{profile: You judge.}", "{profile: You judge., budget: {calls: 1}}")
    result = await run(write(tmp_path, capped), topic="snow", model=Scripted(write=writing), workspace=tmp_path, name="capped")
    assert result.outcome == "budget" and "role critic" in result.reason
    assert [event.role for event in events(tmp_path, "capped", Reserved)] == ["author", "critic", "author"]


async def test_what_the_judge_remembers_from_outside_labels_the_answer(tmp_path: Path) -> None:
    """The author reads nothing from outside; its judge has, in an earlier step."""
    remembered = """
        sop: desk
        inputs: {page: {type: string, trusted: false}, topic: string}
        roles: {author: {profile: You write.}, critic: {profile: You judge.}}
        artifacts: {notes: {}, opened: {}, letter: {}}
        steps:
          read: {role: critic, needs: [page], makes: notes}
          open: {value: "notes | length > 0 and 'yes' or 'no'", needs: [notes], makes: opened, trusts: [notes]}
          write: {role: author, needs: [topic, opened], makes: letter REVIEW}
    """
    for review, label in ((", review: {role: critic}", "the input page"), ("", "")):
        model = Scripted(read="notes", write=lambda request: {"good": True, "why": ""} if "reviewed" in request.key else "Dear")
        result = await run(write(tmp_path, remembered.replace(" REVIEW", review)), page="p", topic="snow", model=model,
                           workspace=None)
        assert result.ok and result.untrusted.get("letter", "") == label


async def test_it_is_stopped_at_every_call_and_gone_on_with(tmp_path: Path) -> None:
    path = write(tmp_path, LETTER)
    whole = await stopped_everywhere(path, lambda: Scripted(write=writing), tmp_path / "runs", topic="snow")
    assert whole.result["letter"] == "Snow. With a source. With a date."


async def test_a_walk_asks_the_judge_and_takes_any_verdict(tmp_path: Path) -> None:
    result = await run(write(tmp_path, LETTER), topic="snow", model="dry", workspace=tmp_path, name="walk")
    assert result.ok and [event.key for event in events(tmp_path, "walk", Reserved)] == [
        "write@1~0/turn.0", "write@1~0/reviewed.0/verdict"]


async def test_another_judge_makes_another_result(tmp_path: Path) -> None:
    """`--from` asks again where the judge is another one, and only then."""
    await run(write(tmp_path, LETTER), topic="snow", model=Scripted(write=writing), workspace=tmp_path, name="first")
    same, other = Scripted(write=writing), Scripted(write=writing)
    await run(write(tmp_path, LETTER), topic="snow", model=same, workspace=tmp_path, name="same", from_run="first")
    assert same.keys == []
    harsher = write(tmp_path, LETTER.replace("You judge.", "You judge harshly."))
    await run(harsher, topic="snow", model=other, workspace=tmp_path, name="other", from_run="first")
    assert len(other.keys) == 6


async def test_the_judge_has_a_model_of_its_own(tmp_path: Path) -> None:
    strong = LETTER.replace("{profile: You judge.}", "{profile: You judge., model: strong}")
    judge, author = Scripted(write=writing), Scripted(write=writing)
    strong = strong.replace("    roles:", "    models: {strong: dry}\n    roles:")
    await run(write(tmp_path, strong), topic="snow", models={"strong": judge, "default": author}, workspace=None)
    assert {request.role for request in judge.requests} == {"critic"}
    assert {request.role for request in author.requests} == {"author"}


def test_it_is_checked_and_bounds_the_calls(tmp_path: Path) -> None:
    report = check(write(tmp_path, LETTER))
    assert report.ok and not report.warnings and report.bounds is not None
    assert report.bounds.calls == (1 + 2) + 2 * (1 + 2) + 3 * 3
    for wrong, told in (("{role: critc}", "did you mean `critic`"),
                        ("{role: critic, accept: verdict.god}", "did you mean `good`"),
                        ("{role: critic, verdict: {score: integer}}", "nothing says when"),
                        ("{role: critic, verdict: integer}", "a verdict has fields"),
                        ("{role: critic, verdict: {score: integr}, accept: verdict.score}", "did you mean `integer`"),
                        ("{role: critic, acept: x}", "did you mean `accept`"), ("{repairs: 1}", "role")):
        told_ = "\n".join(map(str, check(write(tmp_path, LETTER.replace("{role: critic}", wrong))).problems))
        assert told in told_, (wrong, told_)
