# ruff: noqa: E501  (SOPs stand here as people write them)
"""Steps whose doer is no role: functions, commands, expressions; and what they are given."""

from __future__ import annotations

from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from scripted import Scripted, events, tree, write

from metaflow_agents import RunResult, run
from metaflow_agents.schema.event import Failed, Finished


async def go(tmp_path: Path, text: str, fns: str = "", **options: Any) -> RunResult:
    beside = Path(mkdtemp(dir=tmp_path))               # a module of the same name in another folder is another module
    path = write(beside, text, fns_py=fns)
    return await run(path, **{"workspace": tmp_path / "runs", "sandbox": "none", **options})


CALLS = """
    sop: calls
    inputs: {names: [string], factor: {type: integer, default: 2}}
    artifacts: {pages: {files: "pages/**", initial: {pages/x.txt: "hello\\n"}}, words: {each: string}, never: {}, out: {schema: any}}
    steps:
      echo: {value: name ~ name, needs: [names], foreach: {in: names, as: name}, makes: words}
      maybe: {value: "'x'", needs: [names], when: "false", makes: never}
      use: {call: "fns:use", needs: [words, names], wants: [never], sees: [pages, factor], makes: out MORE}
    outputs: [out]
"""


async def test_parameters_are_filled_by_name_with_plain_data(tmp_path: Path) -> None:
    fns = """
        def use(names, words, never, pages, factor, round, run, key="nobody", other=7):
            return {"names": names, "words": words, "never": never, "pages": pages, "factor": factor, "round": round,
                    "run": run["name"], "key": key, "other": other, "types": [type(words).__name__, type(pages).__name__]}
    """
    result = await go(tmp_path, CALLS.replace(" MORE", ""), fns, names=["a"])
    assert result["out"] == {
        "names": ["a"], "words": {"a": "aa"}, "never": None, "pages": {"pages/x.txt": "hello\n"}, "factor": 2, "round": 1,
        "run": "calls-1", "key": "nobody", "other": 7, "types": ["dict", "dict"]}


async def test_args_are_templates_and_override(tmp_path: Path) -> None:
    fns = "def use(names, label, count, deep, flat):\n    return [names, label, count, deep, flat]\n"
    more = ", args: {names: \"{{ names | length }}\", label: \"for {{ names[0] }}\", count: \"{{ factor * 2 }}\", deep: {x: [\"{{ names }}\"]}, flat: 3}"
    result = await go(tmp_path, CALLS.replace(" MORE", more), fns, names=["a", "b"])
    assert result["out"] == [2, "for a", 4, {"x": [["a", "b"]]}, 3]         # one expression alone keeps its type


@pytest.mark.one_in(4)
@pytest.mark.parametrize("fns", [
    "async def use(names):\n    return names\n",
    "def use(names):\n    return names\n",
    "def use(**everything):\n    return everything['names']\n",
    "class Use:\n    def __call__(self, names):\n        return names\nuse = Use()\n",
    "from functools import partial\ndef join(names, end):\n    return names\nuse = partial(join, end='x')\n",
    "def use(names: tuple[str, ...]) -> tuple[str, ...]:\n    assert isinstance(names, tuple)\n    return names\n",
    "from pydantic import BaseModel\nclass M(BaseModel):\n    n: str\ndef use(names):\n    return [name for name in names]\n",
    "async def later(names):\n    return names\ndef use(names):\n    return later(names)\n",
])
async def test_functions_of_every_kind(tmp_path: Path, fns: str) -> None:
    result = await go(tmp_path, CALLS.replace(" MORE", ""), fns, names=["a", "b"])
    assert result.ok, result.reason
    assert result["out"] == ["a", "b"]


async def test_a_function_that_asks_for_bytes_gets_the_files_as_they_are(tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    (given / "a.bin").write_bytes(b"\xff\x00\xfe")
    (given / "b.txt").write_text("héllo")
    sop = """
        sop: calls
        inputs: {things: {type: folder}}
        artifacts: {made: {files: "made/**"}, out: {schema: any}, seen: {schema: any}}
        steps:
          make: {value: "{'made/x.txt': 'ö' ~ things | length}", needs: [things], makes: made}
          use: {call: "fns:use", needs: [things, made], makes: out}
          see: {call: "fns:see", needs: [things], makes: seen}
        outputs: [out, seen]
    """
    fns = """
        from __future__ import annotations
        from collections.abc import Mapping

        def use(things: dict[str, bytes], made: Mapping[str, bytes]):
            return {path: list(data) for path, data in {**things, **made}.items()}

        def see(things: Mapping[str, str | bytes]):
            return {path: [type(held).__name__, len(held)] for path, held in things.items()}
    """
    result = await go(tmp_path, sop, fns, things=given)
    assert result.ok, result.reason
    assert result["out"] == {"a.bin": [255, 0, 254], "b.txt": list("héllo".encode()), "made/x.txt": list("ö2".encode())}
    assert result["seen"] == {"a.bin": ["bytes", 3], "b.txt": ["str", 5]}
    refused = await go(tmp_path, sop, fns.replace("str | bytes", "str"), things=given)
    assert ("`things.a.bin`: it is a file that is no text (a.bin, application/octet-stream); annotate the parameter `bytes`, `dict[str, bytes]` or "
            "`dict[str, str | bytes]`") in refused.reason


async def test_types_are_honoured_in_and_out(tmp_path: Path) -> None:
    fns = """
        from dataclasses import dataclass
        from datetime import date
        from pydantic import BaseModel

        class Word(BaseModel):
            text: str
            size: int

        @dataclass
        class Page:
            words: list[Word]
            day: date

        def use(names: list[str], factor: int, words: dict[str, str]) -> Page:
            return Page([Word(text=words[name], size=len(name) * factor) for name in names], date(2024, 1, 2))
    """
    result = await go(tmp_path, CALLS.replace(" MORE", ""), fns, names=["a", "bc"])
    assert result["out"] == {"words": [{"text": "aa", "size": 2}, {"text": "bcbc", "size": 4}], "day": "2024-01-02"}


async def test_a_pydantic_schema_checks_and_a_pydantic_parameter_is_made(tmp_path: Path) -> None:
    text = """
        sop: typed
        inputs: {size: integer}
        roles: {clerk: {profile: You file.}}
        artifacts: {fact: {schema: {python: "shapes:Fact"}}, out: {}}
        steps:
          read: {role: clerk, needs: [size], makes: fact}
          tell: {call: "fns:tell", needs: [fact], makes: out}
    """
    shapes = """
        from pydantic import BaseModel, Field
        class Fact(BaseModel):
            name: str
            size: int = Field(gt=3)
    """
    fns = "from shapes import Fact\ndef tell(fact: Fact) -> str:\n    return f'{type(fact).__name__} {fact.name} {fact.size}'\n"
    model = Scripted(read=[{"name": "x", "size": 1}, {"name": "x", "size": 4}])
    path = write(tmp_path, text, fns_py=fns, shapes_py=shapes)
    result = await run(path, size=1, model=model, workspace=None)
    assert result["out"] == "Fact x 4", result.reason
    assert "size" in model.last_said("read@1~0/turn.0/repair.1")


async def test_an_item_is_given_under_its_name_with_its_key_and_what_came_before(tmp_path: Path) -> None:
    text = """
        sop: items
        inputs: {parts: [{id: string, n: integer}]}
        artifacts: {sums: {each: integer}}
        steps:
          add: {call: "fns:add", needs: [parts], foreach: {in: parts, as: part, key: part.id, after: "parts[:1] | map(attribute='id') | list if part.id != parts[0].id else []"}, makes: sums}
    """
    fns = "def add(part, item, key, prior):\n    assert part == item and key == part['id']\n    return part['n'] + sum(prior.values())\n"
    result = await go(tmp_path, text, fns, parts=[{"id": "a", "n": 1}, {"id": "b", "n": 10}, {"id": "c", "n": 100}])
    assert result["sums"] == {"a": 1, "b": 11, "c": 101}, result.reason


async def test_a_function_makes_files(tmp_path: Path) -> None:
    text = """
        sop: files
        inputs: {names: [string]}
        artifacts: {pages: {files: "pages/**"}}
        steps: {write: {call: "fns:f", needs: [names], makes: pages}}
    """
    result = await go(tmp_path, text, "def f(names):\n    return {f'pages/{name}.md': f'# {name}\\n' for name in names}\n", names=["ä", "b"])
    assert tree(tmp_path / "runs" / "files-1") == result["pages"] == {"pages/b.md": "# b\n", "pages/ä.md": "# ä\n"}
    bad = await go(tmp_path, text, "def f(names):\n    return {'../x': 'x', 'lib/y': 'y'}\n", names=["a"])
    assert bad.outcome == "stopped" and "../x" in bad.reason and "lib/y" in bad.reason


async def test_a_function_may_run_another_sop(tmp_path: Path) -> None:
    inner = """
        sop: inner
        inputs: {word: string}
        artifacts: {out: {}}
        steps: {shout: {value: word | upper, needs: [word], makes: out}}
    """
    (tmp_path / "inner").mkdir()
    path = write(tmp_path / "inner", inner)
    fns = f"""
        from metaflow_agents import run, run_sync
        async def use(names):
            return (await run({str(path)!r}, word=names[0], workspace=None))["out"]
    """
    result = await go(tmp_path, CALLS.replace(" MORE", ""), fns, names=["a"])
    assert result["out"] == "A"
    result = await go(tmp_path, CALLS.replace(" MORE", ""), fns.replace("async ", "").replace("(await run(", "(run_sync("), names=["a"])
    assert result["out"] == "A"
    result = await go(tmp_path, CALLS.replace(" MORE", ""), fns.replace("word=", "wrod="), names=["a"])
    assert result.outcome == "stopped" and "did you mean `word`" in result.reason


RUNS = """
    sop: runs
    inputs: {word: string}
    artifacts:
      pages: {files: "pages/**", initial: {pages/a.txt: "one\\n"}}
      other: {files: "other/**", initial: {other/b.txt: "two\\n"}}
      notes: {schema: {n: integer}, file: notes.json}
      done: {}
    steps:
      note: {value: "{'n': 3}", needs: [word], makes: notes}
      look: {run: COMMAND, needs: [READ], makes: done MORE}
    outputs: [done]
"""


async def look(tmp_path: Path, command: str, read: str = "word, pages, notes", more: str = "", **options: Any) -> RunResult:
    text = RUNS.replace("COMMAND", command).replace("READ", read).replace(" MORE", more)
    return await go(tmp_path, text, **{"word": "w", **options})


LIST = "[python, -c, \"import os; print(sorted(os.path.join(d, f) for d, _, fs in os.walk('.') for f in fs))\"]"


@pytest.mark.parametrize(("read", "files"), [
    ("word, pages, notes", "['./notes.json', './pages/a.txt']"), ("word, notes", "['./notes.json']"),
    ("word, pages, other", "['./other/b.txt', './pages/a.txt']"), ("word", "[]"),
])
async def test_a_command_runs_on_exactly_what_its_step_reads(tmp_path: Path, read: str, files: str) -> None:
    result = await look(tmp_path, LIST, read)
    assert result["done"] == {"ok": True, "exit_code": 0, "stdout": files + "\n", "stderr": ""}


async def test_a_command_changes_nothing_of_the_run(tmp_path: Path) -> None:
    result = await look(tmp_path, "[bash, -c, \"echo changed > pages/a.txt; echo new > pages/new.txt; rm notes.json\"]")
    assert result.ok
    assert tree(tmp_path / "runs" / "runs-1") == {"notes.json": "{\n  \"n\": 3\n}\n", "other/b.txt": "two\n", "pages/a.txt": "one\n"}


async def test_a_red_exit_code_is_data(tmp_path: Path) -> None:
    result = await look(tmp_path, "[bash, -c, \"echo out; echo err >&2; exit 3\"]")
    assert result.ok and result["done"] == {"ok": False, "exit_code": 3, "stdout": "out\n", "stderr": "err\n"}


async def test_text_is_split_before_it_is_rendered(tmp_path: Path) -> None:
    result = await look(tmp_path, "\"python -c 'import sys; print(sys.argv[1:])' {{ word }} \\\"{{ notes.n }} x\\\"\"",
                        word="a b; echo $HOME 'q' && rm -rf /")
    assert result["done"]["stdout"] == "[\"a b; echo $HOME 'q' && rm -rf /\", '3 x']\n"


async def test_a_command_that_is_not_there_is_told(tmp_path: Path) -> None:
    result = await look(tmp_path, "no-such-program --help")
    told = result.reason or str(dict(result.outputs))
    assert "no-such-program" in told and "Traceback" not in told


async def test_json_is_read_from_the_file_that_a_command_writes(tmp_path: Path) -> None:
    text = RUNS.replace("done: {}", "done: {schema: {n: integer}}").replace("READ", "word").replace(" MORE", ", parse: json out.json")
    result = await go(tmp_path, text.replace("COMMAND", "[bash, -c, \"echo '{\\\"n\\\": 4}' > out.json; exit 1\"]"), word="w")
    assert result["done"] == {"n": 4}
    for command, told in (("'true'", "the command wrote no out.json"), ("[bash, -c, \"echo nope > out.json\"]", "out.json is not JSON"),
                          ("[bash, -c, \"echo '{}' > out.json\"]", "`n` is missing")):
        result = await go(tmp_path, text.replace("COMMAND", command), word="w")
        assert result.outcome == "stopped" and told in result.reason


@pytest.mark.one_in(4)
async def test_junit_is_parsed_and_pytest_is_told_where_to_write_it(tmp_path: Path) -> None:
    text = """
        sop: suite
        inputs: {word: string}
        artifacts:
          tests: {files: "tests/**", initial: {tests/test_it.py: "def test_fine(): pass\\ndef test_red(): assert 1 == 2\\n"}}
          done: {}
        steps: {test: {run: python -m pytest -q -p no:cacheprovider, parse: junit, needs: [tests, word], makes: done}}
    """
    result = await go(tmp_path, text, word="w")
    done = result["done"]
    assert (done["ok"], done["exit_code"], done["total"], done["passed"], done["failed"]) == (False, 1, 2, 1, 1)
    assert "test_red" in done["failures"][0]["id"] and "assert 1 == 2" in done["failures"][0]["message"]
    assert "stdout" not in done


async def test_an_expression_reshapes_and_what_is_missing_fails_it(tmp_path: Path) -> None:
    text = """
        sop: shapes
        inputs: {rows: [{name: string, n: integer}]}
        artifacts: {top: {schema: {name: string, n: integer}}, names: {schema: [string]}, nothing: {}}
        steps:
          pick: {value: rows | sort(attribute='n') | last, needs: [rows], makes: top}
          name: {value: rows | map(attribute='name') | list, needs: [rows], makes: names}
          miss: {value: "(rows | selectattr('n', 'gt', 100) | first).name", needs: [rows], makes: nothing, on_fail: skip}
        outputs: [top, names]
    """
    result = await go(tmp_path, text, rows=[{"name": "a", "n": 1}, {"name": "b", "n": 5}, {"name": "c", "n": 2}])
    assert result["top"] == {"name": "b", "n": 5} and result["names"] == ["a", "b", "c"]
    (failed,) = events(tmp_path / "runs", "shapes-1", Failed)
    assert "gives nothing" in failed.error


async def test_history_prior_round_and_what_is_missing_in_templates(tmp_path: Path) -> None:
    text = """
        sop: loop
        inputs: {topic: string}
        roles: {poet: {profile: You write.}, judge: {profile: You judge.}}
        artifacts: {poem: {}, verdict: {schema: {fine: boolean}}, hint: {}}
        steps:
          write: {role: poet, needs: [topic], sees: [hint], makes: poem, task: "On {{ topic }}{% if not hint %}, no hint{% endif %}, round {{ round }} of {{ run.name }} on {{ run.inputs.topic }}"}
          judge_it: {role: judge, needs: [poem], makes: verdict, task: "Before: {{ history('poem')[:-1] | join('; ') }}. Now: {{ history('poem') | last }}"}
          better: {role: poet, needs: [verdict], sees: [poem], when: not verdict.fine, rounds: 2, makes: poem, task: "Again, round {{ round }}: {{ poem }}"}
          hint_it: {value: "'h'", needs: [verdict], when: "verdict.fine and false", makes: hint, rounds: 1}
    """
    model = Scripted(write="one", better=["two", "three"], judge_it=[{"fine": False}, {"fine": False}, {"fine": False}])
    result = await go(tmp_path, text, topic="tea", model=model)
    assert "On tea, no hint, round 1 of loop-1 on tea" in model.said("write@1~0/turn.0")
    assert "Before: . Now: one" in model.said("judge_it@1~0/turn.0")
    assert "Before: one; two. Now: three" in model.said("judge_it@3~0/turn.0")
    assert "Again, round 2: two" in model.said("better@2~0/turn.0")
    assert dict(result.never) == {"hint_it": "`when: verdict.fine and false` never held"}


async def test_a_missing_artifact_that_is_printed_fails_the_attempt_with_the_mend(tmp_path: Path) -> None:
    text = """
        sop: missing
        inputs: {topic: string}
        roles: {poet: {profile: You write.}}
        artifacts: {poem: {}, hint: {}}
        steps:
          write: {role: poet, needs: [topic], sees: [hint], makes: poem, task: "Mind {{ hint if topic == 'a' else hint | default('nothing') }}"}
          hint_it: {value: "'h'", needs: [poem], makes: hint, rounds: 1}
    """
    bad = await go(tmp_path, text, topic="a", model=Scripted())
    assert bad.outcome == "stopped" and "what is missing can't be printed" in bad.reason
    assert (await go(tmp_path, text, topic="b", model=Scripted())).ok


async def test_priority_orders_what_is_ready_at_once(tmp_path: Path) -> None:
    text = """
        sop: order
        inputs: {urgent: boolean}
        roles: {clerk: {profile: You file.}}
        artifacts: {a: {}, b: {}, c: {}}
        steps:
          first: {role: clerk, needs: [urgent], makes: a}
          second: {role: clerk, needs: [urgent], makes: b, priority: "9 if urgent else -9"}
          third: {role: clerk, needs: [urgent], makes: c, priority: 1}
    """
    for urgent, order in ((True, ["second", "third", "first"]), (False, ["third", "first", "second"])):
        model = Scripted()
        await go(tmp_path, text, urgent=urgent, model=model)
        assert model.steps == order


async def test_a_narrowed_need_shows_its_part_only(tmp_path: Path) -> None:
    text = """
        sop: narrow
        inputs: {design: {package: string, secret: string, deep: {a: string, b: string}}}
        roles: {clerk: {profile: You file.}}
        artifacts: {out: {}}
        steps: {write: {role: clerk, needs: [design.package, design.deep.a], makes: out}}
    """
    model = Scripted()
    await go(tmp_path, text, design={"package": "app", "secret": "HUSH", "deep": {"a": "yes", "b": "HUSH"}}, model=model)
    said = model.said("write@1~0/turn.0")
    assert '"package": "app"' in said and '"a": "yes"' in said and "HUSH" not in said


async def test_files_of_the_run_are_the_latest_versions_rendered(tmp_path: Path) -> None:
    text = """
        sop: render
        inputs: {names: [string]}
        roles: {clerk: {profile: You file.}}
        artifacts:
          facts: {schema: {names: [string]}, file: docs/facts.md, render: facts.md.j2}
          raw: {schema: {n: integer}, file: raw.json}
          note: {file: note.txt}
          notes: {each: string, file: notes.json}
        steps:
          read: {value: "{'names': names}", needs: [names], makes: facts}
          count: {value: "{'n': names | length}", needs: [names], makes: raw}
          say: {value: "'ünï'", needs: [names], makes: note}
          each_one: {value: name | upper, needs: [names], foreach: {in: names, as: name}, makes: notes}
    """
    path = write(tmp_path, text, facts_md_j2="# {{ run.name }}\n{% for name in facts.names %}- {{ name }}\n{% endfor %}")
    result = await run(path, names=["b", "a"], workspace=tmp_path / "runs")
    assert result.folder is not None
    assert tree(result.folder) == {
        "docs/facts.md": "# render-1\n- b\n- a\n", "raw.json": '{\n  "n": 2\n}\n', "note.txt": "ünï\n",
        "notes.json": '{\n  "b": "B",\n  "a": "A"\n}\n'}


async def test_a_dry_run_executes_no_command(tmp_path: Path) -> None:
    result = await look(tmp_path, "touch " + str(tmp_path / "ran"), sandbox=None, model="dry")
    assert result["done"]["ok"] is True and not (tmp_path / "ran").exists()
    assert (await look(tmp_path, "touch " + str(tmp_path / "ran"))).ok and (tmp_path / "ran").exists()


async def test_in_run_reuse_of_items_and_the_reviser(tmp_path: Path) -> None:
    """The second firing of a fan-out runs what changed; what a reviser bettered meanwhile stays bettered."""
    text = """
        sop: again
        inputs: {topic: string}
        roles: {planner: {profile: You plan.}, smith: {profile: You write.}, judge: {profile: You judge.}}
        artifacts:
          plan: {schema: {package: string, parts: [{path: string, text: string}]}}
          source: {files: "src/**"}
          faults: {schema: [{path: string, why: string}]}
          verdict: {schema: {replan: boolean}}
        steps:
          plan_it: {role: planner, needs: [topic], wants: [verdict], when: not verdict or verdict.replan, rounds: 3, makes: plan}
          write: {role: smith, needs: [plan, plan.package], foreach: {in: plan.parts, as: part, key: part.path}, makes: {source: "{{ part.path }}"}}
          judge_it: {role: judge, needs: [source], makes: faults}
          mend: {role: smith, needs: [faults], sees: [source], foreach: {in: faults, as: fault, key: fault.path}, makes: {source: "{{ fault.path }}"}, rounds: 1}
          decide: {role: judge, needs: [source, faults], makes: verdict, rounds: 3}
        outputs: [source]
    """
    def part(path: str, said: str) -> dict[str, str]:
        return {"path": path, "text": said}

    def smith(request: Any) -> str:
        return f"=== file: {request.patterns[0]} ===\n{request.key}\n=== end ===\n"

    plans = [{"package": "p", "parts": [part("src/a", "1"), part("src/b", "1"), part("src/c", "1")]},
             {"package": "p", "parts": [part("src/a", "1"), part("src/b", "2"), part("src/d", "1")]},
             {"package": "q", "parts": [part("src/a", "1"), part("src/b", "2"), part("src/d", "1")]}]
    model = Scripted(plan_it=plans, write=smith, mend=smith, judge_it=[[{"path": "src/a", "why": "dull"}], []],
                     decide=[{"replan": True}, {"replan": True}, {"replan": False}])
    result = await go(tmp_path, text, topic="t", model=model)
    assert result.ok, result.reason
    written = [key.partition("~")[0] for key in model.keys if key.startswith(("write", "mend"))]
    assert written[:4] == ["write@1[src/a]", "write@1[src/b]", "write@1[src/c]", "mend@1[src/a]"]
    assert written[4:6] == ["write@2[src/b]", "write@2[src/d]"]             # a is unchanged, c is gone
    assert sorted(written[6:]) == ["write@3[src/a]", "write@3[src/b]", "write@3[src/d]"]       # the package is a need of each
    assert set(result["source"]) == {"src/a", "src/b", "src/d"}
    assert set(tree(tmp_path / "runs" / "again-1")) == {"src/a", "src/b", "src/d"}
    second = [event for event in events(tmp_path / "runs", "again-1") if event.kind == "committed" and event.firing == "write@2"]
    assert second[0].reused == ("src/a",)
    assert len(events(tmp_path / "runs", "again-1", Finished)) == len(model.keys)
