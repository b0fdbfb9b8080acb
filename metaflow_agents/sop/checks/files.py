"""Paths and patterns: inside the repository, one owner for each path, the names that they take values from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from metaflow_agents.documents.publishing import FORMATS, format_of
from metaflow_agents.prompts import analyse_expression
from metaflow_agents.schema import paths
from metaflow_agents.schema.artifact import Artifact
from metaflow_agents.schema.shape import Shape
from metaflow_agents.schema.step import Step
from metaflow_agents.sop.checks.context import Context, Place
from metaflow_agents.sop.checks.expressions import run_shape, step_scope, template
from metaflow_agents.sop.graph import reads

_WILD = re.compile(r"\*+|\?|\[")
_MOST_WILDCARDS = 20
"""Whether two patterns meet is decided exactly, at a cost that grows with their wildcards."""
ONLY_VALUES = "only `{{ value }}` may stand in it, no statement and no comment; `{{ 'a' if x else 'b' }}` is a value"
_HOLE = re.compile(r"\{\{.*?(?:\}\}|\Z)", re.DOTALL)


def check_files(c: Context) -> None:
    """`files`, `file`, `render` of artifacts and the patterns of `makes`."""
    for name, artifact in c.sop.artifacts.items():
        _artifact(c, name, artifact)
    for name, step in c.sop.steps.items():
        _patterns(c, name, step)
        _command_files(c, name, step)
    _rules(c)
    _overlaps(c)


def _artifact(c: Context, name: str, artifact: Artifact) -> None:
    where: Place = ("artifacts", name)
    kinds = [key for key, given in (("schema", artifact.schema_ is not None), ("each", "each" in artifact.model_fields_set),
                                    ("files", bool(artifact.files))) if given]
    if len(kinds) > 1:
        c.say("two-kinds", (*where, kinds[1]),
              f"`{name}` has `{kinds[0]}` and `{kinds[1]}`: an artifact is data, a collection, or files",
              "keep one of them", key=True)
    for index, pattern in enumerate(artifact.files):
        _pattern(c, c.entry(*where, "files", index), pattern)
    if artifact.files and artifact.file is not None:
        c.say("file-misplaced", (*where, "file"), f"`{name}` is a set of files, and they lie where they are", "remove `file`",
              key=True)
    elif artifact.file is not None:
        _file(c, name, artifact)
    if artifact.render is not None and artifact.file is None:
        c.say("render-without-file", (*where, "render"), f"`{name}` has `render` and no `file`: nothing would be written",
              "say where it lies, as in `file: docs/NAME.md`", key=True)
    _pattern_names(c, name, artifact)


def _file(c: Context, name: str, artifact: Artifact) -> None:
    where: Place = ("artifacts", name, "file", *(() if isinstance(artifact.file_, str) else (0,)))
    path = artifact.file or ""
    if _documents(c, name, artifact):
        return
    why = paths.refusal(_filled(path))
    if "{{" in path:
        c.say("path-refused", where, "`file` is one fixed path, and takes no `{{ }}`", "write the path out")
    elif why:
        c.say("path-refused", where, f"`{path}` is refused: {why}", "write a path relative to the run's repository")
    elif artifact.render is None and not path.endswith(".json") and not c.shape(name).kinds & {"any", "string"}:
        c.say("file-without-render", where, f"`{name}` is {c.shape(name).describe()}, no text: `{path}` needs a `render`",
              "add `render: TEMPLATE.md.j2`, or let `file` end in .json")


def _documents(c: Context, name: str, artifact: Artifact) -> bool:
    """The formats besides the text. Whether something is wrong with them."""
    before = len(c.problems)
    where: Place = ("artifacts", name, "file")
    if artifact.documents and "each" in artifact.model_fields_set:
        c.say("file-documents", where, f"`{name}` is a collection, and documents are made of one text",
              "join its items in a step of its own, and give what that makes these files")
    elif artifact.documents and name not in c.made:
        c.say("file-documents", where, f"documents are made with a version that a step makes, and no step makes `{name}`",
              f"let one copy it, as in `value: {name}`, and give what that makes these files")
    elif artifact.documents and not (artifact.file or "").endswith((".md", ".markdown")):
        c.say("file-documents", (*where, 0), f"documents are made of Markdown, and `{artifact.file}` is no such file",
              "write first the text, as in `[report.md, report.pdf]`")
    for index, path in enumerate(artifact.documents, 1):
        why = paths.refusal(_filled(path))
        if "{{" in path:
            c.say("path-refused", (*where, index), "`file` is one fixed path, and takes no `{{ }}`", "write the path out")
        elif why:
            c.say("path-refused", (*where, index), f"`{path}` is refused: {why}", "write a path relative to the run's repository")
        elif format_of(path) is None:
            c.say("file-documents", (*where, index), f"nothing makes `{path}` of a Markdown text",
                  f"let it end in {', '.join(FORMATS)}")
    return len(c.problems) > before


def _filled(pattern: str) -> str:
    return _HOLE.sub("x", pattern)


def _pattern(c: Context, where: Place, pattern: str) -> bool:
    why = paths.pattern_refusal(_filled(pattern))
    if len(_WILD.findall(_filled(pattern))) > _MOST_WILDCARDS:
        why = why or f"it holds more than {_MOST_WILDCARDS} wildcards"
    if "{%" in pattern or "{#" in pattern:
        why = ONLY_VALUES
    if why:
        c.say("path-refused", where, f"the pattern `{pattern}` is refused: {why}",
              "write a pattern relative to the run's repository, such as `src/**`")
    return not why


def _pattern_names(c: Context, name: str, artifact: Artifact) -> None:
    """A pattern is worked out by each step that makes the artifact, so each has to read what it names."""
    if not any("{{" in pattern for pattern in artifact.files):
        return
    everything = {other: c.shape(other) for other in c.known if other != name} | {"run": run_shape(c)}
    names: set[str] = set()
    for index, pattern in enumerate(artifact.files):
        analysis = template(c, c.entry("artifacts", name, "files", index), pattern, everything)
        names |= {one for one in analysis.names if one in c.known}
    for maker in c.made.get(name, ()):
        step = c.sop.steps[maker]
        known = {c.mended.get(one, one) for one in reads(step)} | set(reads(step))
        for one in sorted(names - known):
            c.say("not-read", ("steps", maker, "makes"),
                  f"the files of `{name}` lie where `{one}` says, and `{maker}` does not read `{one}`",
                  f"add `{one}` to its `sees`")


def _patterns(c: Context, name: str, step: Step) -> None:
    artifact = c.sop.artifacts.get(step.makes.artifact)
    if not step.makes.patterns or artifact is None:
        return
    place: Place = ("steps", name, "makes", step.makes.artifact)
    if not artifact.files:
        c.say("pattern-misplaced", place, f"`{step.makes.artifact}` is no set of files: a pattern confines nothing",
              f"write `makes: {step.makes.artifact}`, or declare it with `files`")
        return
    scope = step_scope(c, name, step, _item(c, name, step))
    for index, pattern in enumerate(step.makes.patterns):
        where = c.entry(*place, index)
        template(c, where, pattern, scope, name)
        _holes(c, where, pattern, scope)
        if _pattern(c, where, pattern) and "{{" not in pattern and not any(
                "{{" in outer or paths.overlap(pattern, outer) for outer in artifact.files):
            c.say("pattern-outside", where, f"`{pattern}` lies outside of `{step.makes.artifact}`",
                  f"its files are: {', '.join(artifact.files)}")


def _holes(c: Context, where: Place, pattern: str, scope: Mapping[str, Shape]) -> None:
    """What is put into a pattern has to stand in a path."""
    for hole in _HOLE.findall(pattern):
        found = analyse_expression(hole[2:-2].strip("-+ "), scope)
        if not found.findings and not found.shape.kinds & {"any", "string", "integer", "number"}:
            c.say("path-refused", where, f"`{hole}` is {found.shape.describe()}, which can't stand in a path",
                  "put in a text or a whole number")


def _item(c: Context, name: str, step: Step) -> Shape | None:
    """The shape of the item, its faults told elsewhere."""
    if step.foreach is None:
        return None
    analysis = analyse_expression(step.foreach.in_, step_scope(c, name, step))
    return Shape.any() if analysis.findings else analysis.shape.item()


def _command_files(c: Context, name: str, step: Step) -> None:
    artifact = c.sop.artifacts.get(step.makes.artifact)
    if artifact is None or c.doers.get(name) != "run":
        return
    place: Place = ("artifacts", step.makes.artifact)
    if artifact.files:
        c.say("run-makes-files", ("steps", name, "makes"), f"`{name}` runs a command, and its result is no set of files",
              "let a `role`, `call` or `value` step make the files; a command makes a result, declared as `{}`")
        c.muted.add(step.makes.artifact)
        return
    each = "each" in artifact.model_fields_set
    written = artifact.each if each else artifact.schema_
    if not (step.parse or "").startswith("json") and written not in (None, {}):
        fields = ", ".join(_fixed_fields(c, step.makes.artifact))
        kind = "with `parse: junit` " if (step.parse or "").startswith("junit") else ""
        c.say("fixed-schema", (*place, "each" if each else "schema"), f"what a command {kind}makes has a schema of its own",
              f"declare `{step.makes.artifact}: {'{each: {}}' if each else '{}'}`; its fields are: {fields}",
              key=True)


def check_failures(c: Context) -> None:
    """What `on_fail` makes has a schema of its own too."""
    for name, step in c.sop.steps.items():
        artifact = c.sop.artifacts.get(step.on_fail.artifact or "")
        if artifact is None:
            continue
        key = next((key for key, given in (("schema", artifact.schema_ not in (None, {})),
                                           ("each", "each" in artifact.model_fields_set),
                                           ("files", bool(artifact.files))) if given), None)
        if key:
            c.say("fixed-schema", ("artifacts", step.on_fail.artifact or "", key),
                  f"what the failure of `{name}` makes has a schema of its own",
                  f"declare `{step.on_fail.artifact}: {{}}`; its fields are: step, key, error, items", key=True)


def _rules(c: Context) -> None:
    """A rule goes back to an author, and the result of a command or a failure has none."""
    for name, artifact in c.sop.artifacts.items():
        if artifact.rules and not artifact.files and c.fixed(name):
            failed = next((step for step, written in c.sop.steps.items() if written.on_fail.artifact == name), None)
            giver = f"the failure of `{failed}`" if failed else "a command"
            c.say("rules-misplaced", ("artifacts", name, "rules"),
                  f"`{name}` is what {giver} gives, and there is no author who could mend it: a rule changes nothing",
                  f"remove `rules`; say it in `success`, or in the `when` of a step that reads `{name}`", key=True)


def _fixed_fields(c: Context, artifact: str) -> tuple[str, ...]:
    return tuple((c.fixed(artifact) or {}).get("properties", ()))


def _owned(c: Context) -> Iterator[tuple[str, str, Place]]:
    for name, artifact in c.sop.artifacts.items():
        for index, pattern in enumerate(artifact.files):
            if "{{" not in pattern and len(_WILD.findall(pattern)) <= _MOST_WILDCARDS:
                yield name, pattern, c.entry("artifacts", name, "files", index)
        if artifact.file is not None and not artifact.files and "{{" not in artifact.file and not paths.refusal(artifact.file):
            yield name, paths.escape(artifact.file), ("artifacts", name, "file")
        for index, path in enumerate(artifact.documents, 1):
            yield name, paths.escape(path), ("artifacts", name, "file", index)


def _overlaps(c: Context) -> None:
    """Each path belongs to one artifact: else two steps could overwrite each other's files."""
    seen: list[tuple[str, str]] = []
    told: set[tuple[str, str]] = set()
    for name, pattern, where in _owned(c):
        for other, theirs in seen:
            if other != name and (other, name) not in told and _may_meet(theirs,
                                                                         pattern) and (path := paths.overlap(theirs, pattern)):
                told.add((other, name))
                c.say("files-overlap", where, f"`{name}` and `{other}` both own the path `{path}`",
                      "make the patterns apart, so that each path belongs to one artifact")
        seen.append((name, pattern))


def _may_meet(first: str, second: str) -> bool:
    """Whether what stands before the wildcards agrees; cheap, so that many patterns can be compared."""
    one, other = _WILD.split(first, maxsplit=1)[0], _WILD.split(second, maxsplit=1)[0]
    return one.startswith(other) or other.startswith(one)
