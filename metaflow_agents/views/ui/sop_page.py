"""A SOP for its page: what its text names and where, what a run is given, what is wrong with it, its graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from metaflow_agents.schema.program import Program
from metaflow_agents.schema.sop import PATHS, Input
from metaflow_agents.schema.step import DOERS, READS
from metaflow_agents.sop.check import CheckReport
from metaflow_agents.sop.document import LINE, Document
from metaflow_agents.sop.graph import SOPGraph
from metaflow_agents.sop.load import LoadedSOP
from metaflow_agents.views.graph import edges_of, worker_of
from metaflow_agents.views.ui.graph_layout import graph_json

MOST_EDGES = 1_000                  # that are drawn: the layout takes a place in each layer that an edge crosses


def checked_json(report: CheckReport, loaded: LoadedSOP | None) -> dict[str, Any]:
    """{problems, limits, graph, undrawn, inputs}; limits are null where there are errors, the graph where nothing could be read,
    or where it has too many edges, which `undrawn` tells then.
    """
    program = loaded.program if loaded is not None else None
    graph, undrawn = _graph(program)
    return {"file": report.file, "problems": [problem.as_json() for problem in report.problems], "limits": _limits(report),
            "graph": graph, "undrawn": undrawn, "inputs": inputs_json(program) if program is not None else []}


def _limits(report: CheckReport) -> dict[str, Any] | None:
    if report.bounds is None or report.program is None:
        return None
    budget = report.program.sop.budget
    return {**report.bounds.as_json(), "budget": {} if budget is None else budget.model_dump(mode="json", exclude_none=True)}


def _graph(program: Program | None) -> tuple[dict[str, Any] | None, str]:
    """None too where a step is done by nothing yet: there is no box for it."""
    if program is None or any(all(getattr(step, doer) is None for doer in DOERS) for step in program.sop.steps.values()):
        return None, ""
    graph = SOPGraph(program.sop)
    edges = len({(maker, reader) for maker, reader, *_ in edges_of(graph)})
    if edges > MOST_EDGES:
        return None, f"{len(graph.steps)} steps with {edges:,} connections: too many for a picture"
    return graph_json(program.sop, graph), ""


def inputs_json(program: Program) -> list[dict[str, Any]]:
    """The inputs in the order of the file, as a form shows them."""
    return [_input(name, spec, program.schemas.get(f"input:{name}", {"type": "string"}))
            for name, spec in program.sop.inputs.items()]


def _input(name: str, spec: Input, schema: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "type": _type(spec, schema), "required": spec.required and spec.keep is None,
                             "description": spec.description}
    if "default" in spec.model_fields_set:
        found["default"] = spec.default
    if found["type"] == "choice":
        found["choices"] = [str(one) for one in schema["enum"]]
    if spec.type not in PATHS:
        found["schema"] = dict(schema)
    return found


def _type(spec: Input, schema: Mapping[str, Any]) -> str:
    """The control that fits it: string, boolean, integer, number, choice, list (of texts), file, folder, json."""
    if spec.type in PATHS:
        return str(spec.type)
    if "enum" in schema and all(isinstance(one, str) for one in schema["enum"]):
        return "choice"
    kind = schema.get("type")
    if kind == "array" and schema.get("items", {}).get("type") == "string" and "enum" not in schema["items"]:
        return "list"
    return kind if kind in ("string", "boolean", "integer", "number") else "json"


def outline(document: Document, program: Program | None) -> dict[str, Any]:
    """What the text names, each with its line: for jumps between text and graph, and for what menus offer."""
    data = document.data if isinstance(document.data, dict) else {}
    steps = {name: {**_lines(document, "steps", name), **_step(name, step, program)}
             for name, step in _mapping(data.get("steps")).items() if isinstance(step, dict)}
    return {"steps": steps, **{part: {name: _lines(document, part, name) for name in _mapping(data.get(part))}
                               for part in ("artifacts", "inputs")},
            "roles": {name: {**_lines(document, "roles", name), "model": _model(name, role, program)}
                      for name, role in _mapping(data.get("roles")).items()},
            "models": [name for name in _mapping(data.get("models"))],
            "tests": {name: {"inputs": _mapping(case).get("inputs", {}), "given": _mapping(case).get("given", {})}
                      for name, case in _mapping(data.get("tests")).items()}}


def _lines(document: Document, *path: str) -> dict[str, int]:
    """The line of the key, and the last one of the value."""
    line, _ = document.key_at(*path)
    node = document.node(*path)
    last = line if node is None else len(LINE.findall(document.text[:node.end].rstrip())) + 1
    return {"line": line, "end": max(line, last)}


def _step(name: str, written: Mapping[str, Any], program: Program | None) -> dict[str, Any]:
    """What a step does, with defaults where the SOP could be read."""
    if program is not None and name in program.sop.steps:
        step = program.sop.steps[name]
        doer = next((key for key in DOERS if getattr(step, key) is not None), None)
        return {"doer": doer, "who": worker_of(step) if doer else "", "role": step.role, "makes": step.makes.artifact,
                **{kind: list(getattr(step, kind)) for kind in READS}}
    doer = next((key for key in DOERS if key in written), None)
    role = written.get("role")
    makes = written.get("makes")
    return {"doer": doer, "who": "", "role": role if isinstance(role, str) else None,
            "makes": makes if isinstance(makes, str) else next(iter(_mapping(makes)), ""),
            **{kind: _texts(written.get(kind)) for kind in READS}}


def _model(name: str, written: Any, program: Program | None) -> str | None:
    if program is not None and name in program.sop.roles:
        return program.sop.roles[name].model
    model = _mapping(written).get("model")
    return model if isinstance(model, str) else None


def _texts(written: Any) -> list[str]:
    found = [written] if isinstance(written, str) else written if isinstance(written, list) else []
    return [one for one in found if isinstance(one, str)]


def _mapping(written: Any) -> Mapping[str, Any]:
    return written if isinstance(written, dict) else {}
