"""Which names an expression or a template uses, without looking at what they are."""

from __future__ import annotations

from functools import lru_cache

from metaflow_agents.prompts.analysis import analyse_expression, analyse_template


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
