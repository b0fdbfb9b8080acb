"""What is told of a name, a field, a function or a method that is not there: whose habit it is, or what is nearest.

A fault is (code, message, mend).
"""

from __future__ import annotations

import re

from jinja2 import nodes

from metaflow_agents.errors import did_you_mean, nearest
from metaflow_agents.prompts import migration_hints as habits
from metaflow_agents.prompts.environment import FUNCTIONS
from metaflow_agents.prompts.filters import FILTERS
from metaflow_agents.prompts.scopes import Function, TemplateScopes
from metaflow_agents.prompts.written import written
from metaflow_agents.schema.shape import Shape

_PLACES = {"loop": "inside a `{% for %}` only", "caller": "inside a macro only", "super": "inside a block only"}


def name_fault(name: str, scopes: TemplateScopes) -> tuple[str, str, str]:
    """Of a name that is not in scope."""
    known = [*scopes.known(), *FUNCTIONS]
    if name in scopes.partial:
        return "unknown-name", f"`{name}` is set in some branches only", "set it before the `{% if %}`, or in each branch"
    if name in scopes.forgotten:
        return ("unknown-name", f"there is no `{name}` here: it was set inside a loop or block, which forgets it",
                "set it outside, or use `{% set ns = namespace(…) %}` and `{% set ns.x = … %}`")
    if name in habits.NAMES and nearest(name, known) is None:
        word = habits.NAMES[name]
        constant = word in ("none", "true", "false")
        return ("python-habit" if constant else "unknown-name", f"there is no `{name}` here",
                f"write `{word}`" if constant else f"write {word}")
    if name in ("self", *_PLACES):
        return ("refused-feature" if name != "loop" else "unknown-name", f"`{name}` is known {_PLACES.get(name, 'nowhere here')}",
                "use a macro" if name == "self" else "leave it out")
    return "unknown-name", f"there is no `{name}` here", did_you_mean(name, known)


def function_fault(name: str, first: nodes.Node | None, scopes: TemplateScopes) -> tuple[str, str, str]:
    """Of a function that is not there and is called with this first argument."""
    if name in habits.FUNCTIONS:
        mend = re.sub(r"\bx\b", lambda _: written(first) or "x", habits.FUNCTIONS[name])
        return "python-habit", f"there is no function `{name}`", f"write `{mend}`"
    if name in FILTERS:
        return "unknown-function", f"`{name}` is a filter, no function", f"write `x | {name}`"
    if name in _PLACES:
        return name_fault(name, scopes)
    functions = [known for known in scopes.known() if isinstance(scopes.local(known), Function)]
    return "unknown-function", f"there is no function `{name}`", did_you_mean(name, [*functions, *FUNCTIONS, "history"])


def method_fault(owner: str, method: str) -> tuple[str, str, str]:
    """Of a method that is called on a value."""
    if method in habits.METHODS:
        mend = "write `" + re.sub(r"\bx\b", lambda _: owner, habits.METHODS[method]) + "`"
    else:
        mend = "values have no methods; use a filter: `x | filter`"
    return "call-of-value", f"`.{method}(…)` can't be called", mend


def field_fault(base: Shape, name: str, owner: str) -> tuple[str, str, str]:
    """Of a field that values of a shape do not have. `owner`: how the value is written; empty where that is long."""
    kinds, value = base.kinds - {"null"}, owner or "the value"
    if name in habits.LENGTHS and kinds & {"list", "string", "object"} and nearest(name, base.fields()) is None:
        return "python-habit", f"`.{name}` is no field of {value}", f"write `{owner or 'x'} | length`"
    if kinds == {"list"}:
        mend = f"take an item, or `map(attribute='{nearest(name, base.item().fields()) or name}')`"
        return "unknown-attribute", f"{value} is a list and has no `.{name}`", mend
    if kinds & {"object", "files", "collection"}:
        return "unknown-attribute", f"{value} has no field `{name}`", did_you_mean(name, base.fields())
    if nearest(name, base.fields()) is not None:        # of a text that may be a file
        return "unknown-attribute", f"{value} has no field `{name}`", did_you_mean(name, base.fields())
    return ("unknown-attribute", f"{value} is {base.describe()} and has no fields", f"write `{owner}` alone" if owner else "")
