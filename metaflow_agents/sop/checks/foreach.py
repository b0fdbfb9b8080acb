"""`foreach`: a list to walk, an item's key, what it waits for, and what such a step can make."""

from __future__ import annotations

from metaflow_agents.schema.shape import Shape
from metaflow_agents.schema.step import Foreach, Step
from metaflow_agents.sop.checks.context import Context, Place
from metaflow_agents.sop.checks.expressions import expression, step_scope
from metaflow_agents.sop.graph import reads

_CLOSED = frozenset({"string", "number", "integer", "boolean", "null", "object", "files", "collection"})


def check_foreach(c: Context, name: str, step: Step) -> Shape:
    """Tells the faults of a step's `foreach`; gives the shape of its item."""
    foreach = step.foreach
    if foreach is None:
        return Shape.any()
    where: Place = ("steps", name, "foreach")
    _item_name(c, name, step, foreach)
    item = _list(c, name, step, foreach)
    scope = step_scope(c, name, step, item)
    scope.pop("key", None), scope.pop("prior", None)         # both follow from what is worked out here
    if foreach.where is not None:
        expression(c, (*where, "where"), foreach.where, scope, name)
    if foreach.key is None or c.has(*where, "key"):           # what a graph gave is told where the graph stands
        _key(c, name, foreach, item, scope)
    if c.has(*where, "after"):
        _after(c, name, foreach, scope)
    return item


def check_makes(c: Context) -> None:
    """A `foreach` step makes a collection or files; any other step makes anything but a collection."""
    for name, step in c.sop.steps.items():
        made = step.makes.artifact
        artifact = c.sop.artifacts.get(made)
        if artifact is None or made in c.sop.inputs:
            continue
        where = _makes_place(c, name, made)
        collection = "each" in artifact.model_fields_set
        if step.foreach and not collection and not artifact.files:
            c.say("foreach-makes", where[0], f"`{name}` has a `foreach`, and `{made}` is one value: it needs one for each item",
                  f"declare `{made}: {{each: SCHEMA}}` (a collection by key), or `{{files: PATTERN}}`", key=where[1])
            c.muted.add(made)
        elif not step.foreach and collection:
            c.say("each-makes", where[0], f"`{made}` is a collection, and `{name}` has no `foreach`",
                  f"give `{name}` a `foreach`, or declare `{made}` with `schema` instead of `each`", key=where[1])
            c.muted.add(made)


def _makes_place(c: Context, step: str, artifact: str) -> tuple[Place, bool]:
    keyed: Place = ("steps", step, "makes", artifact)
    return (keyed, True) if c.has(*keyed) else (("steps", step, "makes"), False)


def _item_name(c: Context, name: str, step: Step, foreach: Foreach) -> None:
    taken = foreach.as_
    where: Place = ("steps", name, "foreach", "as")
    if taken in reads(step):
        c.say("item-name", where if c.has(*where) else where[:-1], f"the item is called `{taken}`, as what `{name}` reads",
              "give the item another name with `as`")


def _list(c: Context, name: str, step: Step, foreach: Foreach) -> Shape:
    where: Place = ("steps", name, "foreach", "in")
    analysis = expression(c, where, foreach.in_, step_scope(c, name, step), name)
    if analysis is None or analysis.findings:
        return Shape.any()
    c.walked[name] = analysis.shape
    kinds = analysis.shape.kinds
    if kinds <= _CLOSED:
        mend = "give a list"
        fields = [field for field in analysis.shape.fields() if _listed(analysis.shape.field(field))]
        if kinds & {"files", "collection"}:
            mend = f"write `{foreach.in_} | list` for its keys"
        elif fields:
            mend = f"its lists are: {', '.join(f'`{foreach.in_}.{field}`' for field in fields)}"
        c.say("foreach-list", where, f"`in` gives {analysis.shape.describe()}; it must be a list", mend)
        return Shape.any()
    return analysis.shape.item()


def _listed(shape: Shape | None) -> bool:
    return shape is not None and shape.kind == "list"


def _key(c: Context, name: str, foreach: Foreach, item: Shape, scope: dict[str, Shape]) -> None:
    where: Place = ("steps", name, "foreach", "key")
    if foreach.key is None and any(problem.code == "bad-graph" for problem in c.problems):
        return                                                # it would come from there
    if foreach.key is None:
        if not item.kinds & {"any", "string"}:
            texts = [field for field in item.fields() if (found := item.field(field)) and found.kind == "string"]
            c.say("key-missing", where[:-1], f"the items are {item.describe()}, no texts: each needs a `key`",
                  f"add `key: {foreach.as_}.{texts[0]}`" if texts
                  else "add `key:`, an expression that gives a different text for each item")
        return
    analysis = expression(c, where, foreach.key, scope, name)
    if analysis and not analysis.findings and not analysis.shape.kinds & {"any", "string"}:
        written = f"({foreach.key})" if " " in foreach.key else foreach.key
        number = analysis.shape.kinds <= {"number", "integer", "boolean"}
        c.say("key-text", where, f"`key` gives {analysis.shape.describe()}; it must be a text",
              f"write `{written} | string`" if number else "name a field that is a text")


def _after(c: Context, name: str, foreach: Foreach, scope: dict[str, Shape]) -> None:
    if foreach.after is None:
        return
    where: Place = ("steps", name, "foreach", "after")
    analysis = expression(c, where, foreach.after, scope, name)
    if analysis is None or analysis.findings:
        return
    shape = analysis.shape
    if not shape.kinds & {"any", "list"}:
        c.say("after-list", where, f"`after` gives {shape.describe()}; it must be a list of keys",
              f"write `[{foreach.after}]`" if shape.kind == "string" else "give the keys of the items that come first")
    elif "list" in shape.kinds and not shape.item().kinds & {"any", "string"}:
        change = "map(attribute='FIELD')" if shape.item().kind == "object" else "map('string')"
        c.say("after-list", where, f"`after` gives a {shape.describe()}; it must be a list of keys, which are texts",
              f"write `{foreach.after} | {change}`")
