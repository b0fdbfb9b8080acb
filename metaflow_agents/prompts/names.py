"""Which names an expression or a template uses, without looking at what they are."""

from __future__ import annotations

from functools import lru_cache

from metaflow_agents.prompts.analysis import analyse_expression, analyse_template
from metaflow_agents.schema.shape import Shape


@lru_cache(maxsize=4096)
def free_names(text: str, *, template: bool = False) -> frozenset[str]:
    """The names that an expression (or a template) takes from its scope."""
    if template and "{" not in text:
        return frozenset()
    return (analyse_template(text, {}) if template else analyse_expression(text, {})).names


@lru_cache(maxsize=4096)
def histories(text: str, *, template: bool = False) -> frozenset[str]:
    """The artifacts whose earlier versions an expression (or a template) asks for by `history('x')`."""
    if template and "{" not in text:
        return frozenset()
    return (analyse_template(text, {}) if template else analyse_expression(text, {})).histories


@lru_cache(maxsize=4096)
def named_paths(template: str) -> frozenset[tuple[str, ...]]:
    """What a template names, part by part: `("design", "package")` for `design.package`, `("design",)` for the whole."""
    if "{" not in template:
        return frozenset()
    names = analyse_template(template, {}).names
    return analyse_template(template, {name: Shape.any() for name in names}).paths
