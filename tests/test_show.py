"""`show`: how the prompts of a step show what it reads. What they don't show is in none of its messages."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from bytes_files import lay, png
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import Scripted, block, write
from tiers import examples

from metaflow_agents import run
from metaflow_agents.cli import command

SOP = """
    sop: desk
    inputs:
      handbook: folder
      cast: {type: {ann: string, bob: string}, default: {ann: likes tea, bob: likes rum}}
    roles: {ann: {profile: You plan.}, bob: {profile: You write.}}
    artifacts:
      plan: {schema: {title: string, parts: [{name: string, length: integer}]}, file: plan.md, render: plan.md.j2}
      chapters: {each: {text: string}}
      source: {files: ["src/**"]}
      text: {}
    steps:
      think: {role: ann, makes: plan}
      draft: {role: ann, needs: [plan], foreach: {in: plan.parts, as: part, key: part.name}, makes: chapters}
      code: {role: ann, needs: [plan], makes: source}
      write: {role: bob, needs: [handbook, cast, plan, chapters, source], makes: text, task: "TASK", show: SHOW}
"""
PLAN = {"title": "Tea", "parts": [{"name": "one", "length": 3}, {"name": "two", "length": 5}]}
MADE = {"think": PLAN, "draft": lambda request: {"text": f"about {request.key[8:11]}"}, "write": "text",
        "code": block("src/a.py", "a = 'code of a'") + block("src/sub/b.py", "b = 'code of b'")}
BOOK = {"rules.md": b"Be kind.", "more/tone.md": b"Be short."}
MARK = {"handbook": "Be kind", "cast": "likes tea", "plan": "* one", "chapters": "about one", "source": "code of a"}


TEMPLATE = "# {{ plan.title }}\n{% for part in plan.parts %}* {{ part.name }}\n{% endfor %}"


async def written(folder: Path, show: str, task: str = "Write.", template: str = TEMPLATE, **options: Any) -> str:
    """What the step `write` is sent, as one text."""
    lay(folder / "book", BOOK)
    model = Scripted(MADE)
    sop = write(folder, SOP.replace("SHOW", show).replace("TASK", task))
    (folder / "plan.md.j2").write_text(template)
    result = await run(sop, handbook=folder / "book", model=model, **{"workspace": None, **options})
    assert result.ok, result.reason
    return "\n".join(str(message["content"]) for request in model.requests if request.step == "write"
                     for message in request.messages)


@pytest.mark.parametrize("name", MARK)
@pytest.mark.parametrize("how", ["none", "names"])
async def test_of_what_is_not_shown_whole_nothing_stands_there(tmp_path: Path, name: str, how: str) -> None:
    whole = await written(tmp_path, "{}")
    assert [other for other, mark in MARK.items() if mark not in whole] == []
    said = await written(tmp_path, f"{{{name}: {how}}}")
    assert [other for other, mark in MARK.items() if mark not in said] == [name]
    assert (f'<artifact name="{name}"' in said) is (how == "names")


@pytest.mark.parametrize(("name", "lines"), [
    ("handbook", ["- more/tone.md (9 bytes)", "- rules.md (8 bytes)"]), ("cast", ["- ann", "- bob"]),
    ("plan", ["- parts", "- title"]), ("chapters", ["- one", "- two"]),
    ("source", ["- src/a.py (16 bytes)", "- src/sub/b.py (16 bytes)"])])
async def test_names_are_those_of_files_fields_and_keys(tmp_path: Path, name: str, lines: list[str]) -> None:
    said = await written(tmp_path, f"{{{name}: names}}")
    shown = said.partition(f'<artifact name="{name}"')[2].partition("</artifact>")[0]
    assert sorted(line for line in shown.splitlines() if line.startswith("- ")) == lines and 'shown="names"' in shown


@pytest.mark.parametrize(("show", "there", "gone"), [
    ("handbook: [rules.md]", "Be kind.", "Be short."), ("handbook: ['more/**']", "Be short.", "Be kind."),
    ("cast: [bob]", "likes rum", "likes tea"), ("plan: [title]", '"title": "Tea"', '"length"'),
    ("chapters: [two]", "about two", "about one"), ("source: ['src/*.py']", "code of a", "code of b"),
    ("cast: ['{{ plan.parts[1].name | replace(\"two\", \"ann\") }}']", "likes tea", "likes rum"),
    ("plan: rendered", "# Tea\n* one\n* two", '"length"'),
])
async def test_chosen_parts(tmp_path: Path, show: str, there: str, gone: str) -> None:
    said = await written(tmp_path, f"{{{show}}}")
    assert there in said and gone not in said


async def test_a_part_that_a_value_has_not_is_named(tmp_path: Path) -> None:
    said = await written(tmp_path, "{chapters: [two, '{{ cast.ann }}'], source: [src/x.md]}")
    assert "Not there: likes tea" in said and "about two" in said
    assert 'name="source" kind="files" shown="src/x.md">\n(no files)' in said


async def test_of_a_list_of_objects_each_is_cut_to_the_fields(tmp_path: Path) -> None:
    sop = write(tmp_path, """
        sop: rows
        inputs: {rows: {type: [{id: integer, secret: string}], default: [{id: 1, secret: a1}, {id: 2, secret: b2}]}}
        roles: {bob: {profile: You write.}}
        artifacts: {text: {}}
        steps: {write: {role: bob, needs: [rows], makes: text, show: {rows: [id]}}}
    """)
    model = Scripted()
    assert (await run(sop, model=model, workspace=None)).ok
    said = model.requests[0].messages[-1]["content"]
    assert '"id": 1' in said and '"id": 2' in said and "secret" not in said


@pytest.mark.parametrize(("show", "named"), [
    ("{parts: [\"{{ number }}\"]}", {"1": "", "0": "0"}), ("{}", {"1": "0, 00", "0": "0, 00"})])
async def test_of_items_that_failed_those_are_named_that_show_asks_for(tmp_path: Path, show: str, named: dict[str, str]) -> None:
    sop = write(tmp_path, """
        sop: parts
        inputs: {numbers: {type: [string], default: ["1", "0", "00"]}}
        roles: {bob: {profile: You write.}}
        artifacts: {parts: {each: number}, texts: {each: string}}
        steps:
          divide: {value: 1 / (number | int), needs: [numbers], foreach: {in: numbers, as: number}, makes: parts, on_fail: skip}
          write: {role: bob, needs: [parts, numbers], foreach: {in: "['1', '0']", as: number}, makes: texts, show: SHOW}
    """.replace("SHOW", show))
    model = Scripted({"write": "text"})
    assert (await run(sop, model=model, workspace=None)).ok
    told = {request.key.partition("[")[2][0]: str(request.messages[-1]["content"]) for request in model.requests}
    said = "Missing, because their work failed: "
    assert {key: text.partition(said)[2].partition("\n")[0] for key, text in told.items()} == named


async def test_what_the_task_names_stands_there_too_where_show_says_whole(tmp_path: Path) -> None:
    task = "{{ cast.ann }} of {{ cast }}"
    assert '<artifact name="cast"' not in await written(tmp_path, "{}", task)
    assert '<artifact name="cast"' in await written(tmp_path, "{cast: whole}", task)


@pytest.mark.parametrize(("template", "show", "rendered"), [
    ("# {{ plan.title }}", "{}", True), ("# {{ plan.title }}", "{plan: whole}", False),
    ("{{ plan | tojson(indent=2) }}", "{}", False), ("{{ 'long ' * 99 }}", "{}", False),
    ("{{ 'long ' * 99 }}", "{plan: rendered}", True),
])
async def test_what_has_a_template_is_shown_by_it_where_that_is_shorter(tmp_path: Path, template: str, show: str,
                                                                        rendered: bool) -> None:
    said = await written(tmp_path, show, template=template)
    assert ('<artifact name="plan" kind="text" shown="rendered">' in said) is rendered
    assert ('"length": 3' in said.partition("</artifact>\n\n<artifact name=\"chapters\"")[0]) is not rendered


async def test_another_template_makes_anew_what_was_shown_by_it(tmp_path: Path) -> None:
    """The one of an artifact that is shown whole does not."""
    for number, (show, again) in enumerate({"{}": True, "{plan: whole}": False, "{plan: none}": False}.items()):
        await written(tmp_path, show, name=f"first{number}", template="# {{ plan.title }}", workspace=tmp_path / "w")
        said = await written(tmp_path, show, template="## {{ plan.title }}", from_run=f"first{number}", workspace=tmp_path / "w")
        assert bool(said) is again, show


TOWN = """
    sop: town
    inputs: {secrets: {type: {properties: {}, additionalProperties: {type: string}}, default: SECRETS}}
    roles: {villager: {profile: You live here.}, judge: {profile: You judge.}}
    artifacts: {names: {schema: [string]}, says: {each: string}}
    steps:
      list_them: {value: "secrets | list", needs: [secrets], makes: names}
      live: {role: villager, self: "villager of {{ name }}", needs: [names, secrets], foreach: {in: names, as: name}, makes: says,
             show: {secrets: ["{{ name }}"], names: none}, MORE}
"""


@pytest.mark.parametrize("more", [
    "task: What do you say?", "review: {role: judge, verdict: {good: boolean}, accept: verdict.good}",
    "strategy: {self_consistency: {samples: 2}}",
    "strategy: {debate: {roles: [villager, judge], rounds: 1}}", "strategy: chain_of_thought",
    "strategy: {react: {max_steps: 2}}, tools: [read]", "retries: 1"])
@given(secrets=st.dictionaries(st.sampled_from(["Ann", "Bob", "Cy", "Dee"]), st.integers(10**9, 10**10), min_size=2).map(
    lambda drawn: {name: f"secret {number}{name}" for name, number in drawn.items()}))
@settings(max_examples=examples(50), deadline=None)
def test_each_item_is_shown_its_own_and_nobody_else_s(tmp_path_factory: pytest.TempPathFactory, more: str,
                                                      secrets: dict[str, str]) -> None:
    folder = tmp_path_factory.mktemp("town")
    sop = write(folder, TOWN.replace("MORE", more).replace("SECRETS", json.dumps(secrets)))
    seen: dict[str, str] = {}

    def answer(request: Any) -> Any:
        name = request.key.partition("[")[2].partition("]")[0]
        seen[name] = seen.get(name, "") + "".join(str(message["content"]) for message in request.messages)
        schema = request.schema or {}
        return {"good": True} if "good" in schema.get("properties", {}) else "tea"

    result = asyncio.run(run(sop, model=answer, workspace=None))
    assert result.ok, result.reason
    assert set(seen) == set(secrets)
    for name, said in seen.items():
        assert [other for other, secret in secrets.items() if secret in said] == [name]


async def test_a_changed_show_is_asked_anew_and_so_is_a_changed_template(tmp_path: Path) -> None:
    lay(tmp_path / "book", BOOK)
    again: dict[str, list[str]] = {}
    for name, how, sign in (("one", "rendered", "#"), ("two", "rendered", "#"), ("three", "rendered", "##"),
                            ("four", "none", "#"), ("five", "none", "##")):
        sop = write(tmp_path, SOP.replace("SHOW", f"{{plan: {how}}}").replace("TASK", "Write."))
        (tmp_path / "plan.md.j2").write_text(f"{sign} {{{{ plan.title }}}}")
        model = Scripted(MADE)
        before = {} if name == "one" else {"from_run": "four" if name == "five" else "one"}
        result = await run(sop, handbook=tmp_path / "book", model=model, workspace=tmp_path / "w", name=name, **before)
        assert result.ok, result.reason
        again[name] = [step for step in model.steps if step == "write"]
    assert again == {"one": ["write"], "two": [], "three": ["write"], "four": ["write"], "five": []}


async def test_a_value_without_parts_is_a_failed_attempt_that_says_so(tmp_path: Path) -> None:
    sop = write(tmp_path, """
        sop: open
        inputs: {thing: {type: any, default: 4}}
        roles: {bob: {profile: You write.}}
        artifacts: {text: {}}
        steps: {write: {role: bob, needs: [thing], makes: text, show: {thing: [id]}}}
    """)
    result = await run(sop, model=Scripted(), workspace=None)
    assert not result.ok and "`show` asks for parts of `thing`" in result.reason and "`none` or `names`" in result.reason


async def test_of_a_folder_that_was_not_given_no_files_are_shown(tmp_path: Path) -> None:
    """Its patterns fail nothing: an input that is optional is `null` then."""
    sop = write(tmp_path, """
        sop: open
        inputs: {things: {type: folder, optional: true}}
        models: {default: {name: eyes, endpoint: "http://127.0.0.1:9", accepts: [text, image]}}
        roles: {bob: {profile: You write., accepts: [text, image]}}
        artifacts: {text: {}}
        steps: {write: {role: bob, sees: [things], makes: text, show: {things: ['**/*.md']}, task: Write.}}
    """)
    lay(tmp_path / "given", {"a.md": b"some notes"})
    for inputs, seen in (({}, False), ({"things": tmp_path / "given"}, True)):
        model = Scripted(write="It is written.")
        assert (await run(sop, model=model, workspace=None, inputs=inputs)).ok
        asked = str(model.requests[0].messages)
        assert ("some notes" in asked) is seen and ('name="things"' in asked) is seen


@pytest.mark.parametrize("show", ["['notes/*']", "whole"])
async def test_of_what_was_not_made_no_parts_are_shown(tmp_path: Path, show: str) -> None:
    """Of parts nothing is told; of the whole, that no step has made it."""
    sop = write(tmp_path, f"""
        sop: open
        inputs: {{more: {{type: boolean, default: false}}}}
        roles: {{bob: {{profile: You write.}}}}
        artifacts: {{notes: {{files: "notes/**"}}, text: {{}}}}
        steps:
          note: {{value: "{{'notes/a.md': 'some notes'}}", needs: [more], when: more, makes: notes}}
          write: {{role: bob, needs: [more], sees: [notes], makes: text, show: {{notes: {show}}}, task: Write.}}
    """)
    for more in (False, True):
        model = Scripted(write="It is written.")
        assert (await run(sop, model=model, workspace=None, inputs={"more": more})).ok
        asked = str(model.requests[0].messages)
        assert ("some notes" in asked) is more and ('name="notes"' in asked) is (more or show == "whole")


@pytest.mark.parametrize(("show", "sent"), [("{}", 2), ("{things: none}", 0), ("{things: names}", 0), ("{things: ['a/*']}", 1)])
async def test_pictures_go_with_what_is_shown(tmp_path: Path, show: str, sent: int) -> None:
    lay(tmp_path / "given", {"a/x.png": png(30, 20, 6, 5), "b/y.png": png(20, 20, 6, 5)})
    sop = write(tmp_path, """
        sop: desk
        inputs: {things: folder}
        models: {default: {name: eyes, endpoint: "http://127.0.0.1:9", accepts: [text, image]}}
        roles: {clerk: {profile: You look., accepts: [text, image]}}
        artifacts: {out: {}}
        steps: {look: {role: clerk, needs: [things], makes: out, show: SHOW}}
    """.replace("SHOW", show))
    model = Scripted()
    assert (await run(sop, things=tmp_path / "given", model=model, workspace=None)).ok
    assert len(model.requests[0].images) == sent


def test_sop_prompt_tells_what_each_part_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                               capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    lay(tmp_path / "book", {"long.md": b"word " * 8000})
    text = SOP.replace("SHOW", "{plan: none, chapters: names}").replace("TASK", "From {{ cast }}.")
    write(tmp_path, text.replace("bob: {profile: You write.}", "bob: {profile: You write., tools: [read, edit]}"))
    (tmp_path / "plan.md.j2").write_text("# {{ plan.title }}")
    assert command(["preview", "desk.yaml", "write", "--handbook", "book", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    parts = {part["artifact"] or part["name"]: (part["how"], part["tokens"]) for part in told["parts"]}
    assert {name: how for name, (how, _) in parts.items() if how} == {
        "handbook": "whole", "cast": "task", "plan": "none", "chapters": "names", "source": "whole"}
    assert parts["plan"] == ("none", 0) and parts["cast"] == ("task", 0)
    assert parts["handbook"][1] >= 10_000 > parts["chapters"][1] > 0
    sent = sum(len(str(message["content"]).encode()) for message in told["messages"])
    counted = sum(tokens for name, (_, tokens) in parts.items() if name not in ("tools", "schema"))
    assert abs(counted - sent / 4) <= len(parts) + 60, "all that is sent, but for the rounding and the heading of the material"
    assert command(["preview", "desk.yaml", "write", "--handbook", "book"]) == 0
    out = capsys.readouterr().out
    assert "plan: not shown\n" in out and "cast: as far as the task prints it\n" in out and "in all" in out
    assert "`handbook` is large, and the role has `read`: `show: {handbook: names}`" in out


ITEM = """
    sop: desk
    roles: {bob: {profile: You write.}}
    artifacts: {plan: {schema: [{name: string, about: string, plot: any}]}, told: {each: {}}}
    steps:
      think: {value: "[{'name': 'one', 'about': 'tea', 'plot': {'hero': 'Ann'}}]", makes: plan}
      write: {role: bob, needs: [plan], foreach: {in: plan, as: part, key: part.name}, makes: told, task: Write., show: SHOW}
"""


@pytest.mark.parametrize(("how", "shown", "hidden"), [
    ("whole", ["tea", "Ann", '<item name="part">'], []), ("none", ["`one`"], ["tea", "Ann", "<item"]),
    ("names", ['<item name="part" shown="names">', "about", "plot"], ["tea", "Ann"]),
    ("[about]", ['<item name="part" shown="about">', "tea"], ["Ann"]),
    ("['{{ part.plot.hero }}', plot]", ["Ann", "Not there: Ann"], ["tea"])])
async def test_an_item_is_shown_as_said(tmp_path: Path, how: str, shown: list[str], hidden: list[str]) -> None:
    model = Scripted()
    result = await run(write(tmp_path, ITEM.replace("SHOW", f"{{plan: none, part: {how}}}")), model=model, workspace=None)
    assert result.ok, result.reason
    (request,) = model.requests
    sent = "\n".join(str(message["content"]) for message in request.messages)
    assert all(word in sent for word in shown) and not any(word in sent for word in hidden), sent


@pytest.mark.parametrize(("show", "told"), [
    ("{part: [abut]}", "`part` has no field `abut`"), ("{part: rendered}", "`part` has no `render` template"),
    ("{item: none}", "does not read it"), ("{pat: none}", "did you mean `part`?")])
def test_what_an_item_can_t_show_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], show: str, told: str) -> None:
    assert command(["check", str(write(tmp_path, ITEM.replace("SHOW", show)))]) == 2
    assert told in (out := "".join(capsys.readouterr())), out
