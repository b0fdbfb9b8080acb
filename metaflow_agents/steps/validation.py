"""What an answer must fit before it becomes an artifact: schema, rules, paths, and the lists that later steps walk over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from metaflow_agents.engine.items import walk
from metaflow_agents.engine.work import Activation, Work
from metaflow_agents.errors import AnswerInvalid, ExpressionError, FilesInvalid
from metaflow_agents.journal.values import Values
from metaflow_agents.prompts import FilesView, evaluate, render_pattern, truthy
from metaflow_agents.prompts.names import free_names
from metaflow_agents.schema import acting_files, paths
from metaflow_agents.schema.binary import BinaryFile, Content, content, data_of, files_in, packed
from metaflow_agents.schema.model import digest
from metaflow_agents.schema.payload import Binary, Data, Files, Patch, held
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.step import Foreach, Step
from metaflow_agents.schema.validation import Validator, validator
from metaflow_agents.sop.plans import walk_of
from metaflow_agents.steps.assignment import faults_of

_TEXT: dict[str, Any] = {"type": "string"}


class Acceptance:
    """Turns what a doer gave into a payload, or raises AnswerInvalid with every fault, told as its author needs it.

    `outer`: that of the SOP which this one is a step of. `validators`: artifact → the check of its data, made before.
    """

    def __init__(self, program: Program, values: Values, load: Callable[[str], Any], outer: Acceptance | None = None,
                 validators: dict[str, Validator] | None = None) -> None:
        self._program, self._sop, self._values, self._load, self._outer = program, program.sop, values, load, outer
        self._validators = {} if validators is None else validators     # a python model is imported once; all are asked often

    def schema(self, artifact: str) -> dict[str, Any] | None:
        """What the endpoint is asked for: JSON Schema; None for text and for files."""
        if artifact not in self._program.schemas:
            return None
        return self.validator(artifact).json_schema

    def validator(self, artifact: str) -> Validator:
        """The check of an artifact's data (of one item, for a collection)."""
        if artifact not in self._validators:
            self._validators[artifact] = validator(self._program.schemas.get(artifact, _TEXT), artifact, self._load)
        return self._validators[artifact]

    def gives(self, activation: Activation) -> dict[str, Any]:
        """What `accept` takes, as JSON Schema: of a set of files an object, path → what the file holds."""
        artifact = self._step(activation).makes.artifact
        return {"type": "object"} if self._sop.artifacts[artifact].files else self.validator(artifact).json_schema

    def accept(self, activation: Activation, given: Any) -> Work:
        """The payload of a value that a function, an expression or a model gave: path → what a file holds, or None where it goes,
        for files, which no role wrote.
        """
        artifact = self._step(activation).makes.artifact
        if not self._sop.artifacts[artifact].files:
            return self._binary(activation, given) if isinstance(given, BinaryFile) else Work(self.data(activation, given))
        return self.files(activation, *self.mapping(activation, given))

    def mapping(self, activation: Activation, given: Any) -> tuple[dict[str, Content], tuple[str, ...]]:
        """A value that has to be path → what a file holds, or None for one that is deleted: those, and these. Raises
        AnswerInvalid.
        """
        if not isinstance(given, Mapping) or not all(
                isinstance(path, str) and isinstance(held, Content | None) for path, held in given.items()):
            artifact = self._step(activation).makes.artifact
            raise AnswerInvalid([f"`{artifact}` is a set of files: a mapping of path to text or bytes was expected, or to null "
                                 "for a file that is deleted"])
        gone = tuple(path for path, held in given.items() if held is None)
        before = None if activation.base is None else self._values.payload(activation.base)
        if absent := sorted(set(gone) - set(before.files if isinstance(before, Files) else ())):
            raise AnswerInvalid([f"{path!r} can't be deleted, as there is no such file; leave it out" for path in absent])
        return {path: held for path, held in given.items() if held is not None}, gone

    def _binary(self, activation: Activation, given: BinaryFile) -> Work:
        """A file that is no text, as the whole of an artifact (or of an item) without a schema."""
        artifact = self._step(activation).makes.artifact
        if artifact in self._program.schemas:
            raise AnswerInvalid([f"`{artifact}` has a schema, and {given} is no data: make an artifact without `schema`, or one "
                                 "with `files`"])
        faults = list(self._broken_rules(artifact, given, activation))
        if faults:
            raise AnswerInvalid(faults)
        payload, blobs = held(given)
        assert isinstance(payload, Binary)
        return Work(payload, blobs)

    def value(self, work: Work) -> Any:
        """What a template sees of what was made: a value, or of files path → what they hold, those that it deletes left out."""
        payload = work.payload
        if isinstance(payload, Patch):
            return {path: content(work.blobs[blob], path) if blob in work.blobs else self._values.content(blob, path)
                    for path, blob in payload.written.items()}
        return payload.value if isinstance(payload, Data) else payload.value(self._values.data)

    def checked(self, activation: Activation, work: Work) -> Any:
        """What a function that checks is given of an answer: a value, or what a rule sees of files."""
        value, payload = self.value(work), work.payload
        return self._would_be(activation, value, payload.deleted) if isinstance(payload, Patch) else value

    def data(self, activation: Activation, value: Any) -> Data:
        """A value that fits its schema, its rules, and what later steps walk over."""
        artifact = self._step(activation).makes.artifact
        inside = next(files_in(value), None)
        if inside is not None:
            raise AnswerInvalid([f"`{artifact}` is data, and holds the file {inside}: take its fields (`.name`, `.media_type`, "
                                 "`.size`, `.sha256`), or make an artifact with `files`"])
        checked = self.validator(artifact).validate(value)
        faults = [*self._broken_rules(artifact, checked, activation), *self._unwalkable(artifact, checked, activation)]
        if faults:
            raise AnswerInvalid(faults)
        return Data(value=checked)

    def files(self, activation: Activation, written: Mapping[str, Content], deleted: tuple[str, ...], *, ruled: bool = True,
              may_stay: bool = False, refused: Callable[[str], str] | None = None) -> Work:
        """A patch whose every path is confined to the activation's patterns and belongs to no other artifact.

        `ruled`: the artifact's rules have to hold too. What stands in for files in a dry run could not keep them. `may_stay`: no
        file at all leaves what is there as it is. `refused`: why
        a role may not write a path; None: no role wrote it, and only files that act later are refused. Raises FilesInvalid.
        """
        artifact = self._step(activation).makes.artifact
        told = [(path, why) for path in (*written, *deleted)
                for why in self._refused(artifact, path, activation.patterns, activation.bounds)]
        if refused is None:
            told += self._acting(activation, written)
        else:
            told += [(path, f"{path!r}: {why}") for path in (*written, *deleted)
                     if not paths.refusal(path) and (why := refused(path))]
        faults = [why for _, why in told]
        if not written and not deleted and not may_stay:
            faults.append(f"no file was given; wanted: {', '.join(paths.told(activation.patterns))}")
        elif ruled:
            faults += self._broken_rules(artifact, self._would_be(activation, written, deleted), activation)
        faults += _clash(written)
        if faults:
            raise FilesInvalid(faults, [path for path, _ in told])
        names, blobs = packed(written)
        return Work(Patch(written=names, deleted=tuple(sorted(deleted))), blobs)

    def _would_be(self, activation: Activation, written: Mapping[str, Content], deleted: tuple[str, ...]) -> FilesView:
        """What a rule sees of a set of files: the version that this would become, or of an item the files that it wrote."""
        if activation.item is not None:
            return FilesView.of(written)
        before = None if activation.base is None else self._values.payload(activation.base)
        files = dict(before.files) if isinstance(before, Files) else {}
        kept = [path for path in files if path not in deleted and path not in written]

        def load(path: str) -> Content:
            return written[path] if path in written else self._values.content(files[path], path)

        return FilesView(sorted((*kept, *written)), load, before.missing if isinstance(before, Files) else ())

    def _step(self, activation: Activation) -> Step:
        return self._sop.steps[activation.key.step]

    def _broken_rules(self, artifact: str, value: Any, activation: Activation) -> Iterator[str]:
        for rule in self._sop.artifacts[artifact].rules:
            try:
                held = truthy(evaluate(rule.assert_, {**self._own(activation), artifact: value}))
            except ExpressionError as error:
                yield f"rule `{rule.assert_}` of `{artifact}` failed: {error}"
            else:
                if not held:
                    yield rule.message or f"`{rule.assert_}` does not hold"

    @staticmethod
    def _own(activation: Activation) -> dict[str, Any]:
        return {name: activation.scope[name] for name in ("run", "item", "key") if name in activation.scope}

    def _unwalkable(self, artifact: str, value: Any, activation: Activation) -> Iterator[str]:
        """The rules that follow from `graph` and `foreach`: keys, references, circles, the paths that items are to make, and
        who is to make them.
        """
        graph = walk_of(artifact, self._sop.artifacts[artifact])
        broken = [] if graph is None else _faults_of_list(graph, {artifact: value})
        yield from broken
        for name, step in self._walkers.get(artifact, ()):
            foreach = step.foreach
            if foreach is None or (broken and graph is not None and foreach.in_.strip() == graph.in_):
                continue                                       # its author was told already
            try:
                items = walk(foreach, {artifact: value})
            except AnswerInvalid as error:
                yield from (f"{fault} (step `{name}` walks over it)" for fault in error.faults)
                continue
            except ExpressionError as error:
                yield f"step `{name}` walks over it, and `{foreach.in_}` fails: {error}"
                continue
            bounds = self._bounds_of(step.makes.artifact, artifact, value, activation)
            made: list[str] = []
            for item in items:
                scope = {artifact: value, "item": item.value, foreach.as_: item.value, "key": item.key}
                for fault in faults_of(self._sop, step, scope, frozenset(scope)):
                    yield f"{item.key!r}: {fault} (step `{name}` works on it)"
                for pattern in step.makes.patterns:
                    if free_names(pattern, template=True) <= set(scope):
                        yield from self._refused_pattern(step.makes.artifact, pattern, scope, bounds, made)
            yield from _clash(made)

    def _bounds_of(self, made: str, artifact: str, value: Any, activation: Activation) -> tuple[str, ...]:
        """The patterns of the files that the items will make, as far as they are known now."""
        patterns = self._sop.artifacts[made].files
        if all(free_names(pattern, template=True) <= {artifact} for pattern in patterns):
            return tuple(render_pattern(pattern, {artifact: value}) for pattern in patterns)
        seen = self._values.payload_at(made, activation.read.get(made, 0))
        return seen.patterns if isinstance(seen, Files) else ()

    def _refused_pattern(self, artifact: str, pattern: str, scope: Mapping[str, Any], bounds: tuple[str, ...],
                         made: list[str]) -> Iterator[str]:
        """What is wrong with the path that one item is to make; a path that is whole is added to `made`."""
        try:
            path = render_pattern(pattern, scope)
        except ExpressionError as error:
            yield str(error)
            return
        why = paths.pattern_refusal(path)
        if why:
            yield f"{path!r} can't be a path: {why}"
        elif (literal := paths.literal(path)) is not None:
            made.append(literal)
            yield from self._refused(artifact, literal, (), bounds)

    def _refused(self, artifact: str, path: str, patterns: tuple[str, ...], bounds: tuple[str, ...]) -> Iterator[str]:
        why = paths.refusal(path)
        if why:
            yield f"{path!r}: {why}"
            return
        for allowed in (patterns, bounds):
            if allowed and not paths.matches(allowed, path):
                yield f"{path!r} lies outside `{artifact}`, which is confined to {', '.join(paths.told(allowed))}"
                return
        for other, taken in self._places.items():
            if other != artifact and paths.matches(taken, path):
                yield f"{path!r} belongs to `{other}` ({', '.join(paths.told(taken))})"

    def _acting(self, activation: Activation, written: Mapping[str, Content]) -> Iterator[tuple[str, str]]:
        """Files that would act later, that neither the SOP nor a rule names, and that were not there before: path, why not."""
        for path, file in written.items():
            if acting_files.find(path) is None or self.named(activation, path) or self.there(path, digest(data_of(file))):
                continue
            from metaflow_agents.policy.policy import Policy  # seldom: most runs write no such file

            why = Policy(self._sop.policy).may_write(path)
            if why:
                yield path, f"{path!r}: {why}"

    def named(self, activation: Activation, path: str) -> bool:
        """Whether the SOP's author wrote this very path, of a file that would act later and that a SOP may name."""
        step, found = self._step(activation), acting_files.find(path)
        patterns = (*step.makes.patterns, *self._sop.artifacts[step.makes.artifact].files)
        return found is not None and found.row.verdict == "asked" and any(
            "{{" not in one and paths.literal(one) == path for one in patterns)

    def copied(self, path: str, name: str) -> bool:
        """Whether a person gave a folder with this very file: `name` is the digest of its bytes. What a SOP hands to one that is
        a step of it counts only if a person gave it to the outermost.
        """
        if self._outer is not None:
            return self._outer.copied(path, name)
        return any(self._holds(given, 1, path, name) for given, spec in self._sop.inputs.items() if spec.type == "folder")

    def there(self, path: str, name: str) -> bool:
        """Whether the file is one of a folder that a person gave, or of an earlier version: it was judged then."""
        return self.copied(path, name) or (self._outer is not None and self._outer.there(path, name)) or any(
            self._holds(made, number, path, name) for made, spec in self._sop.artifacts.items() if spec.files
            for number in range(1, self._values.versions(made) + 1))

    def _holds(self, name: str, number: int, path: str, blob: str) -> bool:
        held = self._values.payload_at(name, number)
        return isinstance(held, Files) and held.files.get(path) == blob

    @cached_property
    def _places(self) -> dict[str, tuple[str, ...]]:
        """Artifact → where it lies, as far as that is written without a template."""
        found = {}
        for name, spec in self._sop.artifacts.items():
            literal = [pattern for pattern in spec.files if "{{" not in pattern]
            literal += [paths.escape(path) for path in (spec.file, *spec.documents) if path is not None]
            if literal:
                found[name] = tuple(literal)
        return found

    @cached_property
    def _walkers(self) -> dict[str, list[tuple[str, Step]]]:
        """Artifact → the steps whose list, keys and order depend on it alone. A collection is made item by item: no item
        is the list, nor its author the one to tell.
        """
        found: dict[str, list[tuple[str, Step]]] = {}
        for name, step in self._sop.steps.items():
            foreach = step.foreach
            if foreach is None:
                continue
            own = {"item", "key", foreach.as_}
            used = set(free_names(foreach.in_))
            for expression in (foreach.key, foreach.after, foreach.where):
                used |= set(free_names(expression)) - own if expression else set()
            whole = {artifact for artifact, spec in self._sop.artifacts.items() if spec.each is None}
            if len(used) == 1 and used <= whole:
                found.setdefault(used.pop(), []).append((name, step))
        return found


def _faults_of_list(foreach: Foreach, scope: Mapping[str, Any]) -> list[str]:
    try:
        walk(foreach, scope)
    except AnswerInvalid as error:
        return list(error.faults)
    return []


def _clash(files: Iterable[str]) -> Iterator[str]:
    pair = paths.clash(files)
    if pair:
        yield f"`{pair[0]}` can't be a file and the folder of `{pair[1]}`"
