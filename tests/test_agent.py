# ruff: noqa: E501  (SOPs stand here as people write them)
"""One activation of one role: what it is asked, how its answer is taken, mended and checked, and the keys of its calls."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from scripted import Scripted, block, events, finished, write

from metaflow_agents import RunResult, resume, run, start
from metaflow_agents.agent import strategies
from metaflow_agents.errors import UsageError
from metaflow_agents.schema.event import Failed, Observed, Reserved
from metaflow_agents.schema.strategies import StrategySpec

DATA = """
    sop: data
    inputs: {letter: string}
    roles: {clerk: {profile: You file.}}
    artifacts: {facts: {schema: {sender: string, pages: integer, kind: loan | other}}}
    steps: {read: {role: clerk, needs: [letter], makes: facts MORE}}
"""
CODE = """
    sop: code
    inputs: {letter: string}
    roles: {smith: {profile: You code.}}
    artifacts: {source: {files: "src/**", initial: {src/old.py: "a = 1\\nb = 2\\n", src/gone.py: "x\\n"}}}
    steps: {mend: {role: smith, needs: [letter], sees: [source], makes: source MORE}}
    outputs: [source]
"""
FACTS = {"sender": "Jo", "pages": 2, "kind": "loan"}


async def data(tmp_path: Path, *answers: Any, more: str = "", **options: Any) -> tuple[RunResult, Scripted]:
    model = Scripted(read=list(answers))
    path = write(tmp_path, DATA.replace(" MORE", more), **options)
    return await run(path, letter="x", model=model, workspace=tmp_path), model


async def code(tmp_path: Path, *answers: Any, more: str = "", **options: Any) -> tuple[RunResult, Scripted]:
    model = Scripted(mend=list(answers))
    path = write(tmp_path, CODE.replace(" MORE", more), **options)
    return await run(path, letter="x", model=model, workspace=tmp_path, sandbox="none"), model


@pytest.mark.parametrize("answer", [
    FACTS, '{"sender": "Jo", "pages": 2, "kind": "loan"}', '```json\n{"sender": "Jo", "pages": 2, "kind": "loan"}\n```',
    '\n```\n{"sender": "Jo",\n "pages": 2, "kind": "loan"}\n```\n', '  {"kind": "loan", "pages": 2, "sender": "Jo"}  ',
])
async def test_data_comes_as_a_value_as_json_and_in_a_fence(tmp_path: Path, answer: Any) -> None:
    result, model = await data(tmp_path, answer)
    assert result["facts"] == FACTS and model.keys == ["read@1~0/turn.0"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("answer", "faults"), [
    ({**FACTS, "pages": "two"}, ["`pages` is \"two\"; expected integer"]),
    ({"sender": "Jo"}, ["`pages` is missing", "`kind` is missing"]),
    ({**FACTS, "kind": "loam"}, ["`kind` is \"loam\"; expected \"loan\" or \"other\""]),
    ({**FACTS, "sneder": 1}, ["`sneder`"]),
    ("I think that", ["JSON"]), ('{"sender": "Jo", "pages": 2', ["JSON"]), ("", ["JSON"]), ([], ["expected"]),
    ('{"sender": "\\ud800", "pages": 1, "kind": "loan"}', ["sender"]),
    ({**FACTS, "pages": 2.5}, ["`pages`"]), (True, ["expected"]),
])
async def test_the_exact_faults_go_back_to_the_author(tmp_path: Path, answer: Any, faults: list[str]) -> None:
    result, model = await data(tmp_path, answer, FACTS)
    assert result["facts"] == FACTS, result.reason
    assert model.keys == ["read@1~0/turn.0", "read@1~0/turn.0/repair.1"]
    first, repair = model.requests
    assert repair.messages[:len(first.messages)] == first.messages          # the conversation goes on
    assert [message["role"] for message in repair.messages[-2:]] == ["assistant", "user"]
    for fault in faults:
        assert fault in repair.messages[-1]["content"]
    assert "Traceback" not in repair.messages[-1]["content"] and "pydantic" not in repair.messages[-1]["content"]


async def test_two_repairs_and_then_the_attempt_has_failed(tmp_path: Path) -> None:
    result, model = await data(tmp_path, "no", "no", "no", FACTS, more=", retries: 1")
    assert result.ok
    assert model.keys == ["read@1~0/turn.0", "read@1~0/turn.0/repair.1", "read@1~0/turn.0/repair.2", "read@1~1/turn.0"]
    assert "the last answer that can be taken" in model.last_said("read@1~0/turn.0/repair.2")
    assert "the last answer" not in model.last_said("read@1~0/turn.0/repair.1")
    (failed,) = events(tmp_path, "data-1", Failed)
    assert failed.activation == "read@1~0" and not failed.final


async def test_what_a_role_is_asked(tmp_path: Path) -> None:
    _, model = await data(tmp_path, FACTS, more=", task: \"Read the letter of {{ run.inputs.letter }}, round {{ round }}.\"")
    (request,) = model.requests
    assert (request.role, request.step, request.model) == ("clerk", "read", "python:scripted:Scripted")
    system, user = (message["content"] for message in request.messages)
    assert "You file." in system and "Your step is `read`" in system
    assert '<artifact name="letter" kind="text">\nx\n</artifact>' in user
    assert "Read the letter of x, round 1." in user and '"sender"' not in user and "sender" in str(request.schema)


async def test_blocks_write_edit_rename_and_delete(tmp_path: Path) -> None:
    answer = (block("src/new.py", "n = 1") + "=== edit: src/old.py ===\n<<<<<<< SEARCH\nb = 2\n=======\nb = 3\n>>>>>>> REPLACE\n=== end ===\n"
              "=== rename: src/gone.py -> src/moved.py ===\n")
    result, model = await code(tmp_path, answer)
    assert result.ok, result.reason
    assert result["source"] == {"src/moved.py": "x\n", "src/new.py": "n = 1\n", "src/old.py": "a = 1\nb = 3\n"}
    assert "src/old.py" in model.said("mend@1~0/turn.0") and "a = 1" in model.said("mend@1~0/turn.0")


async def test_a_deletion_alone_is_an_answer(tmp_path: Path) -> None:
    result, _ = await code(tmp_path, "=== delete: src/gone.py ===\n")
    assert list(result["source"]) == ["src/old.py"]
    assert not (tmp_path / "code-1" / "src" / "gone.py").exists() and (tmp_path / "code-1" / "src" / "old.py").exists()


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("answer", "told"), [
    ("Here is the code:\nprint(1)\n", "the answer holds no block"),
    ("```python\nprint(1)\n```", "the answer holds no block"),
    (block("../x.py", "x"), "path `../x.py` is refused"), (block("/etc/x", "x"), "path `/etc/x` is refused"),
    (block("lib/x.py", "x"), "path `lib/x.py` is outside of what this step makes: `src/**`"),
    ("=== edit: src/old.py ===\n<<<<<<< SEARCH\nc = 9\n=======\nd\n>>>>>>> REPLACE\n=== end ===\n", "SEARCH is not in the file"),
    ("=== edit: src/odl.py ===\n<<<<<<< SEARCH\nc\n=======\nd\n>>>>>>> REPLACE\n=== end ===\n", "did you mean `src/old.py`"),
    ("=== file: src/a.py ===\nx = 1\n", "left open at the end of the answer"),
    (block("src/old.py/deeper.py", "x"), "can't be a file and the folder of"),
    ({"src/x.py": 5}, "a mapping of path to text"), ({"lib/x.py": "x"}, "'lib/x.py' lies outside `source`"),
])
async def test_faults_of_files_go_back_to_their_author(tmp_path: Path, answer: Any, told: str) -> None:
    result, model = await code(tmp_path, answer, block("src/fine.py", "f = 1"))
    assert result.ok and result["source"]["src/fine.py"] == "f = 1\n"
    assert told in model.last_said("mend@1~0/turn.0/repair.1")


def edits(*pairs: tuple[str, str], path: str = "src/old.py") -> str:
    inside = "".join(f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n" for old, new in pairs)
    return f"=== edit: {path} ===\n{inside}=== end ===\n"


async def test_what_fits_is_taken_and_only_what_failed_is_asked_for_again(tmp_path: Path) -> None:
    """What a check says against files is answered by what changes, too; and the role's memory has all of it."""
    first = (block("src/new.py", "n = 1") + "=== delete: src/gone.py ===\n" + edits(("a = 1", "a = 7"), ("c = 3", "c = 4"))
             + "=== file: src/cut.py ===\nx = 1\n")
    rest = edits(("a = 7\nb = 2", "a = 7\nb = 5")) + block("src/cut.py", "x = 1")
    last = edits(("n = 1", "n = 2"), path="src/new.py") + "=== undo: src/gone.py ===\n"
    result, model = await code(tmp_path, first, rest, last,
                               more=", check: {call: \"fns:fine\", repairs: 1}", fns_py="""
        tried = []
        def fine(source):
            tried.append(sorted(source))
            return "once more" if len(tried) == 1 else None
    """)
    assert result.ok, result.reason
    assert result["source"] == {"src/cut.py": "x = 1\n", "src/gone.py": "x\n", "src/new.py": "n = 2\n", "src/old.py": "a = 7\nb = 5\n"}
    told = model.last_said("mend@1~0/turn.0/repair.1")
    assert "Your answer can't be taken as it is." in told and "SEARCH is not in the file" in told and "left open" in told
    stands = "These stand as you answered them: `src/new.py`, `src/gone.py` (deleted), `src/old.py` (1 edit)."
    assert stands in told and "in full" not in told and "<<<<<<< SEARCH" not in told, "how a file is edited was told before"
    assert [message["content"] for message in model.requests[2].messages[-4:-1]] == [first, told, rest], "each answer as it was said"
    told = model.last_said("mend@1~0/check.1")
    assert "once more" in told and "`src/old.py` (2 edits), `src/cut.py`. Answer only with blocks for what changes" in told


async def test_of_a_long_answer_only_what_a_fault_is_about_is_shown_again(tmp_path: Path) -> None:
    """And as many of the others as there is room for; each whole, so that none is taken for another one's text."""
    long = {f"src/{name}.py": f"{name} = 1\n" + "# fill\n" * 1_800 for name in ("one", "two")}
    first = "".join(block(path, text) for path, text in long.items()) + block("src/small.py", "s = 1")
    result, model = await code(tmp_path, first, edits(("two = 1", "two = 2"), path="src/two.py"),
                               more=", check: {call: \"fns:fine\", repairs: 1}", fns_py="""
        def fine(source):
            return "`src/two.py`: line 1: it has to be 2" if source["src/two.py"].startswith("two = 1") else None
    """)
    assert result.ok and result["source"]["src/two.py"].startswith("two = 2\n") and len(result["source"]) == 5
    *_, shown, told = [message["content"] for message in model.requests[-1].messages]
    assert shown == block("src/two.py", long["src/two.py"]) + block("src/small.py", "s = 1"), shown[:200]
    assert "`src/one.py`" in told and "Not all of them are shown above. Answer only with blocks for what changes" in told


async def test_a_role_remembers_all_that_was_taken_of_its_answers(tmp_path: Path) -> None:
    text = CODE.replace(" MORE", "").replace("    steps: {", "    steps: {next: {role: smith, needs: [source], makes: note}, ").replace(
        "artifacts: {", "artifacts: {note: {}, ")
    model = Scripted(mend=[block("src/new.py", "n = 1") + block("lib/x", "x"), edits(("n = 1", "n = 2"), path="src/new.py")], next="done")
    result = await run(write(tmp_path, text), letter="x", model=model, workspace=None)
    assert result.ok, result.reason
    remembered = [message["content"] for message in model.requests[-1].messages if message["role"] == "assistant"]
    assert remembered == [block("src/new.py", "n = 1") + edits(("n = 1", "n = 2"), path="src/new.py")]


async def test_a_clash_leaves_what_was_taken_before(tmp_path: Path) -> None:
    result, model = await code(tmp_path, edits(("a = 1", "a = 7"), ("c", "d")), block("src/old.py/x", "x"), block("src/fine.py", "f = 1"))
    assert result.ok and result["source"]["src/fine.py"] == "f = 1\n" and result["source"]["src/old.py"] == "a = 7\nb = 2\n"
    assert "These stand as you answered them: `src/old.py` (1 edit)." in model.last_said("mend@1~0/turn.0/repair.2")


async def test_of_a_first_answer_of_which_nothing_stands_all_is_asked_for(tmp_path: Path) -> None:
    result, model = await code(tmp_path, block("src/old.py/x", "x"), block("src/fine.py", "f = 1"))
    assert result.ok and "in full" in model.last_said("mend@1~0/turn.0/repair.1")


async def test_text_stays_as_it_is_said(tmp_path: Path) -> None:
    text = DATA.replace("{schema: {sender: string, pages: integer, kind: loan | other}}", "{file: facts.md}").replace(" MORE", "")
    said = "```\nnot taken apart\n```\n=== file: x ===\n{{ 7 * 7 }}\n"
    result = await run(write(tmp_path, text), letter="x", model=Scripted(read=said), workspace=tmp_path)
    assert result["facts"] == said and (tmp_path / "data-1" / "facts.md").read_text() == said


FNS = """
    def fine(facts, letter):
        return None if facts["pages"] > 5 else f"{facts['pages']} pages are too few for {letter}"
    def listed(facts):
        return [] if facts["pages"] > 5 else ["too few", "too thin"]
    def no(facts):
        return facts["pages"] > 5
    def broken(facts):
        raise ValueError("the check is broken")
"""


async def test_a_command_checks_the_files_and_its_word_goes_back(tmp_path: Path) -> None:
    text = CODE.replace(" MORE", ", check: {run: [python, -c, \"print('see line 7'); raise SystemExit('bad' in open('src/x.py').read())\"], repairs: 2}")
    model = Scripted(mend=[block("src/x.py", "bad"), "no blocks", block("src/x.py", "bad still"), block("src/x.py", "good")])
    result = await run(write(tmp_path, text), letter="x", model=model, workspace=tmp_path, sandbox="none")
    assert result.ok and result["source"]["src/x.py"] == "good\n"
    assert model.keys == ["mend@1~0/turn.0", "mend@1~0/check.1", "mend@1~0/check.1/repair.1", "mend@1~0/check.2"]
    assert "exit code 1" in model.last_said("mend@1~0/check.1") and "see line 7" in model.last_said("mend@1~0/check.1")
    assert [event.key for event in events(tmp_path, "code-1", Observed)] == [f"mend@1~0/checked.{number}" for number in range(3)]


async def test_a_check_that_never_is_content_fails_the_attempt(tmp_path: Path) -> None:
    more = ", retries: 1, check: {call: \"fns:fine\", repairs: 1}"
    result, model = await data(tmp_path, FACTS, FACTS, {**FACTS, "pages": 9}, more=more, fns_py=FNS)
    assert result.ok and result["facts"]["pages"] == 9
    assert model.keys == ["read@1~0/turn.0", "read@1~0/check.1", "read@1~1/turn.0"]
    assert "2 pages are too few for x" in model.last_said("read@1~0/check.1")
    (failed,) = events(tmp_path, "data-1", Failed)
    assert "its check still fails: 2 pages are too few" in failed.error


@pytest.mark.parametrize(("function", "told"), [("listed", "too few\n  too thin"), ("no", "fns:no says that it is not right")])
async def test_a_check_says_it_in_a_list_or_with_no(tmp_path: Path, function: str, told: str) -> None:
    result, model = await data(tmp_path, FACTS, {**FACTS, "pages": 9}, more=f", check: {{call: \"fns:{function}\"}}", fns_py=FNS)
    assert result.ok and told in model.last_said("read@1~0/check.1")


async def test_a_check_that_breaks_fails_the_attempt(tmp_path: Path) -> None:
    result, _ = await data(tmp_path, FACTS, more=", check: {call: \"fns:broken\"}", fns_py=FNS)
    assert result.outcome == "stopped" and "fns:broken raised ValueError: the check is broken" in result.reason


async def test_chain_of_thought_asks_twice_under_its_keys(tmp_path: Path) -> None:
    result, model = await data(tmp_path, "it is a loan", "no json", FACTS, more=", strategy: chain_of_thought")
    assert result["facts"] == FACTS
    assert model.keys == ["read@1~0/turn.0/reason", "read@1~0/turn.0", "read@1~0/turn.0/repair.1"]
    reason, answer, _ = model.requests
    assert reason.schema is None and answer.schema is not None
    assert answer.messages[-2] == {"role": "assistant", "content": "it is a loan"}


async def test_keys_are_those_of_the_language(tmp_path: Path) -> None:
    text = """
        sop: keys
        inputs: {names: [string]}
        roles: {clerk: {profile: You write.}}
        artifacts: {letters: {each: string}}
        steps: {write: {role: clerk, needs: [names], foreach: {in: names, as: name}, makes: letters}}
    """
    model = Scripted()
    await run(write(tmp_path, text), names=["src/a.py", "ä b[1]~0/%"], model=model, workspace=tmp_path)
    assert model.keys == ["write@1[src/a.py]~0/turn.0", "write@1[%C3%A4%20b%5B1%5D~0/%25]~0/turn.0"]
    assert {event.key for event in events(tmp_path, "keys-1", Reserved)} == set(model.keys)
    assert set(finished(tmp_path, "keys-1")) == {key.removesuffix("/turn.0") for key in model.keys}


async def test_an_item_sees_what_its_after_items_made_and_edits_on_top_of_it(tmp_path: Path) -> None:
    text = """
        sop: chain
        inputs: {names: [string]}
        roles: {smith: {profile: You code.}}
        artifacts: {source: {files: "src/**", initial: {src/all.txt: "start\\n"}}}
        steps:
          add:
            role: smith
            needs: [names]
            sees: [source]
            foreach: {in: names, as: name, after: "[] if name == names[0] else [names[0]]"}
            makes: source
            task: "{% for key, made in prior | items %}before: {{ made['src/all.txt'] }}{% endfor %}"
        outputs: [source]
    """

    def edit(old: str, new: str) -> str:
        return f"=== edit: src/all.txt ===\n<<<<<<< SEARCH\n{old}\n=======\n{old}\n{new}\n>>>>>>> REPLACE\n=== end ===\n"

    model = Scripted(add=lambda request: edit("start", "one") if "[one]" in request.key else edit("one", "two"))
    result = await run(write(tmp_path, text), names=["one", "two"], model=model, workspace=tmp_path)
    assert result.ok, result.reason
    assert result["source"] == {"src/all.txt": "start\none\ntwo\n"}
    assert "before: start\none" in model.said("add@1[two]~0/turn.0")


async def test_a_role_named_by_an_expression_gets_its_own_prompt_and_model(tmp_path: Path) -> None:
    text = """
        sop: who
        inputs: {choice: {name: ann | bob}}
        models: {strong: dry}
        roles: {ann: {profile: You are Ann.}, bob: {profile: You are Bob., model: strong}}
        artifacts: {out: {}}
        steps: {do: {role: choice.name, needs: [choice], makes: out}}
    """
    weak, strong = Scripted(do="weak"), Scripted(do="strong")
    for who, made in (("ann", "weak"), ("bob", "strong")):
        result = await run(write(tmp_path, text), choice={"name": who}, models={"default": weak, "strong": strong}, workspace=None)
        assert result["out"] == made
    assert "You are Bob." in strong.said("do@1~0/turn.0") and "You are Ann." in weak.said("do@1~0/turn.0")


async def test_ones_own_strategy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Again(StrategySpec):
        again: str = "again"

    class Twice(strategies.Strategy[Again]):
        SPEC = Again

        async def answer(self, thinking: strategies.Thinking) -> strategies.Said:
            messages = thinking.compose(thinking.output_format)
            await thinking.ask("turn.0/first", messages)
            return await thinking.ask("turn.0", (*messages, {"role": "user", "content": self.given.again}))

    monkeypatch.setattr(strategies, "_REGISTRY", dict(strategies._REGISTRY))
    strategies.register("twice", Twice)
    assert strategies.make("twice", {"again": "x"}).given.again == "x"
    with pytest.raises(UsageError, match="there is a strategy `single` already"):
        strategies.register("single", Twice)
    with pytest.raises(UsageError, match="did you mean `twice`"):
        strategies.make("twic", {})
    with pytest.raises(ValidationError, match="wrong"):
        strategies.make("twice", {"wrong": 1})


async def test_a_resume_inside_of_repairs_asks_only_what_is_left(tmp_path: Path) -> None:
    path = write(tmp_path, DATA.replace(" MORE", ""))
    model = Scripted()
    async with start(path, letter="x", model=model, workspace=tmp_path) as going:
        async def stop_here() -> str:
            going.stop()
            await asyncio.sleep(60)
            return ""

        model.answers["read"] = lambda request: stop_here() if "repair" in request.key else "no json"
        await going.result()
    again = Scripted(read=FACTS)
    result = await resume("data-1", workspace=tmp_path, model=again)
    assert result.ok and again.keys == ["read@1~0/turn.0/repair.1"]
