"""Templates rendered to text: prompts, path patterns, arguments."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from jinja2 import nodes

from metaflow_agents.errors import ExpressionError
from metaflow_agents.prompts.expressions import evaluate
from metaflow_agents.prompts.limits import MAX_SOURCE, MAX_TEXT
from metaflow_agents.prompts.operations import kind
from metaflow_agents.prompts.running import UNREADABLE, compiled_template, parse_expression, told
from metaflow_agents.prompts.splitting import split_template
from metaflow_agents.prompts.values import MISSING
from metaflow_agents.schema.paths import escape


@lru_cache(maxsize=1024)
def _is_plain(text: str) -> bool:
    """Whether a template is nothing but its text, as many a task is: what Jinja2 would make of it is itself."""
    if len(text) > MAX_SOURCE or "{" in text or "\r" in text:
        return False
    return not any("\ud800" <= character <= "\udfff" for character in text)


def render(template: str, scope: Mapping[str, Any], templates: Mapping[str, str] | None = None, *, name: str = "") -> str:
    """The text of a template. `templates` are those that it may include, extend or import, by file name.

    Raises ExpressionError with line and source; `name` is how messages call the template.
    """
    if _is_plain(template):
        return template
    with told(template, scope, name):
        ready = compiled_template(template, frozenset((templates or {}).items()))
        pieces, size = [], 0
        for piece in ready.root_render_func(ready.new_context(dict(scope))):
            size += len(piece)
            if size > MAX_TEXT:
                raise ExpressionError(f"the rendered text is longer than {MAX_TEXT // 2**20} MiB; fix: put less into it")
            pieces.append(piece)
        text = "".join(pieces)
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ExpressionError("the rendered text holds half of a surrogate pair, which is no character") from None
        return text


@lru_cache(maxsize=1024)
def _parts(template: str) -> tuple[tuple[bool, str], ...]:
    """A text without statements in its parts: (is an expression, its text). Raises ExpressionError where it has statements."""
    return split_template(template)


def render_pattern(template: str, scope: Mapping[str, Any]) -> str:
    """A path pattern: a value put in is text or a whole number, and is glob-escaped, so `app/[slug]` matches itself.

    Raises ExpressionError on other values, and on statements, which a pattern can't have.
    """
    made = []
    for is_expression, part in _parts(template):
        if not is_expression:
            made.append(part)
            continue
        value = evaluate(part, scope)
        value = str(value) if type(value) is int else value
        if not isinstance(value, str) or not value:
            why = "it is missing" if value is MISSING else "it is empty" if value == "" else f"it is {kind(value)}"
            raise ExpressionError(f"`{template}`: `{part}` must be text or a whole number to stand in a path; {why}")
        made.append(escape(value))
    return "".join(made)


def render_args(args: Any, scope: Mapping[str, Any]) -> Any:
    """Arguments with every text rendered; a text that is exactly one `{{ expression }}` keeps the value's type.

    Mappings and lists are walked; keys stay as they are. A missing value of a whole argument becomes None.
    """
    if isinstance(args, Mapping):
        return {key: render_args(inner, scope) for key, inner in args.items()}
    if isinstance(args, list | tuple):
        return [render_args(inner, scope) for inner in args]
    if not isinstance(args, str) or "{" not in args:
        return args
    only = sole_expression(args)
    if only is None:
        return render(args, scope)
    value = evaluate(only, scope)
    return None if value is MISSING else value


@lru_cache(maxsize=1024)
def sole_expression(template: str) -> str | None:
    """The expression of a text that is exactly one `{{ expression }}`, else None."""
    text = template.strip()
    if not (text.startswith("{{") and text.endswith("}}")):
        return None
    inner = text[2:-2].removeprefix("-").removeprefix("+").removesuffix("-").removesuffix("+").strip()
    try:
        tree = parse_expression(inner)
    except UNREADABLE:
        return None
    return inner if isinstance(tree, nodes.Expr) else None
