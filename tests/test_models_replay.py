"""A recorded run answers again: by call and exact prompt, from a journal or a file, and says what it can't answer."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, events, tree, write

from metaflow_agents import resume, run
from metaflow_agents.errors import JournalError, UsageError
from metaflow_agents.journal.places import journal_path
from metaflow_agents.journal.run_summary import RawJournal
from metaflow_agents.models.port import Reply
from metaflow_agents.models.recording import read_recording, record, save
from metaflow_agents.schema.event import Reserved, Settled
from metaflow_agents.schema.model import canonical
from metaflow_agents.settings import Settings

DESK = """
    sop: desk
    inputs: {topic: string}
    roles: {ann: {profile: You plan.}, bob: {profile: You write.}}
    artifacts: {plan: {schema: [string]}, parts: {each: string}, count: {schema: integer}, book: {}}
    steps:
      plan_it:  {role: ann, needs: [topic], makes: plan, task: "Plan a book on {{ topic }}."}
      write_it: {role: bob, needs: [plan], foreach: {in: plan}, makes: parts}
      count_it: {role: ann, needs: [parts], makes: count}
      bind_it:  {value: "parts | values | join(' ') ~ count", needs: [parts, count], makes: book}
    outputs: [book]
"""
QUIET = Settings()


def teller() -> Scripted:
    """Answers with tokens of its own, at first wrongly where a number is asked, and 0 then."""
    return Scripted(plan_it=Reply(text='["a/b", "c"]', tokens_in=11, tokens_out=7),
                    write_it=lambda request: Reply(text=f"on {request.key[-14:-8]}", tokens_in=5, tokens_out=3, tokens_cached=2),
                    count_it=["many", 0])


async def recorded(folder: Path, **options: Any) -> Any:
    return await run(write(folder, DESK), topic="moss", model=teller(), workspace=folder, name="first", settings=QUIET, **options)


async def again(folder: Path, model: str, topic: str = "moss", **options: Any) -> Any:
    return await run(folder / "desk.yaml", topic=topic, model=model, workspace=folder, settings=QUIET, **options)


def exported(folder: Path, name: str = "first") -> bytes:
    with RawJournal(journal_path(folder, name)) as journal:
        return b"".join(record(journal, "ada, by hand").lines())


# -- what is recorded is answered again

@pytest.mark.one_in(4)
@pytest.mark.parametrize("how", ["name", "db", "jsonl"])
async def test_a_recording_answers_as_the_models_did(tmp_path: Path, how: str) -> None:
    first = await recorded(tmp_path)
    (tmp_path / "first.jsonl").write_bytes(exported(tmp_path))
    model = {"name": "replay:first", "db": f"replay:{tmp_path}/.journals/first.db", "jsonl": "replay:first.jsonl"}[how]
    second = await again(tmp_path, model, name="second")
    assert second.ok and dict(second.outputs) == dict(first.outputs)
    assert (second.calls, second.tokens) == (first.calls, first.tokens) == (5, second.tokens)
    assert tree(tmp_path / "second") == tree(tmp_path / "first")

    def told(name: str) -> list[Any]:
        return sorted((event.key, event.tokens_in, event.tokens_out, event.tokens_cached, event.reply)
                      for event in events(tmp_path, name, Settled))
    assert told("second") == told("first")
    assert {event.cost for event in events(tmp_path, "second", Settled)} == {0}
    assert {event.model for event in events(tmp_path, "second", Reserved)} == {model}


async def test_a_recording_replays_in_another_folder_without_the_journal(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "else" / "there"
    here.mkdir()
    there.mkdir(parents=True)
    first = await recorded(here)
    (there / "recordings").mkdir()
    (there / "recordings" / "moss.jsonl").write_bytes(exported(here))
    write(there, DESK)
    shutil.rmtree(here)
    second = await again(there, "replay:recordings/moss.jsonl")
    assert second.ok and second["book"] == first["book"]


async def test_a_recorded_failure_fails_again(tmp_path: Path) -> None:
    text = DESK.replace("needs: [plan], foreach", "needs: [plan], retries: 1, on_fail: skip, foreach")
    model = teller()
    model.answers["write_it"] = lambda request: RuntimeError("no ink") if "c]" in request.key or "~0" in request.key else "fine"
    first = await run(write(tmp_path, text), topic="moss", model=model, workspace=tmp_path, name="first", settings=QUIET)
    second = await again(tmp_path, "replay:first", name="second")
    failed = {name: sorted((event.key, event.error) for event in events(tmp_path, name, Settled) if event.error)
              for name in ("first", "second")}
    assert first.ok and second["book"] == first["book"] and len(failed["first"]) == 3
    assert failed["second"] == failed["first"]


async def test_a_budget_stops_a_replay_where_it_stopped_the_run(tmp_path: Path) -> None:
    await recorded(tmp_path)
    for calls in (1, 2, 4):
        one = await run(tmp_path / "desk.yaml", topic="moss", model=teller(), workspace=None, settings=QUIET,
                        budget={"calls": calls})
        two = await again(tmp_path, "replay:first", budget={"calls": calls})
        assert (two.outcome, two.calls, two.tokens) == (one.outcome, one.calls, one.tokens) == ("budget", calls, two.tokens)


async def test_an_answer_longer_than_todays_bound_is_let_through(tmp_path: Path) -> None:
    first = await recorded(tmp_path)
    text = exported(tmp_path).replace(b'"tokens_out":7', b'"tokens_out":90000')
    (tmp_path / "long.jsonl").write_bytes(text)
    result = await again(tmp_path, "replay:long.jsonl")
    assert result.ok and result["book"] == first["book"]


# -- what is not recorded

async def test_a_changed_prompt_is_stale_and_told_with_its_difference(tmp_path: Path) -> None:
    await recorded(tmp_path)
    write(tmp_path, DESK.replace("Plan a book on {{ topic }}.", "Plan a short book on {{ topic }}."))
    result = await again(tmp_path, "replay:first", name="second")
    assert (result.outcome, result.exit_status) == ("endpoint", 5)
    assert result.reason.startswith("stale: this prompt changed: plan_it@1~0/turn.0 was recorded in first with another one")
    assert result.reason.endswith("What changed:\n--- recorded\n+++ now\n-Plan a book on moss.\n+Plan a short book on moss.")
    assert "`--model replay:first,MODEL` asks MODEL" in result.reason and len(result.reason.splitlines()) < 20
    (settled,) = events(tmp_path, "second", Settled)
    assert (settled.stops, settled.calls, settled.tokens_in) == (True, 0, 0)


async def test_a_call_that_was_never_recorded_is_told_apart(tmp_path: Path) -> None:
    await recorded(tmp_path, until="plan_it")
    result = await again(tmp_path, "replay:first")
    assert result.exit_status == 5
    assert result.reason.startswith("not recorded: write_it@1[a/b]~0/turn.0 is no call of first, which has the steps plan_it; ")
    assert "stale" not in result.reason


async def test_only_the_schema_changed(tmp_path: Path) -> None:
    await recorded(tmp_path)
    write(tmp_path, DESK.replace("plan: {schema: [string]}", "plan: {schema: {type: array, items: {type: string}, maxItems: 9}}"))
    result = await again(tmp_path, "replay:first")
    assert result.reason.startswith("stale: ") and '"maxItems": 9' in result.reason


async def test_what_is_not_recorded_is_asked_of_the_second_model(tmp_path: Path) -> None:
    first = await recorded(tmp_path)
    write(tmp_path, DESK.replace("needs: [parts], makes: count", "needs: [parts], makes: count, task: Count them."),
          late_py="def answer(request):\n    return 5\n")
    result = await again(tmp_path, "replay:first,python:late.py:answer", name="second")
    assert result.ok and result["book"] == first["book"].removesuffix("0") + "5"
    asked = {event.key: event.model for event in events(tmp_path, "second", Reserved)}
    assert asked == {"plan_it@1~0/turn.0": "replay:first", "write_it@1[a/b]~0/turn.0": "replay:first",
                     "write_it@1[c]~0/turn.0": "replay:first", "count_it@1~0/turn.0": "python:late.py:answer"}


async def test_a_stopped_replay_goes_on_with_a_second_model(tmp_path: Path) -> None:
    await recorded(tmp_path, until="plan_it")
    assert (await again(tmp_path, "replay:first", name="second")).exit_status == 5
    result = await resume("second", workspace=tmp_path, model="replay:first,dry", settings=QUIET)
    assert result.ok and result["book"].startswith("write_it")


async def test_the_second_model_may_be_a_name_of_the_sop(tmp_path: Path) -> None:
    await recorded(tmp_path, until="plan_it")
    write(tmp_path, DESK.replace("roles:", "models: {late: dry}\n    roles:"))
    assert (await again(tmp_path, "replay:first,late")).ok


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("model", "told"), [
    ("replay:frist", "did you mean `first`"), ("replay:none.jsonl", "looked for `.*none.jsonl`"), ("replay:a/b", "looked for"),
    ("replay:first,", "write `replay:RECORDING`"), ("replay:first,gpt-5", "`openai:gpt-5` asks an endpoint"),
])
async def test_a_recording_that_is_not_there_is_told_before_anything_is_made(tmp_path: Path, model: str, told: str) -> None:
    await recorded(tmp_path)
    with pytest.raises(UsageError, match=told):
        await again(tmp_path, model, name="second")
    assert not journal_path(tmp_path, "second").exists()


# -- the file

async def test_a_recording_is_lines_of_canonical_json_under_a_header(tmp_path: Path) -> None:
    await recorded(tmp_path)
    header, *calls = exported(tmp_path).decode().splitlines()
    told = json.loads(header)
    assert told.pop("date").count("-") == 2 and told.pop("package")
    assert told == {"recording": 1, "sop": "desk", "inputs": {"topic": "moss"}, "answered_by": "ada, by hand",
                    "models": {"*": "python:scripted:Scripted"}}
    assert all(canonical(json.loads(line)).decode() == line for line in (header, *calls))
    assert [json.loads(line)["key"] for line in calls] == [
        "plan_it@1~0/turn.0", "write_it@1[a/b]~0/turn.0", "write_it@1[c]~0/turn.0", "count_it@1~0/turn.0",
        "count_it@1~0/turn.0/repair.1"]
    assert json.loads(calls[-1])["reply"]["value"] == 0 and str(tmp_path) not in "".join(calls)


async def test_two_recordings_of_the_same_answers_are_equal(tmp_path: Path) -> None:
    await recorded(tmp_path)
    await again(tmp_path, "replay:first", name="second")
    one, two = exported(tmp_path).splitlines()[1:], exported(tmp_path, "second").splitlines()[1:]
    assert [line.replace(b"replay:first", b"python:scripted:Scripted") for line in two] == one


async def test_an_edited_prompt_is_damage_and_no_stale_prompt(tmp_path: Path) -> None:
    await recorded(tmp_path)
    (tmp_path / "x.jsonl").write_bytes(exported(tmp_path).replace(b"Plan a book", b"Plan a film", 1))
    with pytest.raises(JournalError, match=r"x\.jsonl is damaged at line 2: the prompt of plan_it@1~0/turn\.0 is not the one"):
        read_recording(tmp_path / "x.jsonl")
    (tmp_path / "x.jsonl").write_bytes(exported(tmp_path)[:-20])
    with pytest.raises(JournalError, match="damaged at line 6"):
        read_recording(tmp_path / "x.jsonl")
    for text in ("", "[]", '{"recording": 2}'):
        (tmp_path / "x.jsonl").write_text(text)
        with pytest.raises((UsageError, JournalError), match="no recording that this version reads"):
            read_recording(tmp_path / "x.jsonl")


async def test_what_can_not_be_recorded_is_told(tmp_path: Path) -> None:
    await recorded(tmp_path)
    silent = write(tmp_path, "sop: still\nartifacts: {a: {}}\nsteps: {s: {value: \"'x'\", makes: a}}\n")
    await run(silent, workspace=tmp_path, name="still", settings=QUIET)
    with pytest.raises(UsageError, match="asked no model"):
        exported(tmp_path, "still")
    write(tmp_path, DESK)
    await run(tmp_path / "desk.yaml", topic="moss", model=teller(), workspace=tmp_path, name="over", from_run="first",
              settings=QUIET)
    with pytest.raises(UsageError, match=r"was taken over from run `first`.*: add `--also first`, or record a run"):
        exported(tmp_path, "over")
    with RawJournal(journal_path(tmp_path, "over")) as over, RawJournal(journal_path(tmp_path, "first")) as first:
        assert sorted(record(over, "ada", first).calls) == sorted(record(first, "ada").calls), "those of both, each once"


async def test_saving_is_whole_or_not_at_all(tmp_path: Path) -> None:
    await recorded(tmp_path)
    with RawJournal(journal_path(tmp_path, "first")) as journal:
        assert save(journal, tmp_path / "kept.jsonl", "ada") == 5
        with pytest.raises(FileNotFoundError):
            save(journal, tmp_path / "none" / "kept.jsonl", "ada")
    assert read_recording(tmp_path / "kept.jsonl").told["answered_by"] == "ada"
    assert [name for name in os.listdir(tmp_path) if name.endswith(".part")] == []


async def test_a_recording_of_a_run_that_was_mended_halfway_has_what_counted(tmp_path: Path) -> None:
    """A prompt that changed on a resume and was asked again: both prompts are there, each with its answer."""
    await recorded(tmp_path, until="plan_it")
    write(tmp_path, DESK.replace("You write.", "You write well."))
    await resume("first", workspace=tmp_path, model=teller(), accept_changes=True, settings=QUIET)
    result = await again(tmp_path, "replay:first", name="second")
    assert result.ok and result.calls == 5


async def test_a_call_that_stands_in_another_run_is_missed_inside_of_a_sub_sop_too(tmp_path: Path) -> None:
    """Also of a run that is named as a recording is."""
    inner = ("sop: inner\ninputs: {topic: string}\nroles: {w: {profile: You write.}}\nartifacts: {a: {}, b: {}}\noutputs: [b]\n"
             "steps:\n  one: {role: w, needs: [topic], makes: a, task: One.}\n"
             "  two: {role: w, needs: [a], makes: b, task: Two.}\n")
    outer = ("sop: outer\ninputs: {topic: string}\nartifacts: {got: {}}\n"
             "steps: {go: {sop: inner, inputs: {topic: topic}, needs: [topic], makes: got}}\n")
    for name, text in (("outer", outer), ("inner", inner)):
        (tmp_path / f"{name}.yaml").write_text(text)
    ran: dict[str, Any] = {"topic": "moss", "workspace": tmp_path, "settings": QUIET}
    assert (await run(tmp_path / "outer.yaml", model=Scripted(), name="first.jsonl", **ran)).ok
    (tmp_path / "inner.yaml").write_text(inner.replace("Two.", "Three."))
    again = Scripted()
    assert (await run(tmp_path / "outer.yaml", model=again, name="next", from_run="first.jsonl", **ran)).ok
    assert again.steps == ["two"]
    with pytest.raises(UsageError, match=r"go@1~0/one@1~0 was taken over from run `first\.jsonl`"):
        exported(tmp_path, "next")
    with RawJournal(journal_path(tmp_path, "next")) as over, RawJournal(journal_path(tmp_path, "first.jsonl")) as first:
        assert len([call for calls in record(over, "ada", first).calls.values() for call in calls]) == 3


async def test_a_result_that_was_taken_over_is_missed_by_nobody(tmp_path: Path) -> None:
    """What a function or an expression gave stands in the run's own journal, whoever worked it out."""
    text = ("sop: two\ninputs: {topic: string}\nroles: {w: {profile: You write.}}\nartifacts: {a: {}, b: {}}\n"
            "steps:\n  one: {value: topic, needs: [topic], makes: a}\n"
            "  two: {role: w, needs: [a], makes: b, task: Two.}\n")
    path = write(tmp_path, text)
    ran: dict[str, Any] = {"topic": "moss", "workspace": tmp_path, "settings": QUIET}
    assert (await run(path, model=Scripted(), name="first", **ran)).ok
    path.write_text(text.replace("Two.", "Three."))
    assert (await run(path, model=Scripted(), name="next", from_run="first", **ran)).ok
    with RawJournal(journal_path(tmp_path, "next")) as journal:
        assert list(record(journal, "ada").calls) == ["two@1~0/turn.0"]
