"""Stands in for a language model in the tests of `api_bank.yaml`: it can search, read documentation, and call; it knows what its
prompt says, and no API by name.
"""

from __future__ import annotations

import json
import re
from typing import Any

from metaflow_agents import ModelRequest, Reply, ToolCall

_TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
_SAID = {"token": r"token is (\S+?),?\s", "username": r"username (?:is )?(\w+)", "password": r"password (?:is )?(\w+)",
         "time": rf"({_TIME})"}


def said(request: ModelRequest) -> str:
    """All that it is told but the system's message."""
    return "\n".join(str(one["content"]) for one in request.messages if one["role"] == "user")


def results(request: ModelRequest) -> list[str]:
    """What its tools gave, in order."""
    return [str(one["content"]) for one in request.messages if one["role"] == "tool"]


def call(name: str, **arguments: Any) -> Reply:
    """One action."""
    return Reply("", calls=(ToolCall("", name, arguments),))


def clerk(request: ModelRequest) -> Any:
    """All roles."""
    return {"decide": _decides, "lay_out": _plans, "find": _finds, "act": _acts, "judge": _judges, "answer": _answers}[
        request.step](request, said(request))


def _words(text: str) -> list[str]:
    """What the user asks for, one thing after the other."""
    asked = re.search(r"User: (.*?)(?:[:?]|\sMy |$)", text, re.MULTILINE)
    return re.split(r"\sand then\s", asked[1]) if asked else []


def _decides(request: ModelRequest, text: str) -> Any:
    return {"call": len(_words(text)[0].split()) > 2, "why": "it asks for something"}


def _plans(request: ModelRequest, text: str) -> Any:
    return {"steps": _words(text)}


def _finds(request: ModelRequest, text: str) -> Any:
    """Searches for each thing that is asked for; then of what it read takes the first whose parameters it can fill."""
    wanted = _words(text)
    read = [json.loads(one)["output"] for one in results(request)]
    if len(read) < len(wanted):
        return call("ToolSearcher", keywords=wanted[len(read)])
    apis: list[str] = []
    for pages in read:
        by_name = {page["name"]: page for page in pages}
        known = {*_known(text), *(["token"] if {"username", "password"} <= set(_known(text)) else [])}
        best = next(page for page in pages if set(page["input_parameters"]) <= known and page["name"] != "GetUserToken")
        if "token" in best["input_parameters"] and "token" not in _known(text) and "GetUserToken" in by_name:
            apis.append("GetUserToken")
        apis.append(best["name"])
    return call("finish", answer=json.dumps({"apis": list(dict.fromkeys(apis))}))


def _known(text: str) -> dict[str, str]:
    found = {name: re.search(pattern, text + " ") for name, pattern in _SAID.items()}
    return {name: one[1] for name, one in found.items() if one}


def _acts(request: ModelRequest, text: str) -> Any:
    """Calls each tool that it has, one after the other, with what was said and what the calls before it gave."""
    tools = sorted((tool for tool in request.tools if tool["name"] != "finish"),
                   key=lambda tool: "token" in tool["parameters"]["properties"])
    done = results(request)
    if len(done) == len(tools):
        return call("finish", answer="done")
    known = _known(text)
    for one in done:
        output = json.loads(one)["output"]
        known |= output if isinstance(output, dict) else {}
    parameters = tools[len(done)]["parameters"]["properties"]
    return call(str(tools[len(done)]["name"]), **{name: known[name] for name in parameters if name in known})


def _judges(request: ModelRequest, text: str) -> Any:
    return {"ok": '"exception": null' in text, "why": "it was done"}


def _answers(request: ModelRequest, text: str) -> Any:
    outputs = re.findall(r'"output": (.*), "exception": null', text)
    return "; ".join(outputs[-2:]) if outputs else "Hello."
