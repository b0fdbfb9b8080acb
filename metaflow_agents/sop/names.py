"""Names that may not be used, and written forms that pydantic alone would let pass as something else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from metaflow_agents.errors import Problem, did_you_mean, nearest
from metaflow_agents.schema.scalars import NAME_PATTERN
from metaflow_agents.schema.sop import INPUT_KEYS, is_whole_input
from metaflow_agents.sop.migration_hints import FOREACH, FOREIGN, dbt_references, strategy_matrix
from metaflow_agents.sop.places import Path, Places
from metaflow_agents.sop.shape_errors import unknown_key

RESERVED = frozenset({
    "item", "key", "prior", "round", "run", "role", "step", "history", "missing",
    "true", "false", "none", "True", "False", "None", "null", "not", "and", "or", "in", "is", "if", "else",
})
"""Names that expressions and templates have already: variables of the language, and words of Jinja2."""

_NAME = re.compile(NAME_PATTERN)
_ALIASED = {"schema_": "artifact", "in_": "foreach", "as_": "foreach", "assert_": "rule"}


def is_name(written: str) -> bool:
    """Whether a text may name a step, role, artifact or input."""
    return _NAME.fullmatch(written) is not None


def role_not_found(name: str, existing: Iterable[str], file: str, place: tuple[int, int]) -> Problem:
    """The problem of a role that is neither written here nor has a file."""
    return Problem("role-not-found", f"the role `{name}` has no file `roles/{name}.yaml` and is not written here",
                   f"write its `profile` or `goal`, or make the file; {did_you_mean(name, existing)}", file, *place)


def problems_of(data: dict[str, Any], merged: dict[str, Any], places: Places) -> Iterator[Problem]:
    """Reserved names, habits hidden in known keys, and inputs with a misspelt key."""
    for part in ("artifacts", "inputs"):
        for name in _mapping(data.get(part)):
            if name in RESERVED:
                yield _reserved(name, (part, name), places, key=True)
    for name, step in _mapping(merged.get("steps")).items():
        foreach = _mapping(_mapping(step).get("foreach"))
        given = foreach.get("as")
        if isinstance(given, str) and given != "item" and given in RESERVED:
            yield _reserved(given, ("steps", name, "foreach", "as"), places, key=False)
        yield from _python_names(foreach, ("steps", name, "foreach"), places)
    yield from _artifacts(merged.get("artifacts"), places)
    for strategy, key in strategy_matrix(merged.get("steps")):
        yield Problem("foreign-key", f"`strategy: {{{key}: …}}` is a key of GitHub Actions", FOREACH,
                      *places.at((*strategy, key), key=True))
    for place, text in dbt_references(merged.get("steps")):
        yield Problem("foreign-key", f"`{text[:60]}` is a key of dbt", "write the artifact's name alone", *places.at(place))
    yield from _inputs(data.get("inputs"), places)
    yield from price_names(data.get("models"), places)


def _reserved(name: str, place: Path, places: Places, *, key: bool) -> Problem:
    return Problem("reserved-name", f"`{name}` is reserved by the language and can't be a name here",
                   f"call it `{name}_` or otherwise", *places.at(place, key=key))


def _artifacts(artifacts: Any, places: Places) -> Iterator[Problem]:
    for name, artifact in _mapping(artifacts).items():
        yield from _python_names(_mapping(artifact), ("artifacts", name), places)
        rules = _mapping(artifact).get("rules")
        for index, rule in enumerate(rules if isinstance(rules, list) else []):
            yield from _python_names(_mapping(rule), ("artifacts", name, "rules", index), places)


def _python_names(written: dict[str, Any], place: Path, places: Places) -> Iterator[Problem]:
    """Models take `in_` for `in`; the language does not."""
    for key, kind in _ALIASED.items():
        if key in written:
            yield unknown_key(kind, (*place, key), places)


def _inputs(inputs: Any, places: Places) -> Iterator[Problem]:
    """`{type: string, desription: …}` would pass as a schema with the fields `type` and `desription`."""
    for name, given in _mapping(inputs).items():
        for key in misspelt_input_keys(given):
            yield unknown_key("input", ("inputs", name, key), places)


def misspelt_input_keys(given: Any) -> list[str]:
    """Keys beside `type`, `description` or `default` that were meant as one of these, not as fields of a schema."""
    if not isinstance(given, dict) or not set(INPUT_KEYS) & set(given) or is_whole_input(given):
        return []
    about = given.get("description")
    cut = isinstance(about, str) and "type" in given                # `{type: string, description: The first, and others}`
    return [key for key in islice(given, 50) if key not in INPUT_KEYS and (
        key in FOREIGN["input"] or nearest(key, INPUT_KEYS) or (cut and given[key] is None and " " in f"{about}{key}"))]


def price_names(models: Any, places: Places) -> Iterator[Problem]:
    """`in_` where the language says `in`."""
    for name, model in _mapping(models).items():
        if "in_" in _mapping(_mapping(model).get("price")):
            yield unknown_key("price", ("models", name, "price", "in_"), places)


def _mapping(written: Any) -> dict[str, Any]:
    return written if isinstance(written, dict) else {}
