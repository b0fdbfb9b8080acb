"""A template without statements, cut into its literal parts and its expressions; positions are kept."""

from __future__ import annotations

from jinja2.exceptions import TemplateSyntaxError

from metaflow_agents.errors import ExpressionError
from metaflow_agents.prompts.environment import sandbox
from metaflow_agents.prompts.running import plainly


def split_template(template: str) -> tuple[tuple[bool, str], ...]:
    """Parts `(is an expression, text)`. Raises ExpressionError on statements, comments and what can't be read."""
    parts: list[tuple[bool, str]] = []
    inside: list[str] | None = None
    try:
        for _, token, text in sandbox().lexer.tokeniter(template, None):
            if token == "variable_begin":
                inside = []
            elif token == "variable_end":
                parts.append((True, "".join(inside or []).strip()))
                inside = None
            elif inside is not None:
                inside.append(text)
            elif token == "data":
                parts.append((False, text))
            else:
                raise ExpressionError(f"`{template}`: only `{{{{ value }}}}` may stand in a path pattern")
    except TemplateSyntaxError as error:
        raise ExpressionError(f"`{template}`: {plainly(error)}") from None
    if inside is not None:
        raise ExpressionError(f"`{template}`: `{{{{` is not closed; add `}}}}`")
    return tuple(parts)
