"""A SOP drawn: for a terminal, as Mermaid, and as plain data."""

from __future__ import annotations

from typing import Any

from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.step import Step
from metaflow_agents.sop.graph import SOPGraph, makes, needed, reads, triggers
from metaflow_agents.views.page import Page, columns
from metaflow_agents.views.wording import amount


def readers(graph: SOPGraph) -> dict[str, list[str]]:
    """Artifact → the steps that read it, in the order of the file."""
    found: dict[str, list[str]] = {}
    for name, step in graph.steps.items():
        for artifact in reads(step):
            found.setdefault(artifact, []).append(name)
    return found


def loops(graph: SOPGraph) -> list[list[str]]:
    """The steps of each loop, by rank."""
    found: dict[int, list[str]] = {}
    for name in sorted(graph.steps, key=graph.rank):
        if graph.in_loop(name):
            found.setdefault(graph.loop[name], []).append(name)
    return list(found.values())


def as_json(sop: SOP, graph: SOPGraph) -> dict[str, Any]:
    """Steps with stage and doer, edges with their artifact and kind, and the loops."""
    return {
        "sop": sop.sop,
        "steps": {name: {"stage": graph.stage.get(name), "doer": step.doer, "who": worker_of(step), "makes": list(makes(step)),
                         "loop": graph.in_loop(name)} for name, step in graph.steps.items()},
        "edges": [{"from": a, "to": b, "artifact": artifact, "kind": kind} for a, b, artifact, kind in edges_of(graph)],
        "loops": loops(graph),
    }


def drawing(sop: SOP, graph: SOPGraph, page: Page) -> list[str]:
    """Steps by stage and place in the file, each with what goes in, what comes out, and whom it feeds."""
    found, read = loops(graph), readers(graph)
    stages = len(set(graph.stage.values()))
    title = f"{page.paint(sop.sop, 'bold')}: {amount(len(graph.steps), 'step')} in {amount(stages, 'stage')}"
    lines = [title + (f", {amount(len(found), 'loop')}" if found else "")]
    if sop.inputs:
        lines += page.wrapped(_fed("inputs", [(name, read.get(name, [])) for name in sop.inputs]), "", "  ")
    before = None
    for name in sorted(graph.steps, key=graph.rank):
        stage = graph.stage.get(name)
        lead = f"{'never' if stage is None else stage:>2}" if stage != before else "  "
        if stage != before:
            lines.append("")
        before = stage
        lines += _step(name, graph, read, page, lead, _tools(sop, graph.steps[name]))
    for loop in found:
        caps = [f"{name} fires {graph.steps[name].rounds} times at most" for name in loop if graph.steps[name].rounds]
        lines += ["", *page.wrapped(f"↻ loop: {' → '.join([*loop, loop[0]])}; {', '.join(caps) or 'without a bound'}", "", "  ")]
    return lines


def _step(name: str, graph: SOPGraph, read: dict[str, list[str]], page: Page, lead: str, tools: tuple[str, ...]) -> list[str]:
    step = graph.steps[name]
    marks = " ↻" if graph.in_loop(name) else ""
    who = worker_of(step)
    head = f"{page.paint(lead, 'dim')} {page.paint(name, 'bold')}{page.paint(marks, 'yellow')} {page.paint(who, 'cyan')}"
    if step.foreach:
        plain = columns(f"{lead} {name}{marks} {who} ")
        each = f"for each {step.foreach.as_} in {step.foreach.in_}"
        head += f" {each}" if page.width is None or plain + columns(each) <= page.width else ""
    pad = " " * (columns(lead) + 3)
    taken = [f"{artifact}{_mark(step, artifact)}" for artifact in reads(step)]
    lines = [head, *page.wrapped(f"{', '.join(taken) or 'nothing'} → {' or '.join(makes(step))}", pad)]
    if step.when is not None:
        lines += page.wrapped(f"when {step.when}", pad)
    if tools:
        lines += page.wrapped(f"may use {', '.join(tools)}", pad)
    fed = [(artifact, [reader for reader in read.get(artifact, []) if reader != name]) for artifact in makes(step)]
    if any(readers for _, readers in fed):
        told = page.wrapped(_fed("feeds", fed) if len(fed) > 1 else f"feeds {', '.join(fed[0][1])}", pad)
        lines += [page.paint(line, "dim") for line in told]
    return lines


def _fed(word: str, fed: list[tuple[str, list[str]]]) -> str:
    return f"{word}: " + "; ".join(f"{artifact} → {', '.join(names) or 'nobody'}" for artifact, names in fed)


def _mark(step: Step, artifact: str) -> str:
    return "" if artifact in needed(step) else " (if there)" if artifact in triggers(step) else " (seen)"


def worker_of(step: Step) -> str:
    """Who or what does the work of a step, in words: `role clerk`, `command`, `a person`."""
    if step.doer == "role":
        return f"role {step.role}"
    if step.doer == "sop":
        return f"SOP {step.sop}"
    if step.doer == "tool":
        return f"tool {step.tool}"
    return {"run": "command", "call": f"call {step.call}", "use": f"use {step.use}", "value": "expression",
            "human": "a person"}[step.doer]


def _tools(sop: SOP, step: Step) -> tuple[str, ...]:
    """What the step's role may use, as it is written; nothing where an expression names the role."""
    return sop.tools_of(step) if step.role in sop.roles or step.tools is not None else ()


def edges_of(graph: SOPGraph) -> list[tuple[str, str, str, str]]:
    """(maker or input, reader, artifact, needs | wants | sees), in the order of the file."""
    found = []
    for name, step in graph.steps.items():
        for artifact in reads(step):
            kind = "needs" if artifact in needed(step) else "wants" if artifact in triggers(step) else "sees"
            makers = graph.makers.get(artifact, ()) or ((f"input:{artifact}",) if artifact in graph.given else ())
            found += [(maker, name, artifact, kind) for maker in makers if maker != name]
    return found


def mermaid(sop: SOP, graph: SOPGraph) -> list[str]:
    """A Mermaid flowchart: artifacts on the edges, dotted where they are only seen, a frame around each loop.

    Source: https://mermaid.js.org/syntax/flowchart.html
    """
    lines = ["flowchart TD"]
    edges = edges_of(graph)
    for source in dict.fromkeys(a for a, *_ in edges if a.startswith("input:")):
        name = source.removeprefix("input:")
        lines.append(f"    {_id(source)}([{_text(name)}])")
    found = loops(graph)
    looped = {name for loop in found for name in loop}
    lines += [f"    {_node(name, graph.steps[name])}" for name in graph.steps if name not in looped]
    for number, loop in enumerate(found, 1):
        caps = [f"{name}: {graph.steps[name].rounds} rounds" for name in loop if graph.steps[name].rounds]
        lines.append(f"    subgraph loop{number}[{_text(', '.join(['loop', *caps]))}]")
        lines += [f"        {_node(name, graph.steps[name])}" for name in loop]
        lines.append("    end")
    arrows: dict[tuple[str, str, bool], list[str]] = {}
    for a, b, artifact, kind in edges:
        arrows.setdefault((a, b, kind == "sees"), []).append(artifact)
    for (a, b, seen), artifacts in arrows.items():
        lines.append(f"    {_id(a)} {'-.->' if seen else '-->'}|{_text(', '.join(artifacts))}| {_id(b)}")
    outputs = sop.outputs or ()
    for artifact in outputs:
        lines.append(f"    {_id('output:' + artifact)}([{_text(artifact)}])")
        lines += [f"    {_id(maker)} --> {_id('output:' + artifact)}" for maker in graph.makers.get(artifact, ())]
    return lines


def _id(name: str) -> str:
    """An identifier that is no word of Mermaid's own (`end` would cut the drawing short)."""
    kind, _, rest = name.rpartition(":")
    return f"{kind or 'step'}_{rest}"


def _node(name: str, step: Step) -> str:
    return f"{_id(name)}[{_text(f'{name}<br/>{worker_of(step)}' + (' ×n' if step.foreach else ''), breaks=True)}]"


def _text(text: str, *, breaks: bool = False) -> str:
    """A quoted text; letters that mean something to Mermaid stand as entities."""
    escaped = text.replace("#", "#35;").replace('"', "#quot;").replace("|", "#124;")
    return f'"{escaped}"' if breaks else '"' + escaped.replace("<", "#lt;").replace(">", "#gt;") + '"'
