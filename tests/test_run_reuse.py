# ruff: noqa: E501  (SOPs stand here as people write them)
"""`--from RUN`: an edited SOP pays only for what the edit touches, and says why each other activation ran."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, events, finished, ran, reused, write

from metaflow_agents import RunResult, resume, run
from metaflow_agents.schema.event import Reserved

DESK = """
    sop: desk
    inputs: {idea: string, style: {type: string, default: plain}}
    roles:
      clerk: {profile: You file., prompt: clerk.md.j2}
      poet: {profile: You sing.}
    artifacts:
      facts: {schema: {names: [string], mood: string}}
      draft: {}
      verse: {}
      notes: {each: string}
      book: {}
    steps:
      read: {role: clerk, needs: [idea], makes: facts, task: Say who is in it.}
      draft_it: {role: clerk, needs: [facts], sees: [style], makes: draft, task: Write it down.}
      sing: {role: poet, needs: [facts.mood], makes: verse, task: "Sing of {{ facts.mood }}."}
      note:
        role: poet
        needs: [facts]
        foreach: {in: facts.names, as: name}
        makes: notes
        task: "A word on {{ name }}."
      bind: {value: "draft ~ verse ~ (notes | values | join)", needs: [draft, verse, notes], makes: book}
    outputs: [book]
"""
CLERK = "{# the clerk #}\nYou are {{ role.name }}.{% include 'manners.md.j2' %}\n"
FACTS = {"names": ["Ann", "Bob"], "mood": "gay"}


def desk(folder: Path, text: str = DESK, clerk: str = CLERK, manners: str = "Be kind.") -> Path:
    return write(folder, text, roles__clerk_md_j2=clerk, roles__manners_md_j2=manners)


def model(**answers: Any) -> Scripted:
    return Scripted({"read": FACTS, **answers})


async def first(tmp_path: Path, text: str = DESK, **options: Any) -> RunResult:
    result = await run(desk(tmp_path, text), **{"idea": "tea", "model": scripted, "name": "first", "workspace": tmp_path, **options})
    assert result.ok, result.reason
    return result


async def again(tmp_path: Path, path: Path, **options: Any) -> RunResult:
    result = await run(path, **{"idea": "tea", "model": scripted, "name": "second", "from_run": "first", "workspace": tmp_path,
                                **options})
    assert result.ok, result.reason
    return result


scripted = model()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    global scripted
    scripted = model()


def why(tmp_path: Path) -> dict[str, tuple[str, ...]]:
    """Activation → why it ran, of those that did."""
    return {key: event.why for key, event in finished(tmp_path, "second").items() if event.reused_from is None}


async def test_nothing_changed_nothing_runs(tmp_path: Path) -> None:
    before = await first(tmp_path)
    result = await again(tmp_path, tmp_path / "desk.yaml")
    assert why(tmp_path) == {}
    assert (result.calls, result.tokens, before.calls) == (0, 0, 5)
    assert result.outputs == before.outputs
    sources = {key: event.reused_from for key, event in finished(tmp_path, "second").items()}
    assert sources["note@1[Ann]~0"] == "first:note@1[Ann]~0"
    assert len(sources) == 6


async def test_comments_the_order_of_keys_and_what_only_times_a_step_change_nothing(tmp_path: Path) -> None:
    await first(tmp_path)
    lines = DESK.replace("task: Say who is in it.}", "task: Say who is in it., retries: 2, timeout: 9s, priority: 4}  # a remark")
    lines = lines.replace("{role: clerk, needs: [facts], sees: [style], makes: draft, task: Write it down.}",
                          "{task: Write it down., makes: draft, sees: [style], needs: [facts], role: clerk}")
    assert lines.count("retries") == 1
    await again(tmp_path, desk(tmp_path, "# another remark\n" + lines))
    assert why(tmp_path) == {}


async def test_a_changed_task_runs_its_step_and_what_depends_on_what_it_made(tmp_path: Path) -> None:
    await first(tmp_path)
    await again(tmp_path, desk(tmp_path, DESK.replace("Write it down.", "Write it up.")), model=model(draft_it="another"))
    assert why(tmp_path) == {"draft_it@1~0": ("step",), "bind@1~0": ("need:draft",)}


async def test_the_same_result_cuts_off_early(tmp_path: Path) -> None:
    await first(tmp_path)
    await again(tmp_path, desk(tmp_path, DESK.replace("Write it down.", "Write it up.")))
    assert why(tmp_path) == {"draft_it@1~0": ("step",)}


async def test_one_word_of_one_item_runs_that_item(tmp_path: Path) -> None:
    await first(tmp_path)
    changed = DESK.replace("Say who is in it.", "Say who is in it again.")
    await again(tmp_path, desk(tmp_path, changed), model=model(read={**FACTS, "names": ["Ann", "Cid", "Bob"]}))
    found = why(tmp_path)
    # The poet has no memory of the clerk's work: Ann and Bob stand as they were, and the narrowed need does too.
    assert set(found) == {"read@1~0", "draft_it@1~0", "note@1[Cid]~0", "bind@1~0"}
    assert found["read@1~0"] == ("step",)
    assert found["note@1[Cid]~0"] == ("first has no note@1[Cid]",)
    assert found["draft_it@1~0"] == ("memory", "need:facts") or set(found["draft_it@1~0"]) == {"memory", "need:facts"}


async def test_a_narrowed_need_counts_by_its_part(tmp_path: Path) -> None:
    await first(tmp_path)
    changed = desk(tmp_path, DESK.replace("Say who is in it.", "Say who is in it again."))
    await again(tmp_path, changed, model=model(read={**FACTS, "mood": "grave"}))
    assert why(tmp_path)["sing@1~0"] == ("need:facts.mood",)
    assert "note@1[Ann]~0" not in why(tmp_path)


@pytest.mark.parametrize("files", [{"clerk": CLERK + "Be brief."}, {"manners": "Be brief."}])
async def test_a_changed_prompt_of_a_role_runs_its_steps(tmp_path: Path, files: dict[str, str]) -> None:
    await first(tmp_path)
    await again(tmp_path, desk(tmp_path, **files))
    assert why(tmp_path) == {"read@1~0": ("role",), "draft_it@1~0": ("role",)}


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("old", "new", "steps"), [
    ("poet: {profile: You sing.}", "poet: {profile: You shout.}", {"sing", "note"}),
    ("poet: {profile: You sing.}", "poet: {profile: You sing., goal: Fame}", {"sing", "note"}),
    ("notes: {each: string}", "notes: {each: string, description: A word each}", {"note", "bind"}),
    ("draft: {}", "draft: {rules: [{assert: draft != 'x'}]}", {"draft_it"}),
    ("mood: string}}", "mood: string, 'year?': integer}}", {"read"}),
])
async def test_what_else_is_told_to_a_model_counts(tmp_path: Path, old: str, new: str, steps: set[str]) -> None:
    await first(tmp_path)
    assert old in DESK
    await again(tmp_path, desk(tmp_path, DESK.replace(old, new)))
    assert ran(tmp_path, "second") == steps


async def test_another_model_counts_for_those_who_ask_it(tmp_path: Path) -> None:
    text = DESK.replace("profile: You sing.", "profile: You sing., model: strong").replace("roles:", "models: {strong: dry}\n    roles:", 1)
    await first(tmp_path, text, model=None, models={"default": scripted, "strong": scripted})

    async def stronger(request: Any) -> Any:
        return await scripted(request)

    await again(tmp_path, desk(tmp_path, text), model=None, models={"default": scripted, "strong": stronger})
    assert set(why(tmp_path)) == {"sing@1~0", "note@1[Ann]~0", "note@1[Bob]~0"}
    assert set(why(tmp_path).values()) == {("model",)}


async def test_what_a_step_only_sees_counts_too(tmp_path: Path) -> None:
    await first(tmp_path)
    await again(tmp_path, tmp_path / "desk.yaml", style="grand")
    assert why(tmp_path) == {"draft_it@1~0": ("sees:style",)}


async def test_a_changed_past_counts_as_memory(tmp_path: Path) -> None:
    await first(tmp_path)
    await again(tmp_path, desk(tmp_path, DESK.replace("Say who is in it.", "Say who!")))
    assert why(tmp_path) == {"read@1~0": ("step",), "draft_it@1~0": ("memory",)}       # the same facts, asked for in other words


async def test_another_role_of_the_same_words_is_another_role(tmp_path: Path) -> None:
    twins = DESK.replace("poet: {profile: You sing.}", "poet: {profile: You sing.}\n      bard: {profile: You sing.}")
    await first(tmp_path, twins.replace("sing: {role: poet", "sing: {role: bard"))
    await again(tmp_path, desk(tmp_path, twins.replace("note:\n        role: poet", "note:\n        role: bard")
                               .replace("sing: {role: poet", "sing: {role: bard")))
    assert why(tmp_path) == {"note@1[Ann]~0": ("role",), "note@1[Bob]~0": ("role",)}


async def test_inputs_that_a_prompt_names_through_run_count(tmp_path: Path) -> None:
    clerk = "You are a clerk in style {{ run.inputs.style }}."
    await first(tmp_path, DESK.replace("sees: [style], ", ""))
    path = desk(tmp_path, DESK.replace("sees: [style], ", ""), clerk=clerk)
    await run(path, idea="tea", model=scripted, name="third", workspace=tmp_path)
    await again(tmp_path, path, from_run="third", style="grand")
    assert why(tmp_path) == {"read@1~0": ("run",), "draft_it@1~0": ("run",)}


async def test_a_run_that_failed_half_way_gives_what_it_finished(tmp_path: Path) -> None:
    broken = model(note=lambda request: ValueError("no") if "Bob" in request.key else "a word")
    result = await run(desk(tmp_path), idea="tea", model=broken, name="first", workspace=tmp_path)
    assert result.outcome == "stopped"
    done = {key for key in finished(tmp_path, "first")}
    assert "note@1[Bob]~0" not in done and "read@1~0" in done
    mended = model(note="a word")
    second = await again(tmp_path, tmp_path / "desk.yaml", model=mended)
    assert second.outcome == "success"
    assert {key for key, event in finished(tmp_path, "second").items() if event.reused_from} >= done - {"bind@1~0"}
    assert "note@1[Bob]~0/turn.0" in mended.keys
    assert "read@1~0/turn.0" not in mended.keys


async def test_what_a_given_value_stood_in_for_is_no_work_and_its_absence_neither(tmp_path: Path) -> None:
    await first(tmp_path, given={"draft": "made up"})
    result = await again(tmp_path, tmp_path / "desk.yaml")
    assert "made up" not in result["book"]
    assert why(tmp_path) == {"draft_it@1~0": ("given",), "bind@1~0": ("need:draft",)}
    third = await again(tmp_path, tmp_path / "desk.yaml", from_run="second", name="third", given={"draft": "made up"})
    assert "made up" in third["book"]


async def test_what_a_dry_run_did_not_execute_is_not_taken_over(tmp_path: Path) -> None:
    text = """
        sop: counting
        inputs: {words: [string]}
        artifacts: {total: {schema: integer}}
        steps:
          count: {call: "fns:count", needs: [words], makes: total}
    """
    path = write(tmp_path, text, fns_py="def count(words):\n    return len(words)\n")
    dry = await run(path, words=["a", "b"], model="dry", name="first", workspace=tmp_path)
    assert dry["total"] == 0
    real = await run(path, words=["a", "b"], from_run="first", name="second", workspace=tmp_path)
    assert real["total"] == 2


async def test_a_resume_still_takes_from_the_earlier_run_and_needs_it_no_more_when_it_is_gone(tmp_path: Path) -> None:
    await first(tmp_path)
    for name in ("second", "third"):
        result = await again(tmp_path, tmp_path / "desk.yaml", name=name, until="read")
        assert result.outcome == "until"
    assert (await resume("second", workspace=tmp_path, model=scripted)).calls == 0
    (tmp_path / ".journals" / "first.db").unlink()
    assert (await resume("third", workspace=tmp_path, model=scripted)).calls == 4


async def test_taken_over_memory_is_remembered(tmp_path: Path) -> None:
    """The clerk's second step still remembers the first, whose result was taken over."""
    await first(tmp_path)
    third = model(draft_it="anew")
    await again(tmp_path, desk(tmp_path, DESK.replace("Write it down.", "Write it up.")), model=third)
    assert "Say who is in it." in third.said("draft_it@1~0/turn.0")


LOOP = """
    sop: loop
    inputs: {parts: [{name: string, text: string}]}
    roles: {smith: {}, judge: {}, mender: {profile: You mend.}}
    artifacts:
      source: {files: "src/**"}
      faults: {schema: [{path: string, why: string}]}
    steps:
      write:
        role: smith
        needs: [parts]
        foreach: {in: parts, as: part, key: part.name}
        makes: {source: "src/{{ part.name }}.txt"}
      judge: {role: judge, needs: [source], makes: faults, rounds: 3}
      mend:
        role: mender
        needs: [faults]
        sees: [source]
        foreach: {in: faults, as: fault, key: fault.path}
        makes: {source: "{{ fault.path }}"}
        rounds: 2
"""


async def test_a_loop_is_taken_over_round_by_round(tmp_path: Path) -> None:
    def smith(request: Any) -> str:
        (path,) = request.patterns
        return f"=== file: {path} ===\n{request.key}\n=== end ===\n"

    verdicts = [[{"path": "src/a.txt", "why": "dull"}], []]
    one = Scripted(write=smith, mend=smith, judge=list(verdicts))
    path = write(tmp_path, LOOP, roles__smith_yaml="role: smith\n", roles__judge_yaml="role: judge\n")
    parts = [{"name": "a", "text": "x"}, {"name": "b", "text": "y"}]
    result = await run(path, parts=parts, model=one, name="first", workspace=tmp_path)
    assert result.ok and one.steps == ["write", "write", "judge", "mend", "judge"]
    two = Scripted(write=smith, mend=smith, judge=list(verdicts))
    second = await run(path, parts=parts, model=two, name="second", from_run="first", workspace=tmp_path)
    assert two.keys == [] and second.outputs == result.outputs
    parts[1]["text"] = "z"
    three = Scripted(write=smith, mend=smith, judge=list(verdicts))
    await run(path, parts=parts, model=three, name="third", from_run="first", workspace=tmp_path)
    assert [key.partition("/")[0] for key in three.keys] == ["write@1[b]~0"]        # the same file again: all else stands
    assert reused(tmp_path, "third") == {}


async def test_reused_calls_are_not_reserved(tmp_path: Path) -> None:
    await first(tmp_path)
    await again(tmp_path, tmp_path / "desk.yaml", budget={"calls": 1})
    assert events(tmp_path, "second", Reserved) == []
