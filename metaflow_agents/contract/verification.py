"""The contract check: what was written, against what the design promised. Nothing of it is imported or run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from metaflow_agents.contract.circles import Circles
from metaflow_agents.contract.declared import interfaces
from metaflow_agents.contract.dependencies import Environment, Imports, normal
from metaflow_agents.contract.fault import Fault
from metaflow_agents.contract.packaging import Packaging
from metaflow_agents.contract.promised import Promised
from metaflow_agents.contract.repository import Repository, module_of
from metaflow_agents.contract.uses import Uses

_OLDEST = 7                                       # the oldest minor version that `ast` can still be asked for


def verify(source: dict[str, str], packaging: dict[str, str] | None, design: dict[str, Any]) -> dict[str, Any]:
    """Whether the files keep what their design promises: `{ok, faults: [{path, why}], unchecked: [path]}`.

    `source` and `packaging` are path → text, `design` is as `design.schema.yaml` has it. Each fault names the file that has to
    change: one of `source`, `pyproject.toml`, or `design` where no file can mend it and the architect has to. `why` says the
    line, the name, what the design says, what stands there, and the mend. `unchecked` are files that are not Python: they are
    there, and that is all that is known of them. Without `packaging` (None) nothing is said of it. Faults come in the order of
    paths and lines.
    """
    return verified(source, packaging, design, Environment())


def verified(source: Mapping[str, str], packaging: Mapping[str, str] | None, design: Mapping[str, Any],
             environment: Environment) -> dict[str, Any]:
    """As `verify`, with the environment in which the code is to run."""
    faults = sorted(set(_faults(source, packaging, design, environment)))
    listed = {file["path"] for file in design["files"]}
    unchecked = sorted(path for path in listed | set(source) if not path.endswith(".py"))
    return {"ok": not faults, "faults": [fault.as_json() for fault in faults], "unchecked": unchecked}


def _faults(source: Mapping[str, str], packaging: Mapping[str, str] | None, design: Mapping[str, Any],
            environment: Environment) -> Iterator[Fault]:
    packed = None if packaging is None else Packaging(packaging)
    yield from _missing(source, design)
    modules = []
    for path, text in source.items():
        if not path.endswith(".py"):
            continue
        tree = _parsed(path, text, packed.lowest_python if packed else None)
        if isinstance(tree, Fault):
            yield tree
        else:
            modules.append(module_of(path, tree))
    wanted = {*source, *(file["path"] for file in design["files"])}
    repository = Repository(modules, [path for path in wanted if path.endswith(".py")])
    yield from _of_code(repository, design, packed, environment)
    if packed is not None:
        yield from packed.faults(design, repository, environment)


def _missing(source: Mapping[str, str], design: Mapping[str, Any]) -> Iterator[Fault]:
    for file in design["files"]:
        path = file["path"]
        if path not in source:
            names = [entry["signature"] for entry in file["interface"]]
            promised = f"; it is to define {'; '.join(f'`{name}`' for name in names)}" if names else ""
            yield Fault(path, 0, f"`{path}` is missing; the design has it for: {file['purpose']}{promised}; mend: write it")
    for path in source:
        twin = path.removesuffix(".py") + "/__init__.py"
        if path.endswith(".py") and twin in source:
            yield Fault(
                path, 0, f"`{path}` and `{twin}` are one module to Python, and only the folder is found; mend: keep one of them"
            )


def _parsed(path: str, text: str, lowest: int | None) -> ast.Module | Fault:
    """The tree of a file, by the grammar of the oldest Python that the packaging admits."""
    version = None if lowest is None or lowest < _OLDEST else (3, lowest)
    try:
        return ast.parse(text, feature_version=version)
    except SyntaxError as error:
        shown = (error.text or "").strip()[:80]
        by = f" of Python 3.{lowest}" if lowest else ""
        return Fault(path, error.lineno or 0, f"`{path}` is no Python{by}: {error.msg}" + (f": `{shown}`" if shown else "")
                     + "; mend: write the file as valid Python")
    except (ValueError, RecursionError, MemoryError) as error:
        return Fault(path, 0, f"`{path}` can't be read as Python: {error or type(error).__name__}; mend: write the file anew")


def _of_code(
    repository: Repository, design: Mapping[str, Any], packed: Packaging | None, environment: Environment
) -> Iterator[Fault]:
    told: set[tuple[str, str]] = set()
    for path, entries in interfaces(design).items():
        module = repository.by_path.get(path)
        if module is None:
            continue                             # missing or broken, which is told already
        promised = Promised(repository, module, entries)
        yield from promised.faults()
        told |= {(path, name) for name in promised.told}

    def blamed(path: str, name: str) -> bool:
        return (path, name) in told

    names = {normal(one["name"]) for one in design.get("dependencies", ())}
    imports = Imports({*names, *(packed.all_dependencies if packed else ())}, environment)
    for module in repository.modules.values():
        yield from Uses(repository, module, blamed).faults()
        yield from imports.faults(repository, module)
    uses = {file["path"]: file["uses"] for file in design["files"]}
    yield from Circles(repository, uses).faults()
