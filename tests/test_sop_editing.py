"""Edits of a SOP's text: it reads as what was meant, every other line keeps its bytes, what can't follow is told."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from tiers import ALL, chance, examples, some

from metaflow_agents.errors import UsageError
from metaflow_agents.runtime.checking import check
from metaflow_agents.schema.scalars import Expression, Template
from metaflow_agents.schema.step import READS, Step
from metaflow_agents.sop.editing.changes import Edited, change_of, edit
from metaflow_agents.sop.editing.draft import Draft
from metaflow_agents.sop.editing.line_endings import in_its_form, in_lines
from metaflow_agents.sop.editing.renaming import rename
from metaflow_agents.sop.editing.texts import texts_of
from metaflow_agents.sop.editing.written import in_block, in_flow, is_plain
from metaflow_agents.sop.library import shipped_folder
from metaflow_agents.sop.load import read_sop
from metaflow_agents.sop.reading import read_yaml

GOOD = Path(__file__).parent / "sops" / "good"
NEW = "zz_new"


def _is_sop(path: Path) -> bool:
    data = read_yaml(path.read_bytes(), path.name).data
    return isinstance(data, dict) and isinstance(data.get("steps"), dict)


SOPS = [path for folder in (shipped_folder("sops"), GOOD) for path in sorted(folder.glob("*.yaml")) if _is_sop(path)]
SAMPLE = some(SOPS, 8)


def text_of(path: Path) -> str:
    return path.read_bytes().decode()


def data_of(text: str) -> dict[str, Any]:
    read = read_yaml(text.encode(), "")
    assert not read.problems
    found: dict[str, Any] = read.data
    return found


def done(text: str, **change: Any) -> Edited:
    return edit(text, change_of(change), "the file")


def names(data: dict[str, Any], what: str) -> list[str]:
    return list(data["steps"]) if what == "step" else [*data.get("artifacts", {}), *data.get("inputs", {})]


def few(path: Path, whole: list[str], most: int = 2) -> list[str]:
    """Some of a file's names, others with each seed; all of them in the full tier."""
    return whole if ALL else chance(path.name).sample(whole, min(most, len(whole)))


@pytest.mark.parametrize("path", SAMPLE, ids=lambda path: path.stem)
@pytest.mark.parametrize("what", ["step", "data"])
def test_a_rename_changes_the_name_alone_and_back_gives_the_bytes(path: Path, what: Any) -> None:
    text = text_of(path)
    for name in few(path, names(data_of(text), what), 6):
        draft = Draft(text, path.name)
        rename(draft, what, name, NEW)
        assert draft.text != text
        assert draft.text.replace(NEW, name) == text, "something else than the name was changed"
        rename(draft, what, NEW, name)
        assert draft.text == text


@pytest.mark.parametrize("path", SAMPLE, ids=lambda path: path.stem)
def test_after_a_rename_the_sop_is_right_but_for_what_is_told(path: Path) -> None:
    """The whole of `sop check` is the oracle: what does not follow is a name that means nothing, and has to be told."""
    text = text_of(path)
    before = check(path)
    for what in ("step", "data"):
        for name in few(path, names(data_of(text), what), 1):
            loaded = read_sop(path).loaded
            kind = "rename_step" if what == "step" else "rename_artifact"
            found = edit(text, change_of({"do": kind, "name": name, "to": NEW}), before.file, loaded)
            after = check(read_sop(path, text=found.text.encode()))
            told = {(one.file, one.line) for one in found.left}
            known = [(one.code, one.line) for one in before.problems]
            fresh = [one for one in after.problems if (one.code, one.line) not in known]
            for one in fresh:
                assert one.file != before.file or (one.file, one.line) in told or _elsewhere(one.message, found), (name, str(one))


def _elsewhere(message: str, found: Edited) -> bool:
    """What is told at the place where it stands, and by the check where that is named: a parameter, a template's line."""
    included = re.match(r"in `(\S+)`, (\d+):", message)
    return any(one.why.split("`")[1] in message for one in found.left if "as a parameter" in one.why) or (
        included is not None and any(one.file.endswith(included[1]) and one.line == int(included[2]) for one in found.left))


def _entries(step: dict[str, Any], kind: str) -> list[str]:
    written = step.get(kind, [])
    return [written] if isinstance(written, str) else list(written)


def _connected(data: dict[str, Any], step: str, artifact: str, kind: str) -> dict[str, Any]:
    """What the data is to become, worked out apart from the program."""
    shared = data.get("defaults", {}).get("steps", {})
    old = data["steps"][step]
    new: dict[str, Any] = {}
    for key, value in old.items():
        if key in READS and key != kind:
            rest = [entry for entry in _entries(old, key) if entry.split(".")[0] != artifact]
            if rest == _entries(old, key):
                new[key] = value
            elif rest or key in shared:
                new[key] = rest
        else:
            new[key] = value
    new[kind] = [*(_entries(old, kind) or _entries(shared, kind) if kind not in old else _entries(old, kind)), artifact]
    return {**data, "steps": {**data["steps"], step: new}}


def _untouched(before: str, after: str, first: int, last: int) -> None:
    """All lines before and behind those of a step are there as they were; of two empty lines one may be gone."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    assert new[:first] == old[:first]
    behind = old[last:]
    if behind and not behind[0].strip() and new[-len(behind):] != behind:
        behind = behind[1:]
    assert not behind or new[-len(behind):] == behind


def _lines(text: str, step: str) -> tuple[int, int]:
    """The number of the step's first line, from 0, and of the one behind its last."""
    document = Draft(text, "").document
    key, node = document.key_node("steps", step), document.node("steps", step)
    assert key is not None and node is not None
    return key.line - 1, text[:node.end].rstrip().count("\n") + 1


@pytest.mark.parametrize("path", SAMPLE, ids=lambda path: path.stem)
def test_connecting_reads_as_meant(path: Path) -> None:
    text = text_of(path)
    data = data_of(text)
    random = chance(path.name)
    for step in few(path, list(data["steps"])):
        for artifact in few(path, names(data, "data")):
            kind = random.choice(READS)
            shared = _entries(data.get("defaults", {}).get("steps", {}), kind)
            if artifact in (_entries(data["steps"][step], kind) or shared):
                with pytest.raises(UsageError, match="already"):
                    done(text, do="connect", step=step, artifact=artifact, kind=kind)
                continue
            found = done(text, do="connect", step=step, artifact=artifact, kind=kind)
            assert data_of(found.text) == _connected(data, step, artifact, kind)
            _untouched(text, found.text, *_lines(text, step))


@pytest.mark.parametrize("path", SAMPLE, ids=lambda path: path.stem)
def test_disconnecting_what_was_connected_gives_the_text_back(path: Path) -> None:
    text = text_of(path)
    data = data_of(text)
    for step in few(path, list(data["steps"])):
        for artifact in few(path, names(data, "data")):
            if any(entry.split(".")[0] == artifact for kind in READS for entry in _entries(data["steps"][step], kind)):
                _disconnected(text, data, step, artifact)
            elif not any(data.get("defaults", {}).get("steps", {}).get(kind) for kind in READS):
                found = done(text, do="connect", step=step, artifact=artifact, kind="sees")
                back = done(found.text, do="disconnect", step=step, artifact=artifact, kind="sees").text
                scalar = isinstance(data["steps"][step].get("sees"), str)
                shown = artifact in data["steps"][step].get("show", {})
                assert back == text or scalar or shown, (step, artifact)


def _disconnected(text: str, data: dict[str, Any], step: str, artifact: str) -> None:
    try:
        found = done(text, do="disconnect", step=step, artifact=artifact)
    except UsageError as error:
        assert "alias" in str(error)
        return
    after = data_of(found.text)
    assert not any(entry.split(".")[0] == artifact for kind in READS for entry in _entries(after["steps"][step], kind))
    rest = {key: value for key, value in after["steps"][step].items() if key not in (*READS, "show")}
    assert rest == {key: value for key, value in data["steps"][step].items() if key not in (*READS, "show")}
    assert {**after, "steps": 0} == {**data, "steps": 0}
    _untouched(text, found.text, *_lines(text, step))


@pytest.mark.parametrize("path", SAMPLE, ids=lambda path: path.stem)
def test_steps_are_added_and_taken_out(path: Path) -> None:
    text = text_of(path)
    data = data_of(text)
    step = few(path, list(data["steps"]), 1)[0]
    added = done(text, do="add_step", name="zz_step", who="zz_role", makes="zz_made", needs=names(data, "data")[:1], after=step,
                 task="Write about it:\n\n# A heading\n{{ zz_made }}\n")
    after = data_of(added.text)
    assert list(after["steps"]) == [name for one in data["steps"] for name in ((one, "zz_step") if one == step else (one,))]
    assert after["steps"]["zz_step"] == {"role": "zz_role", "needs": names(data, "data")[:1], "makes": "zz_made",
                                         "task": "Write about it:\n\n# A heading\n{{ zz_made }}\n"}
    assert after["artifacts"]["zz_made"] == {} and after["roles"]["zz_role"] == {}
    assert {name: one for name, one in after["steps"].items() if name != "zz_step"} == data["steps"]
    gone = [line for tag, begin, end, *_ in SequenceMatcher(None, text.splitlines(), added.text.splitlines(), autojunk=False)
            .get_opcodes() if tag in ("delete", "replace") for line in text.splitlines()[begin:end]]
    assert all(line.startswith(("steps:", "artifacts:", "roles:")) for line in gone), "lines are added; a list in one line grows"
    removed = done(added.text, do="remove_step", name="zz_step")
    assert data_of(removed.text)["steps"] == data["steps"]
    if len(data["steps"]) > 1:
        try:
            gone = done(text, do="remove_step", name=step)
        except UsageError as error:
            assert "alias" in str(error)
            return
        assert data_of(gone.text) == {**data, "steps": {name: one for name, one in data["steps"].items() if name != step}}
        _untouched(text, gone.text, *_lines(text, step))


@pytest.mark.parametrize("path", SAMPLE, ids=lambda path: path.stem)
def test_roles_and_models_are_set(path: Path) -> None:
    text = text_of(path)
    data = data_of(text)
    with_roles = [name for name, one in data["steps"].items() if isinstance(one.get("role"), str)]
    for step in few(path, with_roles):
        found = done(text, do="set_role", step=step, role="zz_role")
        after = data_of(found.text)
        assert after["steps"] == {**data["steps"], step: {**data["steps"][step], "role": "zz_role"}}
        assert after["roles"] == {**data.get("roles", {}), "zz_role": {}}
    for role in few(path, list(data.get("roles", {}))):
        for model in ("openai:small", 'a, "b"', "python:models.py:answer"):
            found = done(text, do="set_model", role=role, model=model)
            assert data_of(found.text) == {**data, "roles": {**data["roles"], role: {**data["roles"][role], "model": model}}}
            if "model" not in data["roles"][role] and data["roles"][role]:
                assert done(found.text, do="set_model", role=role, model=None).text == text


# --- layouts that no SOP here has ------------------------------------------------------------------------------------------

PLAIN: dict[str, Any] = {
    "sop": "x", "inputs": {"topic": "string"}, "artifacts": {"draft": {}, "review": {"schema": {"ok": "boolean"}}},
         "roles": {"writer": {"profile": "writes"}},
         "steps": {"write": {"role": "writer", "needs": ["topic"], "sees": ["review"], "makes": "draft",
                             "task": "Write {{ topic }}."},
                   "judge": {"value": "{'ok': draft | length > 3}", "needs": ["draft"], "makes": "review",
                             "when": "draft is defined"}},
         "outputs": ["draft", "review"], "success": "review.ok and history('draft') | length > 0"}


class Writer:
    """Writes data as YAML in a layout by chance: blocks, flows, quotes, comments, blank lines, indentations, line breaks."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.step = draw(st.sampled_from([1, 2, 4]))
        self.end = draw(st.sampled_from(["\n", "\r\n"]))

    def chance(self) -> bool:
        return bool(self.draw(st.booleans()))

    def text(self, data: dict[str, Any]) -> str:
        lines = "".join(self.block(data, 0))
        return lines.removesuffix(self.end) if self.chance() else lines

    def scalar(self, value: str) -> str:
        way = self.draw(st.sampled_from(["plain", "single", "double"]))
        if way == "single":
            return "'" + value.replace("'", "''") + "'"
        return in_flow(value) if way == "plain" else json.dumps(value)

    def flow(self, value: Any, depth: int) -> str:
        space = self.draw(st.sampled_from(["", " ", f"{self.end}{' ' * depth}"]))
        comma = "," if self.chance() else ""
        if isinstance(value, dict) and value:
            return "{" + space + ", ".join(f"{key}: {self.flow(one, depth)}" for key, one in value.items()) + comma + space + "}"
        if isinstance(value, list) and value:
            return "[" + space + f",{space or ' '}".join(self.flow(one, depth) for one in value) + comma + space + "]"
        return self.scalar(value) if isinstance(value, str) else in_flow(value)

    def block(self, data: dict[str, Any], indent: int) -> Iterator[str]:
        lead = " " * indent
        for key, value in data.items():
            if self.chance():
                yield f"{lead}# about {key}{self.end}"
            if self.chance():
                yield self.end
            comment = "  # said here" if self.chance() else ""
            if isinstance(value, dict) and value and self.chance():
                yield f"{lead}{key}:{comment}{self.end}"
                yield from self.block(value, indent + self.step)
            elif isinstance(value, list) and value and self.chance():
                yield f"{lead}{key}:{self.end}"
                inner = " " * (indent + self.draw(st.sampled_from([0, self.step])))
                for one in value:
                    yield f"{inner}- {self.scalar(one)}{comment}{self.end}"
            else:
                written = self.flow(value, indent + self.step) if isinstance(value, dict | list) else self.scalar(value)
                yield f"{lead}{key}: {written}{comment}{self.end}"


@st.composite
def layouts(draw: Any) -> str:
    return Writer(draw).text(PLAIN)


CHANGES: list[dict[str, Any]] = [
    {"do": "connect", "step": "judge", "artifact": "topic", "kind": "wants"},
    {"do": "connect", "step": "write", "artifact": "draft", "kind": "sees"},
    {"do": "connect", "step": "write", "artifact": "review", "kind": "needs"},
    {"do": "disconnect", "step": "write", "artifact": "review"}, {"do": "disconnect", "step": "judge", "artifact": "draft"},
    {"do": "remove_step", "name": "judge"}, {"do": "remove_step", "name": "write"},
    {"do": "set_role", "step": "write", "role": "editor"}, {"do": "set_model", "role": "writer", "model": "dry"},
    {"do": "add_step", "name": "end", "doer": "value", "who": "draft ~ ': it'", "makes": "last", "needs": ["draft"]}]


def _meant(change: dict[str, Any]) -> dict[str, Any]:
    """What `PLAIN` is to become."""
    data: dict[str, Any] = {**PLAIN, "steps": {name: dict(one) for name, one in PLAIN["steps"].items()}}
    steps = data["steps"]
    match change["do"]:
        case "connect":
            return _connected(data, change["step"], change["artifact"], change["kind"])
        case "disconnect":
            steps[change["step"]] = {key: one for key, one in steps[change["step"]].items() if one != [change["artifact"]]}
        case "remove_step":
            del steps[change["name"]]
        case "set_role":
            steps["write"]["role"] = "editor"
            data["roles"] = {**data["roles"], "editor": {}}
        case "set_model":
            data["roles"] = {"writer": {"profile": "writes", "model": "dry"}}
        case "add_step":
            data["artifacts"] = {**data["artifacts"], "last": {}}
            steps["end"] = {"value": "draft ~ ': it'", "needs": ["draft"], "makes": "last"}
    return data


@pytest.mark.one_in(4)
@settings(max_examples=examples(600), deadline=None)
@given(layouts(), st.sampled_from(CHANGES))
def test_any_layout_reads_as_meant_or_is_refused(text: str, change: dict[str, Any]) -> None:
    assert data_of(text) == PLAIN, text
    comments = re.findall(r"# about \w+|# said here", text)
    try:
        found = done(text, **change)
    except UsageError as error:
        assert "change it in the text" in str(error)
        return
    assert data_of(found.text) == _meant(change)
    if change in CHANGES[:2] or change["do"] in ("set_role", "set_model", "add_step"):
        assert re.findall(r"# about \w+|# said here", found.text) == comments
    assert ("\r\n" in text) == ("\r\n" in found.text)
    assert "\r\n" not in text or not re.search(r"(?<!\r)\n", found.text)


@pytest.mark.one_in(4)
@settings(max_examples=examples(400), deadline=None)
@given(layouts(), st.sampled_from(["topic", "draft", "review", "write", "judge"]))
def test_in_any_layout_a_rename_there_and_back_gives_the_bytes(text: str, name: str) -> None:
    kind = "rename_step" if name in PLAIN["steps"] else "rename_artifact"
    there = done(text, do=kind, name=name, to=NEW).text
    assert there.replace(NEW, name) == text and there != text
    assert done(there, do=kind, name=NEW, to=name).text == text


@pytest.mark.parametrize("text, change, after", [
    ("needs: [a]  # why", {"do": "connect", "artifact": "b"}, "needs: [a, b]  # why"),
    ("needs: []", {"do": "connect", "artifact": "b"}, "needs: [b]"),
    ("needs:  [ a , c ]", {"do": "connect", "artifact": "b"}, "needs:  [ a , c, b ]"),
    ("needs: a        # one", {"do": "connect", "artifact": "b"}, "needs: [a, b]        # one"),
    ("needs: 'a'", {"do": "connect", "artifact": "b"}, "needs: ['a', b]"),
    ("needs:\n    - a  # the first\n    # and\n    - c", {"do": "connect", "artifact": "b"},
     "needs:\n    - a  # the first\n    # and\n    - c\n    - b"),
    ("needs: [a,  # the first\n      c,  # the last\n      ]", {"do": "connect", "artifact": "b"},
     "needs: [a,  # the first\n      c, b,  # the last\n      ]"),
    ("wants: [c]\n  sees: [a]", {"do": "connect", "artifact": "b"}, "needs: [b]\n  wants: [c]\n  sees: [a]"),
    ("needs: [a, b, c]", {"do": "disconnect", "artifact": "b"}, "needs: [a, c]"),
    ("needs: [a, b, c]", {"do": "disconnect", "artifact": "a"}, "needs: [b, c]"),
    ("needs: [a, b, c]", {"do": "disconnect", "artifact": "c"}, "needs: [a, b]"),
    ("needs: [a.x, b, a.y]", {"do": "disconnect", "artifact": "a"}, "needs: [b]"),
    ("needs: [a,  # the first\n      b,  # the second\n      c]", {"do": "disconnect", "artifact": "b"},
     "needs: [a,  # the first\n      c]"),
    ("needs:\n    - a\n    - b  # goes\n    # stays\n    - c", {"do": "disconnect", "artifact": "b"},
     "needs:\n    - a\n    # stays\n    - c"),
    ("needs:\n    # why\n    - b\n  sees: [a]", {"do": "disconnect", "artifact": "b"}, "# why\n  sees: [a]"),
    ("needs: b\n  sees: [a]", {"do": "disconnect", "artifact": "b"}, "sees: [a]"),
    ("needs: [b]\n  show: {b: none, a: whole}", {"do": "disconnect", "artifact": "b"}, "show: {a: whole}"),
])
def test_lists_in_all_their_forms(text: str, change: dict[str, Any], after: str) -> None:
    """The spellings of a list: what is put in stands where a person would put it, and comments stay."""
    def whole(lines: str) -> str:
        return ("sop: x\nartifacts: {a: {}, b: {}, c: {}, made: {}}\nsteps:\n step:\n  value: '1'\n"
                f"  {lines}\n  makes: made\n\n# the end\n")

    found = done(whole(text), **{"step": "step", **change}).text
    assert re.sub(r"\n +", "\n ", found) == re.sub(r"\n +", "\n ", whole(after))


def test_lists_that_defaults_give_are_written_out() -> None:
    text = ("sop: x\ndefaults: {steps: {needs: [a], sees: b}}\nartifacts: {a: {}, b: {}, c: {}, d: {}}\n"
            "steps: {step: {value: '1', makes: d}, other: {value: '2', needs: [], makes: c}}\n")
    assert data_of(done(text, do="connect", step="step", artifact="c").text)["steps"]["step"]["needs"] == ["a", "c"]
    assert data_of(done(text, do="disconnect", step="step", artifact="a").text)["steps"]["step"]["needs"] == []
    assert data_of(done(text, do="disconnect", step="step", artifact="b").text)["steps"]["step"]["sees"] == []
    own = text.replace("needs: []", "needs: [d]")
    assert data_of(done(own, do="disconnect", step="other", artifact="d").text)["steps"]["other"]["needs"] == []


def test_what_an_alias_shares_is_not_changed_behind_its_back() -> None:
    text = ("sop: x\nartifacts: {a: {}, b: {}, c: {}}\nsteps:\n  one: {value: '1', needs: &shared [a], makes: b}\n"
            "  two: {value: '2', needs: *shared, makes: c}\n")
    for step in ("one", "two"):
        with pytest.raises(UsageError, match="alias"):
            done(text, do="connect", step=step, artifact="c" if step == "one" else "b")
    renamed = done(text, do="rename_artifact", name="a", to=NEW).text
    assert renamed == text.replace("{a: {}", f"{{{NEW}: {{}}").replace("[a]", f"[{NEW}]"), "both read it, and both follow"


def test_names_of_their_own_are_left_alone() -> None:
    """A local of a template, a key of a value, a word in quotes, a field, a filter: none of them is the artifact."""
    text = """\
sop: x
artifacts: {plan: {schema: {plan: string}}, item_of: {}}
steps:
  make: {value: "{'plan': 'plan'}", makes: plan}
  use:
    value: "plan.plan ~ 'plan' ~ {'plan': plan['plan']}['plan'] ~ history('plan') | length"
    needs: [plan.plan]
    makes: item_of
    task: |
      {% for plan in plan.plan %}{{ plan }}{% endfor %}{{ plan.plan }} plan {# plan #}
      {% set other = plan %}{{ 'plan' }}
"""
    found = done(text, do="rename_artifact", name="plan", to=NEW)
    assert found.text == """\
sop: x
artifacts: {zz_new: {schema: {plan: string}}, item_of: {}}
steps:
  make: {value: "{'plan': 'plan'}", makes: zz_new}
  use:
    value: "zz_new.plan ~ 'plan' ~ {'plan': zz_new['plan']}['plan'] ~ history('zz_new') | length"
    needs: [zz_new.plan]
    makes: item_of
    task: |
      {% for plan in zz_new.plan %}{{ plan }}{% endfor %}{{ zz_new.plan }} plan {# plan #}
      {% set other = zz_new %}{{ 'plan' }}
"""
    assert {one.line for one in found.left} >= {10}, "lines in which the word still stands are told"


@pytest.mark.parametrize("change, told", [
    ({"do": "rename_artifact", "name": "draft", "to": "one"}, "a template sets a name of its own"),
    ({"do": "rename_artifact", "name": "draft", "to": "topic"}, "an input of this SOP already"),
    ({"do": "rename_artifact", "name": "draft", "to": "item"}, "reserved"),
    ({"do": "rename_artifact", "name": "draft", "to": "NULL"}, "reserved"),
    ({"do": "rename_artifact", "name": "draft", "to": "a b"}, "letters, digits"),
    ({"do": "rename_artifact", "name": "ghost", "to": "b"}, "something names `ghost`|no artifact or input `ghost`"),
    ({"do": "rename_artifact", "name": "draft", "to": "ghost"}, "something names `ghost` already"),
    ({"do": "rename_step", "name": "writ", "to": "b"}, "did you mean `write`"),
    ({"do": "connect", "step": "write", "artifact": "nothing"}, "no artifact or input `nothing`"),
    ({"do": "connect", "step": "write", "artifact": "topic"}, "already"),
    ({"do": "disconnect", "step": "write", "artifact": "draft"}, "does not read `draft`"),
    ({"do": "remove_step", "name": "write"}, "the only step"),
    ({"do": "set_model", "role": "nobody", "model": "dry"}, "no role `nobody`"),
    ({"do": "set_model", "role": "writer", "model": None}, "has no `model` here"),
    ({"do": "set_role", "step": "write", "role": "writer"}, "already"),
    ({"do": "add_step", "name": "write", "who": "a", "makes": "c"}, "already"),
    ({"do": "add_step", "name": "c", "who": "a", "makes": "c"}, "another name than its own"),
    ({"do": "add_step", "name": "c", "who": "a", "makes": "d", "after": "z"}, "no step `z`"),
    ({"do": "add_step", "name": "c", "makes": "d"}, "`who` of the edit `add_step`"),
    ({"do": "explode"}, "no edit 'explode'"),
    ({"do": "connect", "step": "write", "artifact": "topic", "kind": "reads"}, "`kind` of the edit `connect`"),
    ({"do": "rename_step", "name": "write", "to": "b", "more": 1}, "`more` of the edit `rename_step`"),
])
def test_what_can_not_be_done_is_refused_in_words(change: dict[str, Any], told: str) -> None:
    text = ("sop: x\ninputs: {topic: string}\nartifacts: {draft: {}}\nroles: {writer: {profile: writes}}\nsteps:\n"
            "  write: {role: writer, needs: [topic], sees: [ghost], makes: draft, "
            "task: \"{% for one in topic %}{{ one }}{{ draft }}{% endfor %}\"}\n")
    with pytest.raises(UsageError, match=told):
        done(text, **change)


def test_a_text_that_can_not_be_read_is_not_edited() -> None:
    with pytest.raises(UsageError, match="no valid YAML: line 2"):
        done("sop: x\nsteps: {a: [}\n", do="remove_step", name="a")


# --- the table of texts, and values as they are written --------------------------------------------------------------------

def _texts_in(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The keys below a model whose value is an expression or a template by its type."""
    hints = get_type_hints(model, include_extras=True)
    for name, field in model.model_fields.items():
        key = field.alias or name
        if _holds(hints[name], (Expression, Template)):
            yield (*path, key)
        inner = next((one for one in _parts(hints[name]) if isinstance(one, type) and issubclass(one, BaseModel)), None)
        if inner is not None and key not in ("budget", "makes", "human", "on_fail", "stuck"):
            yield from _texts_in(inner, (*path, key))


def _parts(hint: Any) -> Iterator[Any]:
    yield hint
    for one in get_args(hint):
        yield from _parts(one)


def _holds(hint: Any, wanted: tuple[Any, ...]) -> bool:
    return any(one in wanted for one in _parts(hint))


def test_every_text_of_a_step_is_in_the_table() -> None:
    """A key that holds an expression or a template, and that the table does not know, would not follow a rename."""
    keys = list(_texts_in(Step))
    assert {("when",), ("foreach", "in"), ("review", "accept"), ("inputs",), ("show",)} <= set(keys)
    for path in keys:
        value: Any = {("show",): {"NAME": ["named_here"]}, ("inputs",): {"NAME": "named_here"}}.get(path, "named_here")
        for key in reversed(path):
            value = {key: value}
        texts = [one.text for one in texts_of({"steps": {"step": value}})]
        assert "named_here" in texts, path


@settings(max_examples=examples(500), deadline=None)
@given(st.text(max_size=30), st.booleans())
def test_a_value_is_read_as_itself(text: str, lines: bool) -> None:
    text = text.encode("utf-8", "ignore").decode()
    value = {"a": text, "b": [text, {"c": text + ("\n" + text if lines else "")}], "d": text + "\nmore\n\n- x: y\n"}
    assert data_of(in_block("key", value, 0, "\n")) == {"key": value}
    assert data_of(f"key: {in_flow(value)}\n") == {"key": value}


@pytest.mark.parametrize("name, plain", [("draft", True), ("yes", True), ("NULL", False), ("TRUE", False), ("~", False)])
def test_names_that_yaml_takes_for_something_else(name: str, plain: bool) -> None:
    assert is_plain(name) is plain


# --- files with other line ends --------------------------------------------------------------------------------------------

LINES = st.lists(st.tuples(st.sampled_from(["a: 1", "", "b: [c]", "  d: e"]), st.sampled_from(["\n", "\r\n", "\r"])), max_size=12)


@settings(max_examples=examples(400), deadline=None)
@given(LINES, st.sampled_from([b"", b"\xef\xbb\xbf"]), st.sampled_from(["", "z"]))
def test_a_text_that_nobody_changed_keeps_its_bytes(lines: list[tuple[str, str]], mark: bytes, rest: str) -> None:
    data = mark + ("".join(line + end for line, end in lines) + rest).encode()
    assert in_its_form(data, in_lines(data)) == data


@settings(max_examples=examples(400), deadline=None)
@given(LINES, st.integers(0, 12))
def test_a_line_that_is_changed_is_the_only_one(lines: list[tuple[str, str]], at: int) -> None:
    lines = [(f"{number}{line}", end) for number, (line, end) in enumerate(lines)]
    data = "".join(line + end for line, end in lines).encode()
    new = in_lines(data).split("\n")
    at %= len(new)
    new[at] += "changed"
    after = in_its_form(data, "\n".join(new))
    assert in_lines(after) == "\n".join(new)
    pairs = [re.findall(r"([^\r\n]*)(\r\n|\n|\r|\Z)", one.decode()) for one in (data, after)]
    assert [old for old, now in zip(*pairs, strict=False) if old[0] == now[0] and old != now] == []
