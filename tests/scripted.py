"""What the tests of whole runs share: SOPs written inline, a model that answers by a script, and a look into the journal."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

from metaflow_agents.journal.journal import Journal
from metaflow_agents.models.port import ModelRequest
from metaflow_agents.schema.event import Committed, Event, Finished, Fired, Observed
from metaflow_agents.schema.keys import parse_activation


def write(folder: Path, text: str, **files: str) -> Path:
    """`folder/desk.yaml` with this text, and beside it the other files (`roles__a_yaml` → `roles/a.yaml`)."""
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(content))
    path = folder / "desk.yaml"
    path.write_text(dedent(text))
    return path


class Scripted:
    """A model: step → answer, a list of answers (one a call, the last again and again), or a function of the request.

    An answer that is an exception is raised. It counts its calls and keeps the requests.
    """

    def __init__(self, answers: Mapping[str, Any] | None = None, **more: Any) -> None:
        self.answers: dict[str, Any] = {**(answers or {}), **more}
        self.requests: list[ModelRequest] = []

    async def __call__(self, request: ModelRequest) -> Any:
        self.requests.append(request)
        await asyncio.sleep(0)
        answer = self.answers.get(request.step, f"{request.step} done")
        if isinstance(answer, list):
            before = sum(earlier.step == request.step for earlier in self.requests) - 1
            answer = answer[min(before, len(answer) - 1)]
        if callable(answer):
            answer = answer(request)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def keys(self) -> list[str]:
        return [request.key for request in self.requests]

    @property
    def steps(self) -> list[str]:
        return [request.step for request in self.requests]

    def said(self, key: str) -> str:
        """Everything that the call of this key was told, in one text."""
        (request,) = [request for request in self.requests if request.key == key]
        return "\n".join(message["content"] for message in request.messages)

    def last_said(self, key: str) -> str:
        (request,) = [request for request in self.requests if request.key == key]
        return request.messages[-1]["content"]


def events(workspace: Path, run: str, *kinds: type[Any]) -> list[Any]:
    """The events of a run's journal."""
    with Journal.read(workspace / ".journals" / f"{run}.db") as journal:
        return [event for _, event in journal.events(*kinds)]


def noted(workspace: Path, run: str, ending: str) -> list[Any]:
    """What was observed or noted under keys with this ending, in the order of the events."""
    with Journal.read(workspace / ".journals" / f"{run}.db") as journal:
        return [json.loads(journal.blob(event.payload))["value"] for _, event in journal.events(Observed)
                if event.key.endswith(ending)]


def finished(workspace: Path, run: str) -> dict[str, Finished]:
    """Activation → how it finished."""
    return {event.activation: event for event in events(workspace, run, Finished)}


def ran(workspace: Path, run: str) -> set[str]:
    """The steps that did work, results taken over left out."""
    return {parse_activation(key).step for key, event in finished(workspace, run).items() if event.reused_from is None}


def firings(workspace: Path, run: str) -> list[str]:
    return [f"{event.step}@{event.round}" for event in events(workspace, run, Fired)]


def reused(workspace: Path, run: str) -> dict[str, tuple[str, ...]]:
    """Firing → the items that it took from its step's last firing."""
    return {event.firing: event.reused for event in events(workspace, run, Committed) if event.reused}


def tree(folder: Path) -> dict[str, str]:
    """Path → text of every file below a folder, its repository left out; bytes that are no text stand there as escapes."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and ".git" not in path.relative_to(folder).parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes().decode("utf-8", "backslashreplace") for path in files}


def block(path: str, text: str) -> str:
    """A file as a model answers with it."""
    return f"=== file: {path} ===\n{text}\n=== end ===\n"


Answer = Callable[[ModelRequest], Any]
__all__ = ["Answer", "Event", "Scripted", "block", "events", "finished", "firings", "noted", "ran", "reused", "tree", "write"]
