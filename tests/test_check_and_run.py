"""What `sop check` accepts, a run honours: rules of files, strategies of one's own, modules of the project, checks by command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, block, events, ran, write

from metaflow_agents import check, resume, run
from metaflow_agents.agent import strategies
from metaflow_agents.agent.strategies import Said, Strategy, Thinking
from metaflow_agents.errors import SOPInvalid, UsageError
from metaflow_agents.schema.event import Failed
from metaflow_agents.schema.strategies import StrategySpec
from metaflow_agents.sop.check import check as check_without_registry

# --- rules on files

FILES = """
    sop: pages
    inputs: {goal: string}
    roles: {coder: {profile: You code.}}
    artifacts:
      source:
        files: "src/**"
        rules:
          - {assert: "'src/main.py' in source", message: There is no main.py.}
          - {assert: "'TODO' not in source ~ ''", message: Leave no TODO.}
          - {assert: "run.inputs.goal in source['src/main.py']"}
      faults: {}
    steps:
      code: {role: coder, needs: [goal], makes: source}
      look: {value: "'one'", needs: [source], makes: faults}
      mend: {role: coder, needs: [faults], sees: [source], makes: source, rounds: 1}
    outputs: [source]
"""
MAIN = block("src/main.py", "print('tea')")


async def test_rules_of_files_see_the_version_that_would_be_and_go_back_to_the_author(tmp_path: Path) -> None:
    model = Scripted(code=[block("src/a.py", "# TODO"), MAIN + block("src/a.py", "a")], mend=block("src/b.py", "b"))
    result = await run(write(tmp_path, FILES), goal="tea", model=model, workspace=tmp_path / "runs")
    assert result.ok, result.reason
    told = model.last_said("code@1~0/turn.0/repair.1")
    assert "There is no main.py." in told and "Leave no TODO." in told and "run.inputs.goal in source" in told
    assert model.keys == ["code@1~0/turn.0", "code@1~0/turn.0/repair.1", "mend@1~0/turn.0"], "the mender's rest stood already"
    assert list(result["source"]) == ["src/a.py", "src/b.py", "src/main.py"]
    assert "- There is no main.py." in model.last_said("code@1~0/turn.0"), "the rules are told beforehand"


@pytest.mark.parametrize(("answer", "told"), [
    (block("src/main.py", "print('coffee')"), "run.inputs.goal in source"),            # laid over what stands
    ("=== delete: src/main.py ===\n", "There is no main.py."),
])
async def test_a_reviser_is_held_to_the_rules_of_the_whole(tmp_path: Path, answer: str, told: str) -> None:
    model = Scripted(code=MAIN, mend=[answer, "=== undo: src/main.py ===\n" + block("src/b.py", "b")])
    result = await run(write(tmp_path, FILES), goal="tea", model=model, workspace=tmp_path / "runs")
    assert result.ok and told in model.last_said("mend@1~0/turn.0/repair.1")
    assert result["source"]["src/main.py"].strip() == "print('tea')"


@pytest.mark.parametrize("doer", ["value: \"{'src/a.py': goal}\"", "call: fns:f"])
async def test_files_of_who_is_no_model_are_held_to_their_rules(tmp_path: Path, doer: str) -> None:
    path = write(tmp_path, f"""
        sop: pages
        inputs: {{goal: string}}
        artifacts: {{source: {{files: "src/**", rules: [{{assert: "source['src/a.py'] | length > 3", message: More.}}]}}}}
        steps: {{code: {{{doer}, needs: [goal], makes: source}}}}
    """, fns_py="def f(goal):\n    return {'src/a.py': goal}\n")
    assert (await run(path, goal="long enough", workspace=None)).ok
    result = await run(path, goal="x", workspace=None)
    assert result.outcome == "stopped" and "More." in result.reason


async def test_a_rule_sees_of_an_item_the_files_that_it_wrote_and_the_item(tmp_path: Path) -> None:
    path = write(tmp_path, """
        sop: pages
        inputs: {names: [{path: string, word: string}]}
        roles: {coder: {profile: You code.}}
        artifacts:
          source:
            files: "src/**"
            initial: {src/old: one two}
            rules:
              - assert: item.word in source[item.path] and key == item.path and source | length == 1
                message: The word is missing.
        steps:
          code:
            role: coder
            needs: [names]
            foreach: {in: names, as: name, key: name.path}
            makes: {source: "{{ name.path }}"}
    """)

    def answer(request: Any) -> str:
        good = "repair" in request.key or "[src/a]" in request.key
        return block(request.patterns[0], ("one" if "src/a" in request.key else "two") if good else "nothing")

    model = Scripted(code=answer)
    names = [{"path": "src/a", "word": "one"}, {"path": "src/b", "word": "two"}]
    result = await run(path, names=names, model=model, workspace=None)
    assert result.ok, result.reason
    assert sorted(model.keys) == ["code@1[src/a]~0/turn.0", "code@1[src/b]~0/turn.0", "code@1[src/b]~0/turn.0/repair.1"]
    assert "The word is missing." in model.last_said("code@1[src/b]~0/turn.0/repair.1")


async def test_a_dry_run_does_not_hold_files_to_rules_that_they_could_not_keep(tmp_path: Path) -> None:
    called = FILES.replace("role: coder, needs: [goal]", "call: 'fns:f', needs: [goal]")
    for text in (FILES, called):
        path = write(tmp_path, text, fns_py="def f(goal):\n    return {}\n")
        assert (await run(path, goal="tea", model="dry", workspace=None)).ok


@pytest.mark.parametrize(("kind", "rule", "value", "foreach", "code"), [
    ("each: {n: integer}", "x.n > item | length and key != ''", "{'n': 1}", True, None),
    ("each: {n: integer}", "x.m > 0", "{'n': 1}", True, "unknown-attribute"),
    ("each: {n: integer}", "item.m > 0", "{'n': 1}", True, "unknown-attribute"),
    ("files: 'x/*'", "key in x", "{item: ''}", True, None),
    ("files: 'x/*'", "key in x", "{'x/1': ''}", False, "unknown-name"),
    ("schema: {n: integer}", "item == ''", "{'n': 1}", False, "unknown-name"),
])
def test_a_check_knows_what_a_rule_sees(tmp_path: Path, kind: str, rule: str, value: str, foreach: bool,
                                        code: str | None) -> None:
    walk = ", foreach: {in: names}" if foreach else ""
    path = write(tmp_path, f"""
        sop: it
        inputs: {{names: [string]}}
        artifacts: {{x: {{{kind}, rules: [{{assert: "{rule}"}}]}}}}
        steps: {{make: {{value: "{value}", needs: [names], makes: x{walk}}}}}
    """)
    assert [problem.code for problem in check(path).problems] == ([] if code is None else [code])


def test_rules_of_parsed_json_have_an_author_to_hear_of_them(tmp_path: Path) -> None:
    """The command's own result has a fixed schema; what it wrote is data like any other."""
    path = write(tmp_path, """
        sop: it
        artifacts: {x: {schema: {n: integer}, rules: [{assert: x.n > 0}]}}
        steps: {make: {run: "true", parse: json x.json, makes: x}}
    """)
    assert "rules-misplaced" not in [problem.code for problem in check(path).problems]


# --- strategies of one's own


class Again(StrategySpec):
    again: str
    times: int = 1

    def calls(self, answer: int) -> int | None:
        """Those, and the answer."""
        return (1 + self.times) * answer


class Twice(Strategy[Again]):
    """Asks several times for the same answer."""

    SPEC = Again

    async def answer(self, thinking: Thinking) -> Said:
        messages = thinking.compose(thinking.output_format)
        for time in range(self.given.times):
            await thinking.ask(f"turn.0/first.{time}", messages)
        return await thinking.ask("turn.0", (*messages, {"role": "user", "content": self.given.again}))


class Silent(Strategy[StrategySpec]):
    """Says nothing of its calls and takes nothing."""

    SPEC = StrategySpec

    async def answer(self, thinking: Thinking) -> Said:
        return await thinking.ask("turn.0", thinking.compose(thinking.output_format))


LETTER = """
    sop: letter
    inputs: {goal: string}
    roles: {writer: {profile: You write.}}
    artifacts: {letter: {}}
    steps: {write: {role: writer, needs: [goal], makes: letter, strategy: STRATEGY}}
"""


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategies, "_REGISTRY", dict(strategies._REGISTRY))
    strategies.register("twice", Twice)
    strategies.register("silent", Silent)


@pytest.mark.usefixtures("registered")
async def test_a_registered_strategy_is_named_checked_and_run(tmp_path: Path) -> None:
    path = write(tmp_path, LETTER.replace("STRATEGY", "{twice: {again: Once more., times: 2}}"))
    report = check(path)
    assert report.ok and report.bounds is not None and report.bounds.calls == 3 + 2
    model = Scripted()
    result = await run(path, goal="x", model=model, workspace=None)
    assert result.ok
    assert model.keys == ["write@1~0/turn.0/first.0", "write@1~0/turn.0/first.1", "write@1~0/turn.0"]
    assert model.last_said("write@1~0/turn.0") == "Once more."
    assert [problem.code for problem in check_without_registry(path).problems] == ["unknown-strategy"]


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(("written", "told"), [
    ("{twice: {again: x, tmes: 2}}", "has no parameter `tmes`"),
    ("{twice: {times: 2}}", "wants `again`"),
    ("twice", "wants `again`"),
    ("{silent: {x: 1}}", "has no parameter `x`"),
    ("{twice: {again: x, times: many}}", "`times` has to be a whole number"),
    ("twic", "there is no strategy `twic`"),
])
async def test_parameters_of_a_registered_strategy_are_checked(tmp_path: Path, written: str, told: str) -> None:
    path = write(tmp_path, LETTER.replace("STRATEGY", written))
    with pytest.raises(SOPInvalid, match=told):
        await run(path, goal="x", model=Scripted(), workspace=None)


@pytest.mark.usefixtures("registered")
async def test_a_strategy_that_says_nothing_of_its_calls_has_no_bound(tmp_path: Path) -> None:
    path = write(tmp_path, LETTER.replace("STRATEGY", "silent"))
    report = check(path)
    assert report.ok and report.bounds is not None
    bound = report.bounds.steps["write"]
    assert (bound.calls, bound.total_calls, report.bounds.calls) == (None, None, None)
    assert (await run(path, goal="x", model=Scripted(), workspace=None)).ok
    capped = write(tmp_path, LETTER.replace("STRATEGY", "silent, budget: {calls: 5}"))
    assert check(capped).bounds.calls == 5                          # type: ignore[union-attr]


# --- modules of the project

async def test_a_run_finds_the_modules_that_a_check_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    (project / "sops").mkdir(parents=True)
    elsewhere.mkdir()
    path = write(project / "sops", """
        sop: agree
        inputs: {goal: string}
        models: {default: "python:agree_model.py:answer"}
        roles: {writer: {profile: You write.}}
        artifacts: {facts: {schema: {python: "agree_desk:Facts"}}, letter: {}}
        steps:
          look: {call: "agree_desk:look", needs: [goal], makes: facts}
          write: {role: writer, needs: [facts], makes: letter, check: {call: "agree_desk:fine"}}
    """)
    (project / "agree_model.py").write_text("def answer(request):\n    return 'Dear you'\n")
    (project / "agree_desk.py").write_text(
        "from pydantic import BaseModel\nclass Facts(BaseModel):\n    n: int\n"
        "def look(goal):\n    return {'n': len(goal)}\ndef fine(letter):\n    return None if letter else 'empty'\n")
    monkeypatch.chdir(elsewhere)
    assert check(path).problems == ()
    result = await run(path, goal="tea", until="look", name="agree", workspace=tmp_path / "runs")
    assert result.outcome == "until", result.reason
    result = await resume("agree", workspace=tmp_path / "runs")
    assert result.ok and result["letter"] == "Dear you"


PYTHON = """
    sop: typed
    inputs: {one: {type: {python: "agree_typed:Facts"}}, two: {python: "agree_typed:Facts"}}
    artifacts: {facts: {schema: {python: "agree_typed:Facts"}, initial: {n: INITIAL}}, sum: {schema: integer}}
    steps: {add: {value: one.n + two.n + facts.n, needs: [one, two, facts], makes: sum}}
"""
TYPED = "from pydantic import BaseModel\nclass Facts(BaseModel):\n    n: int\n"


async def test_inputs_and_initial_values_may_have_models_in_python(tmp_path: Path) -> None:
    path = write(tmp_path, PYTHON.replace("INITIAL", "3"))
    (tmp_path / "agree_typed.py").write_text(TYPED)
    assert check(path).problems == ()
    assert (await run(path, one={"n": 1}, two={"n": 2}, workspace=None))["sum"] == 6
    with pytest.raises(UsageError, match=r"input `two`: .*n"):
        await run(path, one={"n": 1}, two={"n": "x"}, workspace=None)
    write(tmp_path, PYTHON.replace("INITIAL", "x"))
    with pytest.raises(UsageError, match="the initial value of `facts` does not fit"):
        await run(path, one={"n": 1}, two={"n": 2}, workspace=None)
    write(tmp_path, PYTHON.replace("INITIAL", "3").replace('"agree_typed:Facts"', '"agree_typed:Fact"'))
    assert [(problem.code, problem.line) for problem in check(path).problems] == [("call-function", 3), ("call-function", 3),
                                                                                 ("call-function", 4)]


async def test_of_two_modules_of_one_name_a_run_takes_the_one_that_was_checked(tmp_path: Path,
                                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    """The project's goes before the current folder's."""
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    (project / "sops").mkdir(parents=True)
    elsewhere.mkdir()
    path = write(project / "sops", """
        sop: agree
        inputs: {goal: string}
        artifacts: {letter: {}}
        steps: {write: {call: "agree_twin:write", needs: [goal], makes: letter}}
    """)
    (project / "agree_twin.py").write_text("def write(goal):\n    return 'of the project'\n")
    (elsewhere / "agree_twin.py").write_text("def write(other):\n    return 'of elsewhere'\n")
    monkeypatch.chdir(elsewhere)
    assert check(path).problems == ()
    assert (await run(path, goal="tea", workspace=None))["letter"] == "of the project"


# --- commands that check data and text

CHECKED = """
    sop: desk
    inputs: {goal: string}
    roles: {writer: {profile: You write.}}
    artifacts: {letter: ARTIFACT}
    steps: {write: {role: writer, needs: [goal], makes: letter, check: {run: "CHECK", repairs: 1}}}
"""


@pytest.mark.parametrize(("artifact", "command", "bad", "good"), [
    ("{file: out/letter.txt}", "grep -q Dear out/letter.txt", "Hello", "Dear you"),
    ("{file: out/letter.json, schema: {n: integer}}", "grep -q 5 out/letter.json", {"n": 4}, {"n": 5}),
    ("{file: letter.md, render: letter.md.j2, schema: {n: integer}}", "grep -q 'the number is 5' letter.md", {"n": 4}, {"n": 5}),
])
async def test_a_command_that_checks_sees_the_answer(tmp_path: Path, artifact: str, command: str, bad: Any, good: Any) -> None:
    path = write(tmp_path, CHECKED.replace("ARTIFACT", artifact).replace("CHECK", command))
    (tmp_path / "letter.md.j2").write_text("For {{ run.inputs.goal }} the number is {{ letter.n }}.\n")
    model = Scripted(write=[bad, good])
    result = await run(path, goal="x", model=model, workspace=tmp_path / "runs", sandbox="none")
    assert result.ok, result.reason
    assert result["letter"] == good and model.keys == ["write@1~0/turn.0", "write@1~0/check.1"]
    assert "exit code 1" in model.last_said("write@1~0/check.1")


async def test_a_command_that_checks_an_item_sees_it_in_its_collection(tmp_path: Path) -> None:
    path = write(tmp_path, """
        sop: desk
        inputs: {names: [string]}
        roles: {writer: {profile: You write.}}
        artifacts: {notes: {each: string, file: notes.json}}
        steps:
          write:
            role: writer
            needs: [names]
            foreach: {in: names, as: name, after: "['a'] if name == 'b' else []"}
            makes: notes
            check:
              run: [python, -c, "import json; print(open('notes.json').read()); raise SystemExit('{{ name }}' == 'b')"]
              repairs: 0
            on_fail: skip
    """)
    model = Scripted(write=lambda request: f"note on {request.key[8]}")
    result = await run(path, names=["a", "b", "c"], model=model, workspace=tmp_path / "runs", sandbox="none")
    assert dict(result["notes"]) == {"a": "note on a", "c": "note on c"}
    (failed,) = events(tmp_path / "runs", result.name, Failed)
    seen = json.loads(failed.error.partition("exit code 1\n")[2])
    assert seen == {"a": "note on a", "b": "note on b"}, "what it comes after and itself, whatever else is done"


async def test_a_blind_check_is_refused_before_anything_runs(tmp_path: Path) -> None:
    path = write(tmp_path, CHECKED.replace("ARTIFACT", "{schema: {n: integer}}").replace("CHECK", "true"))
    with pytest.raises(SOPInvalid, match=r"check-blind.*\n.*file: letter.json"):
        await run(path, goal="x", model=Scripted(), workspace=None, sandbox="none")


async def test_what_a_command_saw_counts_for_from(tmp_path: Path) -> None:
    """Another template of the file is another tree: what was checked and what ran on it are done anew."""
    text = """
        sop: desk
        inputs: {goal: string}
        roles: {writer: {profile: You write.}}
        artifacts: {letter: {file: letter.md, render: letter.md.j2}, seen: {}, other: {}}
        steps:
          write: {role: writer, needs: [goal], makes: letter, check: {run: grep -q Dear letter.md}}
          look: {run: cat letter.md, needs: [letter], makes: seen}
          last: {role: writer, needs: [letter], makes: other}
        success: seen.ok
    """
    path = write(tmp_path, text)
    (tmp_path / "letter.md.j2").write_text("Dear {{ letter }}\n")
    options: dict[str, Any] = {"goal": "x", "model": Scripted(write="you"), "workspace": tmp_path / "runs", "sandbox": "none"}
    first = await run(path, name="first", **options)
    await run(path, name="same", from_run="first", **options)
    (tmp_path / "letter.md.j2").write_text("Dear and dear {{ letter }}\n")
    second = await run(path, name="second", from_run="first", **options)
    assert first.ok and second.ok and ran(tmp_path / "runs", "same") == set()
    assert ran(tmp_path / "runs", "second") == {"write", "look", "last"}, "`last` may be shown it by its template"
