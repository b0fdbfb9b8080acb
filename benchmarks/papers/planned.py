"""Requests carried out by plans, for measurements: the SOP of them all, and what a stand-in reads in its prompts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.papers.running import ran
from metaflow_agents.models.port import ModelRequest

SOP = """
sop: planned
inputs: {requests: [{id: string, text: string}]}
roles: {planner: {profile: You plan and do.}}
artifacts: {answers: {each: {results: [string]}}}
steps:
  do:
    role: planner
    needs: [requests]
    foreach: {in: requests, as: request, key: request.id, parallel: AT_ONCE}
    makes: answers
    task: "One of {{ requests | length }} requests: {{ request.text }}"
    strategy: STRATEGY
    on_fail: skip
"""
Plan = list[dict[str, Any]]


def carried_out(requests: Mapping[str, str], model: Callable[[ModelRequest], Any], strategy: str, at_once: int = 10,
                **templates: str) -> Mapping[str, Any]:
    """Request → what was answered; those that failed are left out."""
    text = SOP.replace("STRATEGY", strategy).replace("AT_ONCE", str(at_once))
    given = [{"id": key, "text": asked} for key, asked in requests.items()]
    answers = ran(text, model, {"requests": given}, sandbox="none",
                  templates={f"{name}.md.j2": written for name, written in templates.items()})["answers"]
    return {key: answers[key]["results"] for key in requests if key in answers}


def item_of(request: ModelRequest) -> str:
    """The request that a call is for."""
    return request.key.partition("[")[2].partition("]")[0]


def task_of(request: ModelRequest) -> str:
    """The task that a call does; empty for plans and answers."""
    return request.key.partition("/task.")[2].partition("/")[0]


def asked_of(request: ModelRequest) -> str:
    """What a call is told, the last message alone."""
    return str(request.messages[-1]["content"])


def results_in(text: str) -> dict[str, str]:
    """The results that a prompt shows, in order."""
    return {name: said.strip() for name, said in re.findall(r'<result name="([^"]+)">\n(.*?)\n</result>', text, re.DOTALL)}


def filled(request: ModelRequest, form: str = "{}") -> tuple[str, str]:
    """What is to be done, its references replaced by the results that the prompt shows, in this form; and what is missing."""
    asked = asked_of(request)
    (does,) = re.findall(r"<part[^>]*>\n(.*?)\n</part>", asked, re.DOTALL)
    shown = results_in(asked)
    missing = [name for name in re.findall(r"<(\w+)>", does) if name not in shown]
    return re.sub(r"<(\w+)>", lambda found: form.format(shown.get(found[1], "")), does), ", ".join(missing)


def answered(request: ModelRequest, value: str, why: str) -> dict[str, Any]:
    """The answer of a task that makes one result."""
    (name,) = (request.schema or {})["properties"]["results"]["properties"]
    return {"ok": not why, "why": why, "results": {name: "" if why else value}}
