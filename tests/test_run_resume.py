# ruff: noqa: E501  (SOPs stand here as people write them)
"""Going on with a run: after an end, with another SOP, prompt, model or cap; and forks."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from scripted import Scripted, block, events, finished, firings, tree, write

from metaflow_agents import fork, resume, run, start
from metaflow_agents.api.sop_test import try_out
from metaflow_agents.errors import SOPError, SOPInvalid, UsageError
from metaflow_agents.schema.event import Finished, Reserved, Resumed
from metaflow_agents.schema.keys import parse_activation

CHAIN = """
    sop: chain
    inputs: {letter: string}
    roles: {clerk: {profile: You write.}, editor: {profile: You edit.}}
    artifacts: {facts: {}, draft: {}, final: {file: final.txt}}
    steps:
      read: {role: clerk, needs: [letter], makes: facts, task: Read it.}
      draft_it: {role: clerk, needs: [facts], makes: draft, task: Draft it.}
      edit: {role: editor, needs: [draft], makes: final, task: Edit it.}
"""


async def until(tmp_path: Path, step: str, text: str = CHAIN, **options: Any) -> Path:
    path = write(tmp_path, text)
    result = await run(path, **{"letter": "x", "model": Scripted(), "workspace": tmp_path, "until": step, **options})
    assert result.outcome == "until"
    return path


async def test_a_changed_sop_is_told_with_what_changed_and_needs_consent(tmp_path: Path) -> None:
    await until(tmp_path, "read")
    write(tmp_path, CHAIN.replace("Edit it.", "Edit it well.").replace("draft: {}", "draft: {}, extra: {}")
          .replace("task: Draft it.}", "task: Draft it.}\n      more: {value: \"'m'\", needs: [draft], makes: extra}"))
    with pytest.raises(UsageError) as told:
        await resume("chain-1", workspace=tmp_path, model=Scripted())
    for change in ("steps.edit.task changed", "artifacts.extra added", "steps.more added", "--accept-changes"):
        assert change in str(told.value)
    assert events(tmp_path, "chain-1", Resumed) == []                   # nothing is changed then
    model = Scripted()
    result = await resume("chain-1", workspace=tmp_path, model=model, accept_changes=True)
    assert result.ok and result["extra"] == "m" and model.steps == ["draft_it", "edit"]
    assert "Edit it well." in model.said("edit@1~0/turn.0")
    (resumed,) = events(tmp_path, "chain-1", Resumed)
    assert set(resumed.changes) == {"steps.edit.task changed", "artifacts.extra added", "steps.more added"}


async def test_inputs_and_first_values_that_came_to_the_sop_meanwhile_are_there(tmp_path: Path) -> None:
    await until(tmp_path, "read")
    inputs = "inputs: {letter: string, tone: {type: string, default: warm}, notes: {type: folder, optional: true}}"
    changed = CHAIN.replace("inputs: {letter: string}", inputs).replace("draft: {}", "draft: {}, rules: {schema: [string], initial: [short]}")
    write(tmp_path, changed.replace("needs: [draft], makes: final, task: Edit it.",
                                    "needs: [draft, tone, rules], sees: [notes], makes: final, task: Edit it."))
    model = Scripted()
    assert (await resume("chain-1", workspace=tmp_path, model=model, accept_changes=True)).ok
    assert "warm" in model.said("edit@1~0/turn.0") and "short" in model.said("edit@1~0/turn.0")
    assert (await resume(fork("chain-1", at="edit@1", workspace=tmp_path), workspace=tmp_path, model=Scripted())).ok


async def test_an_input_without_a_default_that_came_meanwhile_has_to_be_given_to_a_new_run(tmp_path: Path) -> None:
    await until(tmp_path, "read")
    write(tmp_path, CHAIN.replace("inputs: {letter: string}", "inputs: {letter: string, tone: string}").replace("[draft]", "[draft, tone]"))
    with pytest.raises(UsageError, match=r"the SOP has an input `tone` now .* --from RUN"):
        await resume("chain-1", workspace=tmp_path, model=Scripted(), accept_changes=True)
    assert events(tmp_path, "chain-1", Resumed) == []


async def test_success_may_look_at_earlier_versions(tmp_path: Path) -> None:
    path = write(tmp_path, """
        sop: steps
        inputs: {most: {type: integer, default: 2}}
        artifacts: {a: {schema: integer}, b: {schema: integer}}
        steps:
          one: {value: "most", needs: [most], wants: [b], makes: a, rounds: 3}
          two: {value: "a + 1", needs: [a], makes: b, rounds: 2}
        success: history('a') | length == most + 1 and history('b') | length == 2
        tests: {it: {expect: "history('b') | length == 2 and success", model: dry}}
    """)
    assert (await run(path, workspace=None)).ok and not (await run(path, most=1, workspace=None)).ok
    assert [verdict.ok async for verdict in try_out(path)] == [True]


async def test_what_was_accepted_is_asked_for_once(tmp_path: Path) -> None:
    await until(tmp_path, "read")
    write(tmp_path, CHAIN.replace("Edit it.", "Edit it well."))
    await resume("chain-1", workspace=tmp_path, model=Scripted(), accept_changes=True, until="draft_it")
    assert (await resume("chain-1", workspace=tmp_path, model=Scripted())).ok
    first, second = events(tmp_path, "chain-1", Resumed)
    assert second.changes == () and second.compiled == first.compiled and second.sop == first.sop


async def test_comments_and_the_order_of_keys_are_no_change(tmp_path: Path) -> None:
    await until(tmp_path, "read")
    write(tmp_path, "# remark" + CHAIN.replace("{role: clerk, needs: [facts], makes: draft, task: Draft it.}",
                                               "{task: Draft it., makes: draft, needs: [facts], role: clerk}"))
    assert (await resume("chain-1", workspace=tmp_path, model=Scripted())).ok


async def test_a_changed_role_or_template_file_is_a_change(tmp_path: Path) -> None:
    text = CHAIN.replace("editor: {profile: You edit.}", "editor: {profile: You edit., prompt: ed.md.j2}")
    write(tmp_path, text, roles__ed_md_j2="You are the editor.")
    await until(tmp_path, "read", text)
    write(tmp_path, text, roles__ed_md_j2="You are another editor.")
    with pytest.raises(UsageError, match=r"templates\.ed\.md\.j2 changed"):
        await resume("chain-1", workspace=tmp_path, model=Scripted())


async def test_a_sop_file_that_is_gone_is_not_needed(tmp_path: Path) -> None:
    path = await until(tmp_path, "read")
    path.unlink()
    assert (await resume("chain-1", workspace=tmp_path, model=Scripted())).ok


async def test_a_sop_file_that_is_broken_now_is_told_and_changes_nothing(tmp_path: Path) -> None:
    path = await until(tmp_path, "read")
    write(tmp_path, CHAIN.replace("needs: [facts]", "needs: [fatcs]"))
    with pytest.raises(SOPInvalid, match="fatcs"):
        await resume("chain-1", workspace=tmp_path, model=Scripted())
    path.write_text("sop: [")
    with pytest.raises(SOPError):
        await resume("chain-1", workspace=tmp_path, model=Scripted())
    write(tmp_path, CHAIN)
    assert (await resume("chain-1", workspace=tmp_path, model=Scripted())).ok


async def broken_in_the_middle(tmp_path: Path) -> None:
    """The first of two calls of `draft_it` was answered, and then the run was stopped."""
    path = write(tmp_path, CHAIN.replace("task: Draft it.}", "task: Draft it., strategy: chain_of_thought}"))
    model = Scripted()
    async with start(path, letter="x", model=model, workspace=tmp_path) as going:
        async def stop_here() -> None:
            going.stop()
            await asyncio.sleep(60)

        model.answers["draft_it"] = lambda request: "thought" if request.key.endswith("reason") else stop_here()
        assert (await going.result()).outcome == "interrupted"


async def test_an_answered_call_is_not_paid_twice(tmp_path: Path) -> None:
    await broken_in_the_middle(tmp_path)
    model = Scripted()
    result = await resume("chain-1", workspace=tmp_path, model=model)
    assert result.ok
    assert "draft_it@1~0/turn.0/reason" not in model.keys and "read@1~0/turn.0" not in model.keys
    assert model.keys == ["draft_it@1~0/turn.0", "edit@1~0/turn.0"]


async def test_what_the_folder_lacks_is_written_by_the_resume(tmp_path: Path) -> None:
    """A kill may come between the journal and the folder, which is a view of it."""
    path = write(tmp_path, CHAIN.replace("facts: {}", "facts: {file: facts.txt}"))
    result = await run(path, letter="x", model=Scripted(read="the facts"), workspace=tmp_path, until="read")
    kept = tmp_path / result.name / "facts.txt"
    assert result.outcome == "until" and kept.read_text() == "the facts\n"
    kept.unlink()
    assert (await resume(result.name, workspace=tmp_path, model=Scripted())).ok
    assert kept.read_text() == "the facts\n"


async def test_a_prompt_that_changed_under_an_answered_call_stops_and_reask_pays(tmp_path: Path) -> None:
    await broken_in_the_middle(tmp_path)
    write(tmp_path, CHAIN.replace("task: Draft it.}", "task: Draft it better., strategy: chain_of_thought}"))
    model = Scripted()
    result = await resume("chain-1", workspace=tmp_path, model=model, accept_changes=True)
    assert (result.outcome, result.exit_status) == ("stopped", 1)
    assert "draft_it@1~0/turn.0/reason: this prompt changed" in result.reason and "--retry-changed-prompts" in result.reason
    assert model.keys == []
    result = await resume("chain-1", workspace=tmp_path, model=model, reask=True)
    assert result.ok and model.keys[:2] == ["draft_it@1~0/turn.0/reason", "draft_it@1~0/turn.0"]
    tries = [event.try_ for event in events(tmp_path, "chain-1", Reserved) if event.key == "draft_it@1~0/turn.0/reason"]
    assert tries == [0, 1]


async def test_the_models_are_those_that_it_had_unless_others_are_given(tmp_path: Path) -> None:
    files = {"ann_py": "def answer(request):\n    return f'Ann on {request.step}'\n",
             "bob_py": "def answer(request):\n    return f'Bob on {request.step}'\n"}
    text = CHAIN.replace("roles:", "models: {strong: dry}\n    roles:").replace("You edit.", "You edit., model: strong")
    write(tmp_path, text, **files)
    await until(tmp_path, "read", text, model="python:ann.py:answer")
    result = await resume("chain-1", workspace=tmp_path, until="draft_it")
    assert result.outcome == "until"
    result = await resume("chain-1", workspace=tmp_path, models={"strong": "python:bob.py:answer"})
    assert result["final"] == "Bob on edit"
    assert [event.model for event in events(tmp_path, "chain-1", Reserved)] == [
        "python:ann.py:answer", "python:ann.py:answer", "python:bob.py:answer"]


async def test_a_model_for_everybody_and_one_for_a_name(tmp_path: Path) -> None:
    text = CHAIN.replace("roles:", "models: {strong: dry}\n    roles:").replace("You edit.", "You edit., model: strong")
    all_, strong = Scripted(), Scripted(edit="strong")
    result = await run(write(tmp_path, text), letter="x", model=all_, models={"strong": strong}, workspace=tmp_path)
    assert result["final"] == "strong" and (all_.steps, strong.steps) == (["read", "draft_it"], ["edit"])


async def test_a_function_of_a_program_has_to_be_given_again(tmp_path: Path) -> None:
    await until(tmp_path, "read", model=lambda request: "x")
    with pytest.raises(UsageError, match="a function inside of a program"):
        await resume("chain-1", workspace=tmp_path)
    assert (await resume("chain-1", workspace=tmp_path, model=lambda request: "x")).ok


async def test_what_is_under_way_needs_its_step(tmp_path: Path) -> None:
    path = write(tmp_path, CHAIN)
    assert (await run(path, letter="x", model=Scripted(draft_it=ValueError("no")), workspace=tmp_path)).outcome == "stopped"
    write(tmp_path, CHAIN.replace("draft_it:", "draft_that:"))
    with pytest.raises(UsageError, match=r"draft_it@1 is under way, and the SOP has no step `draft_it`"):
        await resume("chain-1", workspace=tmp_path, model=Scripted(), accept_changes=True)
    branch = fork("chain-1", at="draft_it@1", workspace=tmp_path)
    model = Scripted()
    assert (await resume(branch, workspace=tmp_path, model=model, accept_changes=True)).ok
    assert model.steps == ["draft_that", "edit"]


@pytest.mark.parametrize("draft_it", [
    "{role: clerk, needs: [facts, letter], makes: draft, task: Draft it.}",
    "{role: clerk, needs: [facts], sees: [letter], makes: draft, task: Draft it.}",
    "{value: facts | upper, needs: [facts], makes: draft}",
    "{role: editor, needs: [facts], makes: draft, task: Draft it., retries: 3, timeout: 9s}",
])
async def test_a_step_under_way_may_be_changed(tmp_path: Path, draft_it: str) -> None:
    await run(write(tmp_path, CHAIN), letter="x", model=Scripted(draft_it=ValueError("no")), workspace=tmp_path)
    write(tmp_path, CHAIN.replace("{role: clerk, needs: [facts], makes: draft, task: Draft it.}", draft_it))
    result = await resume("chain-1", workspace=tmp_path, model=Scripted(), accept_changes=True)
    assert result.ok, result.reason


async def test_a_step_under_way_may_get_items_or_lose_them(tmp_path: Path) -> None:
    text = """
        sop: items
        inputs: {names: [string], more: {type: [string], default: [z]}}
        roles: {clerk: {profile: You write.}}
        artifacts: {letters: {each: string}}
        steps:
          write: {role: clerk, needs: [names], foreach: {in: names, as: name}, makes: letters}
    """
    model = Scripted(write=lambda request: ValueError("no") if "[b]" in request.key else "fine")
    await run(write(tmp_path, text), names=["a", "b"], model=model, workspace=tmp_path)
    write(tmp_path, text.replace("foreach: {in: names,", "foreach: {in: \"['b', 'c']\","))
    result = await resume("items-1", workspace=tmp_path, model=Scripted(), accept_changes=True)
    assert result.ok and set(result["letters"]) == {"b", "c"}


async def test_forks_go_their_own_ways_and_leave_their_source_alone(tmp_path: Path) -> None:
    result = await run(write(tmp_path, CHAIN), letter="x", model=Scripted(), workspace=tmp_path)
    before = (tmp_path / ".journals" / "chain-1.db").read_bytes()
    name = fork("chain-1", at="draft_it@1", workspace=tmp_path)
    other = Scripted(draft_it="another", edit="another end")
    branched = await resume(name, workspace=tmp_path, model=other)
    assert branched["final"] == "another end" and other.steps == ["draft_it", "edit"]
    assert (tmp_path / ".journals" / "chain-1.db").read_bytes() == before
    assert tree(tmp_path / "chain-1") == {"final.txt": f"{result['final']}\n"}
    assert tree(tmp_path / name) == {"final.txt": "another end\n"}
    assert firings(tmp_path, name) == firings(tmp_path, "chain-1")


async def test_a_fork_inside_of_a_loop_has_the_rounds_before_it(tmp_path: Path) -> None:
    text = """
        sop: loop
        inputs: {letter: string}
        roles: {clerk: {profile: You write.}}
        artifacts: {draft: {}, verdict: {schema: {fine: boolean}}}
        steps:
          write: {role: clerk, needs: [letter], makes: draft}
          judge: {role: clerk, needs: [draft], makes: verdict}
          better: {role: clerk, needs: [verdict], sees: [draft], when: not verdict.fine, makes: draft, rounds: 3}
    """
    model = Scripted(judge=[{"fine": False}, {"fine": False}, {"fine": True}], better=["two", "three"])
    result = await run(write(tmp_path, text), letter="x", model=model, workspace=tmp_path)
    assert result.ok and firings(tmp_path, "loop-1") == ["write@1", "judge@1", "better@1", "judge@2", "better@2", "judge@3"]
    name = fork("loop-1", at="better@2", workspace=tmp_path)
    other = Scripted(better="other", judge={"fine": True})
    assert (await resume(name, workspace=tmp_path, model=other)).ok
    assert other.keys == ["better@2~0/turn.0", "judge@3~0/turn.0"]


async def test_until_in_a_loop_and_at_items(tmp_path: Path) -> None:
    text = """
        sop: loop
        inputs: {names: [string]}
        roles: {clerk: {profile: You write.}}
        artifacts: {source: {files: "src/**"}, faults: {schema: [string]}}
        steps:
          write: {role: clerk, needs: [names], foreach: {in: names, as: name}, makes: {source: "src/{{ name }}"}}
          judge: {role: clerk, needs: [source], makes: faults}
          mend: {role: clerk, needs: [faults], sees: [source], foreach: {in: faults, as: path}, makes: {source: "{{ path }}"}, rounds: 2}
    """
    def made(request: Any) -> str:
        return block(request.patterns[0], request.key)

    model = Scripted(write=made, mend=made, judge=[["src/a"], ["src/b"], []])
    path = write(tmp_path, text)
    result = await run(path, names=["a", "b"], model=model, workspace=tmp_path, until="write")
    assert result.outcome == "until" and firings(tmp_path, "loop-1") == ["write@1"]
    assert sorted(finished(tmp_path, "loop-1")) == ["write@1[a]~0", "write@1[b]~0"]
    assert set(tree(tmp_path / "loop-1")) == {"src/a", "src/b"}
    await resume("loop-1", workspace=tmp_path, model=model, until="mend")
    assert firings(tmp_path, "loop-1") == ["write@1", "judge@1", "mend@1"]
    await resume("loop-1", workspace=tmp_path, model=model, until="mend")
    assert firings(tmp_path, "loop-1")[3:] == ["judge@2", "mend@2"]
    result = await resume("loop-1", workspace=tmp_path, model=model, until="mend")        # it is capped: it never fires again
    assert result.outcome == "success" and firings(tmp_path, "loop-1")[5:] == ["judge@3"]
    assert tree(tmp_path / "loop-1") == {"src/a": "mend@1[src/a]~0/turn.0\n", "src/b": "mend@2[src/b]~0/turn.0\n"}


ODD = ["plain", "two words", "a/b", "[br]ack[et]", "100%", "%5D~0/turn.0", "emoji 🐝", "ünï", "日本", "'quotes\"", "x" * 300, "a]~1", "{{ 7*7 }}",
       "tab\there", "line\nbreak", "*?"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("broken", [0, 7, 10])
async def test_odd_keys_go_through_keys_folder_journal_and_resume(tmp_path: Path, broken: int) -> None:
    text = """
        sop: odd
        inputs: {names: [string]}
        roles: {clerk: {profile: You write.}}
        artifacts: {letters: {each: string, file: letters.json}, pages: {files: "pages/**"}}
        steps:
          write:
            role: clerk
            needs: [names]
            foreach: {in: names, as: name, after: "names[:1] if name != names[0] else []"}
            makes: letters
            task: "For {{ name }} after {{ prior | length }}"
          publish:
            value: "{'pages/' ~ letters[item]: item}"
            needs: [letters]
            foreach: {in: letters | list}
            makes: {pages: "pages/{{ letters[item] }}"}
        outputs: [letters, pages]
    """
    def model(request: Any) -> str:
        item = parse_activation(request.key).item or ""
        if item == ODD[broken] and "~0/" in request.key:
            raise ValueError("not yet")
        assert f"For {item} after {0 if item == ODD[0] else 1}" in request.messages[-1]["content"]
        return f"{ODD.index(item)} [x]*"

    path = write(tmp_path, text)
    assert (await run(path, names=ODD, model=model, workspace=tmp_path)).outcome == "stopped"
    result = await resume("odd-1", workspace=tmp_path, model=model)
    assert result.ok, result.reason
    assert list(result["letters"]) == ODD
    assert result["pages"] == {f"pages/{place} [x]*": key for place, key in enumerate(ODD)}
    made = tree(tmp_path / "odd-1")
    assert json.loads(made.pop("letters.json")) == result["letters"] and made == result["pages"]
    done = [event.activation for event in events(tmp_path, "odd-1", Finished)]
    assert sorted(done) == sorted(f"{step}@1[{quote(key, safe='/._-')}]~{int(step == 'write' and key == ODD[broken])}"
                                  for step in ("write", "publish") for key in ODD)
    again = await run(path, names=ODD, model=model, workspace=tmp_path, from_run="odd-1")
    assert again.calls == 0 and again.outputs == result.outputs
