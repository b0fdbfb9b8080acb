"""How prompts show what a step reads: `show`, files beside the tools that read them, and lists beside each of their items."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from metaflow_agents.errors import did_you_mean
from metaflow_agents.prompts.names import named_paths
from metaflow_agents.prompts.printed import Path, listed_paths, printed_paths
from metaflow_agents.schema import paths
from metaflow_agents.schema.shape import Shape
from metaflow_agents.schema.step import Step, ToolChoice
from metaflow_agents.sop.checks.context import Context
from metaflow_agents.sop.checks.expressions import Scope, template
from metaflow_agents.sop.checks.files import ONLY_VALUES
from metaflow_agents.sop.graph import reads
from metaflow_agents.sop.naming import included, task_texts

READERS = ("read", "search")
"""Tools by which a role can look into the files that its step reads."""
LOOKERS = (*READERS, "list", "map")
"""Tools that are of no use where a step has no files."""
_DEEPEST = 8                        # fields in fields, after which a schema that refers to itself is not followed


def check_show(c: Context, name: str, step: Step, scope: Scope) -> None:
    """A step's `show`. `scope`: what its templates may name for each item."""
    if c.doers.get(name) == "role":
        _pasted(c, name, step, _lists(c, name, step))
        _blind(c, name, step)
        _unprinted(c, name, step)
    for artifact, how in step.show.items():
        where = ("steps", name, "show", artifact)
        item = step.foreach.as_ if step.foreach is not None else None
        if artifact not in reads(step) and artifact != item:
            if c.own("steps", name, "show"):
                known = [*reads(step), *([item] if item else [])]
                c.say("show-unread", where, f"`show` says how prompts show `{artifact}`, and `{name}` does not read it",
                      did_you_mean(artifact, known) if known else "remove it; the step reads nothing", key=True)
        elif how == "rendered":
            spec = c.sop.artifacts.get(artifact)
            if spec is None or spec.render is None:
                c.say("show-rendered", where, f"`{artifact}` has no `render` template",
                      "write `whole`, `none`, `names`, or a list of its parts" + ("" if spec is None else
                      "; or give the artifact `render: TEMPLATE` and `file: PATH`"))
        elif not isinstance(how, str):
            whole = c.shape(artifact) if artifact != item else c.walked[name].item() if name in c.walked else Shape.any()
            _parts(c, name, artifact, how, whole, scope)


def _parts(c: Context, name: str, artifact: str, listed: tuple[str, ...], whole: Shape, scope: Scope) -> None:
    shape = whole.item() if whole.kind == "list" else whole
    if not shape.kinds & {"any", "object", "files", "collection", "list"}:
        c.say("show-part", ("steps", name, "show", artifact),
              f"`{artifact}` is {whole.describe()}, which has no parts",
              "write `whole` or `none`")
        return
    for index, part in enumerate(listed):
        where = ("steps", name, "show", artifact, index)
        template(c, where, part, scope, name)
        if shape.kind == "files" and ("{%" in part or "{#" in part):
            c.say("show-part", where, f"the pattern `{part}` is refused: {ONLY_VALUES}",
                  "write a pattern like `src/**`, or a path")
        if "{{" in part or "{%" in part:
            continue
        if shape.kind == "files" and (why := paths.pattern_refusal(part)):
            c.say("show-part", where, f"the pattern `{part}` is refused: {why}", "write a pattern like `src/**`, or a path")
        elif shape.kind == "files" and (places := _places(c, artifact)) and not any(paths.overlap(part, one) for one in places):
            c.say("show-part", where, f"`{part}` matches no file that `{artifact}` can have: its files are {', '.join(places)}",
                  "write a pattern of its paths")
        elif shape.kinds <= {"object", "null"} and not _has(shape, part):
            c.say("show-part", where, f"`{artifact}` has no field `{part}`", did_you_mean(part, shape.fields()))


def _places(c: Context, artifact: str) -> tuple[str, ...]:
    """The patterns of an artifact's files; empty where they are not known before a run."""
    files = c.sop.artifacts[artifact].files if artifact in c.sop.artifacts else ()
    return () if any("{{" in one or paths.pattern_refusal(one) for one in files) else files


def _has(shape: Shape, part: str) -> bool:
    return shape.field(part) is not None


def _lists(c: Context, name: str, step: Step) -> set[str]:
    """Artifacts whose list a `foreach` goes over, and that stand in the prompt of each item. Gives those that were told."""
    told: set[str] = set()
    named = [path for text in task_texts(c.program, step) for path in named_paths(text)]
    for artifact, *fields in sorted(listed_paths(step.foreach.in_)) if step.foreach and _walks(c, name) else ():
        shape = c.shape(artifact)
        presented = any(path[0] == artifact and _presents(shape, path[1:], unknown=True) for path in named)
        if artifact not in reads(step) or artifact in (*step.show, *told) or presented:
            continue
        told.add(artifact)
        count = _count(c, artifact, fields) or 100
        c.say("list-pasted", ("steps", name, "foreach", "in"),
              f"`{name}` goes over `{'.'.join((artifact, *fields))}`, and all of `{artifact}` stands in the prompt of each item, "
              f"beside the item itself: {count} items make {count} copies, so that the cost grows as the square of the list",
              _less(c, name, step, artifact, fields))
    return told


def _walks(c: Context, name: str) -> bool:
    """Whether a step's `foreach` is sound: what is wrong with it is told, and that alone."""
    return name in c.walked and bool(c.walked[name].kinds & {"any", "list"})


def _count(c: Context, artifact: str, fields: Collection[str]) -> int | None:
    """How long a list is, where the file says it: in the default of an input, or in an artifact's first value."""
    given, spec = c.sop.inputs.get(artifact), c.sop.artifacts.get(artifact)
    value: Any = given.default if given is not None else spec.initial if spec is not None else None
    for field in fields:
        value = value.get(field) if isinstance(value, Mapping) else None
    return len(value) if isinstance(value, list | Mapping) and len(value) > 1 else None


def _less(c: Context, name: str, step: Step, artifact: str, fields: Collection[str]) -> str:
    """What to write instead of nothing, the shortest prompt first."""
    shape, spec, item = c.shape(artifact), c.sop.artifacts.get(artifact), step.foreach.as_ if step.foreach else "item"
    by_key = not fields and bool(shape.kinds & {"files", "collection", "object"})
    keyed = by_key and name in c.walked and c.walked[name].item().kinds == {"string"}
    others = [] if by_key else [field for field in shape.fields() if field not in fields]
    first = f'`show: {{{artifact}: ["{{{{ {item} }}}}"]}}` for its own part' if keyed else (
        f"`show: {{{artifact}: none}}` where the item is enough")
    ways = [f"`[{', '.join(others[:3])}]` for some of its fields"] if others else []
    ways += ["`rendered` for its `render` template"] if spec is not None and spec.render is not None else []
    return ", ".join([f"add {first}", *ways]) + "; `whole` where each item needs all of it"


def _pasted(c: Context, name: str, step: Step, told: Collection[str]) -> None:
    """Any number of files, whole in the prompt of a role that has tools to read them. Of those in `told` it was said already."""
    tools = [tool for tool in c.sop.tools_of(step) if tool in READERS]
    presented = {path[0] for text in task_texts(c.program, step) for path in named_paths(text) if len(path) == 1}
    for artifact in reads(step) if tools else ():
        if artifact in step.show or artifact in presented or artifact in told or c.shape(artifact).kind != "files":
            continue
        spec = c.sop.artifacts.get(artifact)
        if spec is None or any(paths.literal(pattern) is None for pattern in spec.files):
            c.say("files-pasted", ("steps", name), f"all files of `{artifact}` stand in the prompt of `{name}`, whose role could "
                  f"{' and '.join(f'`{tool}`' for tool in tools)} them",
                  f"add `show: {{{artifact}: names}}`; `whole` where all of them shall stand there", key=True)


def _blind(c: Context, name: str, step: Step) -> None:
    """Tools that look into files, in a step that has none: each call of them is paid for and finds nothing. Of a role or tools
    that are chosen during the run nobody knows that.
    """
    if step.role not in c.sop.roles or isinstance(step.tools, ToolChoice):
        return
    tools = [tool for tool in c.sop.tools_of(step) if tool in LOOKERS]
    made = c.sop.artifacts.get(step.makes.artifact)
    if tools and not (made and made.files) and all(c.shape(one).kind not in ("files", "any") for one in reads(step)):
        c.say("files-unseen", ("steps", name), f"`{name}` gives its role {', '.join(f'`{tool}`' for tool in tools)}, and "
              "reads no files that these could look into", "add a folder, or an artifact with `files`, to `sees`; or "
              "`tools: []`, where the task has all that it needs", key=True)


def _unprinted(c: Context, name: str, step: Step) -> None:
    """Fields of an artifact that the task does not print, and that stand nowhere else (`Material` leaves out what a task names).

    Results of commands and failures have the fields that this package gives them, of which a task names what it needs.
    """
    task = step.task or ""
    printed = printed_paths(task, tuple(included(c.program, task).items()))
    if printed is None:
        return
    whole_items = name in c.walked and "object" in c.walked[name].item().kinds
    items = listed_paths(step.foreach.in_) if step.foreach and whole_items else ()
    for artifact in reads(step):
        named = [path[1:] for text in task_texts(c.program, step) for path in named_paths(text) if path[0] == artifact]
        shape = c.shape(artifact)
        kept = artifact in step.show or shape.file or c.fixed(artifact) is not None       # a file may be sent as a picture
        if kept or not any(_presents(shape, path) for path in named):
            continue
        reached = [path for path in printed.whole | {path for path in printed.asked if len(path) > 1} if path[0] == artifact]
        fields = list(_leaves(shape, (artifact,)))
        if any(not any(path == field[:len(path)] or field == path[:len(field)] for field in fields) for path in reached):
            continue                                        # a key, or what no schema names: what is printed can't be told
        lost = [field for field in fields if _words(shape, field) and not any(path == field[:len(path)] for path in reached)
                and not any(path == field[:len(path)] for path in items)]           # each item shows its own
        if lost:
            told = ", ".join(f"`{'.'.join(field)}`" for field in lost)
            all_of = artifact not in {path[0] for path in items}                    # else each item would be shown the others
            way = "whole" if all_of else f"[{', '.join(dict.fromkeys(field[1] for field in lost))}]"
            c.say("fields-unshown", ("steps", name, "task"), f"`task` names `{artifact}`, so the prompt contains it nowhere "
                  f"else, but it does not print {told}", f"print what is missing, or add `show: {{{artifact}: {way}}}`; "
                  f"`show: {{{artifact}: none}}` where nobody needs it", key=True)


def _words(shape: Shape, fields: Path) -> bool:
    """Whether a field can hold words: a choice, a number or a yes is mostly there for `when`, and nobody misses it."""
    part = shape
    for field in fields[1:]:
        while part.kind in ("list", "collection"):
            part = part.element or part.item()
        part = part.field(field) or Shape.any()
    return any(one.kind not in ("boolean", "integer", "number", "null") and "enum" not in one.schema and "const" not in one.schema
               for one in part.branches or (part,))


def _presents(shape: Shape, fields: Path, *, unknown: bool = False) -> bool:
    """Whether a task that names this part of a value shows the value in the place of the material. `unknown`: what to
    say where the schema does not tell.
    """
    part: Shape | None = shape
    for field in fields:
        part = None if part is None else part.field(field)
    return not fields or (part is not None and bool(part.kinds & {"object", "list"} or (unknown and "any" in part.kinds)))


def _leaves(shape: Shape, path: Path, depth: int = 0) -> Iterator[Path]:
    """The fields that a schema names, those in items and in other fields included."""
    while shape.kind in ("list", "collection") and depth < _DEEPEST:
        shape, depth = shape.element or shape.item(), depth + 1
    if shape.kind != "object" or not shape.fields() or depth >= _DEEPEST:
        yield path
        return
    for field in shape.fields():
        yield from _leaves(shape.field(field) or Shape.any(), (*path, field), depth + 1)
