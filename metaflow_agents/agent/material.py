"""What an activation works from, as its prompts show it: what its step reads, each artifact in the way that `show` says."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from metaflow_agents.agent.asked_people import AskedPeople
from metaflow_agents.engine.work import Activation
from metaflow_agents.errors import AttemptFailed, ExpressionError
from metaflow_agents.journal.values import Values
from metaflow_agents.prompts import MISSING, CollectionView, FilesView, from_package, render, render_pattern
from metaflow_agents.prompts.names import named_paths
from metaflow_agents.schema import paths
from metaflow_agents.schema.binary import BinaryFile, files_in
from metaflow_agents.schema.payload import Data, Files
from metaflow_agents.schema.pictures import sendable
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.step import Step
from metaflow_agents.sop.graph import reads
from metaflow_agents.sop.naming import task_texts

_KEPT = 64                          # firings whose material is at hand: about as many as run side by side


@dataclass(frozen=True, slots=True)
class ShownArtifact:
    """One artifact in a prompt. `how`: what `show` says, or `task` where the task presents it, or `rendered` where that is
    shorter; `text`: what stands in the material, empty where nothing does.
    """

    name: str
    how: str
    text: str


class Material:
    """Builds the part of prompts that shows what a step reads. `rendered(artifact, value)` gives a value by its `render`."""

    def __init__(self, program: Program, values: Values, rendered: Callable[[str, Any], str], *,
                 asked: AskedPeople, noted: dict[str, list[ShownArtifact]] | None = None, prefix: str = "") -> None:
        """`asked`: what people answered. `noted`: where it is noted down what is shown, and `prefix` of the keys there (of a
        sub-SOP).
        """
        self._asked = asked
        self._program, self._sop, self._values, self._rendered = program, program.sop, values, rendered
        self._firings: OrderedDict[str, str] = OrderedDict()    # firing → what it works from
        self._ways_of: dict[tuple[str, int], str] = {}          # version of an artifact that has a `render` → how it is shown
        self.noted, self._prefix = noted, prefix

    def note(self) -> Mapping[str, Sequence[ShownArtifact]]:
        """From now on notes down what each activation (`step@round[item]`, behind those that lead to it) is shown, in the mapping
        that this gives.
        """
        self.noted = {}
        return self.noted

    def text(self, step: Step, activation: Activation) -> str:
        """What stands in the prompt of what the step reads, and what the items before this one made."""
        if self.noted is not None:
            self.noted[f"{self._prefix}{activation.key.slot}"] = self._shown(step, activation)
        prior, firing = dict(activation.scope["prior"]), activation.key.firing
        if prior or any(not isinstance(how, str) for how in step.show.values()):
            return self._text(step, activation, prior)
        if firing not in self._firings:                 # all items of a firing that build on no other see the same
            self._firings[firing] = self._text(step, activation, {})
            if len(self._firings) > _KEPT:
                self._firings.popitem(last=False)
        return self._firings[firing]

    def _shown(self, step: Step, activation: Activation) -> list[ShownArtifact]:
        found = []
        for name, how in self._ways(step, activation):
            entry = self._entry(name, how, activation)
            told = ", ".join(_entries(how, activation, pattern=False)) if isinstance(how, tuple) else how
            found.append(ShownArtifact(name, told, "" if entry is None else _material([entry])))
        return found

    def item(self, step: Step, activation: Activation) -> Mapping[str, Any] | None:
        """The item of a `foreach` as its prompt shows it: its `name`, its `key` and, unless `show` says `none`, what of
        its `value` is shown.
        """
        if activation.item is None or step.foreach is None:
            return None
        name, value = step.foreach.as_, activation.item.value
        told, how = {"name": name, "key": activation.item.key}, step.show.get(name, "whole")
        if how in ("none", "whole"):
            return told if how == "none" else {**told, "value": value}
        names = named(value) if how == "names" else None
        shown, absent = (value if names is None else names, []) if isinstance(how, str) else self._part(name, how, activation)
        return {**told, "value": shown, "absent": absent,
                "shown": how if isinstance(how, str) else ", ".join(_entries(how, activation, pattern=False))}

    def images(self, step: Step, activation: Activation) -> tuple[Mapping[str, Any], ...]:
        """The pictures for a role that takes some: those of its item, or else all that the material shows and that is a file."""
        item = self.item(step, activation) or {}
        own = sendable(files_in(item["value"])) if "value" in item else None
        return own or sendable(file for name, how in self._ways(step, activation) if how not in ("none", "names", "rendered")
                               for file in files_in(self._part(name, how, activation)[0]))

    def _text(self, step: Step, activation: Activation, prior: Mapping[str, Any]) -> str:
        entries = [self._entry(name, how, activation) for name, how in self._ways(step, activation)]
        shown = [entry for entry in entries if entry is not None]
        if not shown and not prior:
            return ""
        return _material(shown, prior, files=bool(self._sop.artifacts[step.makes.artifact].files))

    def _ways(self, step: Step, activation: Activation) -> Iterator[tuple[str, str | tuple[str, ...]]]:
        """Each artifact that the step reads, and how its prompts show it."""
        presented = self._presented(step, activation)
        for name in reads(step):
            yield name, step.show.get(name) or ("task" if name in presented else self._shorter(name, activation))

    def _shorter(self, name: str, activation: Activation) -> str:
        """`rendered` where an artifact has a `render`, and that is shorter than its value; otherwise `whole`."""
        spec, value = self._sop.artifacts.get(name), activation.scope[name]
        if spec is None or spec.render is None or value is MISSING or isinstance(value, BinaryFile):
            return "whole"
        version = name, activation.read.get(name, 0)
        if version not in self._ways_of:
            sizes = {how: len(_material([self._entry(name, how, activation) or {}])) for how in ("whole", "rendered")}
            self._ways_of[version] = min(sizes, key=lambda how: sizes[how])
        return self._ways_of[version]

    def _presented(self, step: Step, activation: Activation) -> set[str]:
        """What the task shows itself: artifacts that it names whole, or of which it names a list or a mapping.

        A field that it mentions, as in `{{ design.package }}`, takes nobody's place: the artifact is still to be seen.
        """
        found = set()
        for name, *fields in (path for text in task_texts(self._program, step) for path in named_paths(text)):
            value: Any = activation.scope.get(name, MISSING)
            for field in fields:
                value = value.get(field, MISSING) if isinstance(value, Mapping) else MISSING
            if not fields or isinstance(value, Mapping | list | tuple):
                found.add(name)
        return found

    def _entry(self, name: str, how: str | tuple[str, ...], activation: Activation) -> dict[str, Any] | None:
        """What the template `material` is told of one artifact; None for what is not shown."""
        there = activation.scope[name]
        if how in ("none", "task") or (isinstance(how, tuple) and (there is None or there is MISSING)):
            return None                                             # of what was not given, or not made, there are no parts
        value, absent = self._part(name, how, activation)
        kind, shown = self._kind(name, activation.scope[name]), how if how in ("names", "rendered") else ""
        if isinstance(how, tuple):
            shown = ", ".join(_entries(how, activation, pattern=False))
        elif how == "names" and value is not MISSING:
            value, shown = (names, "names") if (names := named(value)) is not None else (value, "")
        elif how == "rendered" and value is not MISSING:
            value, kind = self._by_template(name, value), "text"
        texts = isinstance(value, CollectionView) and bool(value) and all(isinstance(one, str) for one in value.values())
        return {"name": name, "kind": kind, "description": self._described(name), "shown": shown, "absent": absent,
                "texts": texts, "value": None if value is MISSING else value, "assumed": self._assumed(name, activation),
                "asked": self._asked.behind(name, activation.read.get(name, 0))}

    def _part(self, name: str, how: str | tuple[str, ...], activation: Activation) -> tuple[Any, list[str]]:
        """What is shown of a value, and which of the parts that were asked for it has not."""
        value = activation.scope[name]
        if isinstance(how, str) or value is MISSING or value is None:
            return value, []
        if isinstance(value, FilesView):
            patterns = _entries(how, activation, pattern=True)
            return FilesView((path for path in value if paths.matches(patterns, path)), value.__getitem__, value.missing), []
        wanted = _entries(how, activation, pattern=False)
        if isinstance(value, CollectionView):
            failed = [key for key in value.missing if key in wanted]
            return (CollectionView({key: value[key] for key in wanted if key in value}, failed),
                    [key for key in wanted if key not in value and key not in value.missing])
        if isinstance(value, Mapping):
            return {key: value[key] for key in wanted if key in value}, [key for key in wanted if key not in value]
        if isinstance(value, list | tuple) and all(isinstance(one, Mapping) for one in value):
            return [{key: one[key] for key in wanted if key in one} for one in value], []
        raise AttemptFailed(f"`show` asks for parts of `{name}`, and its value here has none: it is no object, no list of "
                            "objects, no collection and no set of files; write `whole`, `none` or `names`")

    def _by_template(self, name: str, value: Any) -> str:
        try:
            return self._rendered(name, value).rstrip("\n")
        except ExpressionError as error:
            raise AttemptFailed(str(error)) from None

    def _assumed(self, name: str, activation: Activation) -> list[str]:
        payload = self._values.payload_at(name, activation.read.get(name, 0))
        return list(payload.assumed) if isinstance(payload, Data | Files) else []

    def _kind(self, name: str, value: Any) -> str:
        if isinstance(value, BinaryFile):
            return "file"
        spec = self._sop.artifacts.get(name)
        if spec is None:
            return "files" if self._sop.inputs[name].type == "folder" else "text" if isinstance(value, str) else "data"
        if spec.files:
            return "files"
        return "collection" if spec.each is not None else "text" if isinstance(value, str) else "data"

    def _described(self, name: str) -> str:
        spec = self._sop.artifacts.get(name)
        return spec.description if spec is not None else self._sop.inputs[name].description


def _material(entries: Sequence[Mapping[str, Any]], prior: Mapping[str, Any] | None = None, *, files: bool = False) -> str:
    return from_package("material", {"reads": entries, "prior": prior or {}, "prior_files": files})


def _entries(written: Sequence[str], activation: Activation, *, pattern: bool) -> list[str]:
    """The fields, keys or patterns that `show` lists, with what stands in `{{ }}` put in."""
    return [(render_pattern if pattern else render)(one, activation.scope) for one in written]


def named(value: Any) -> list[str] | None:
    """What a value consists of, in names; None for what has no parts, such as a text."""
    if isinstance(value, FilesView):
        return [f"{path} ({len(data):,} bytes)" for path, data in value.as_bytes().items()]
    if isinstance(value, Mapping):
        return list(value)
    if isinstance(value, list | tuple):
        return [f"a list of {len(value):,}"]
    return None
