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
def named_paths(text: str, *, template: bool = True) -> frozenset[tuple[str, ...]]:
    """What a template (or an expression) names, part by part: `("design", "package")` for `design.package`, `("design",)` for
    the whole.
    """
    if template and "{" not in text:
        return frozenset()
    analysed = analyse_template if template else analyse_expression
    return analysed(text, {name: Shape.any() for name in analysed(text, {}).names}).paths


def names_the_run(text: str, *, template: bool = False) -> bool:
    """Whether a text names more of `run` than its inputs: two runs on the same inputs differ in it."""
    return any(path[0] == "run" and path[1:2] != ("inputs",) for path in named_paths(text, template=template))
