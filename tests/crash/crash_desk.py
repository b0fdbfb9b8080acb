"""What `crash.yaml` calls, and the model that answers for its roles: all of it determined by what they are given."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from metaflow_agents.models.port import ModelRequest
from metaflow_agents.schema.model import canonical

TOPICS = ["plain", "heavy", "silent", "flaky", "rough", "last", "even", "brief", "odd", "gist", "mild", "kind", "wide", "tall",
          "late", "warm", "rare", "calm"]
_letter: asyncio.Event | None = None


def letter_came() -> asyncio.Event:
    """Set by whoever sends the editor's letter; it holds back `wait_for_letter`, and so the report that reads the letter."""
    global _letter
    if _letter is None:
        _letter = asyncio.Event()
    return _letter


def new_desk() -> None:
    """Forgets the event of a loop that is over."""
    global _letter
    _letter = None


async def letter() -> bool:
    await letter_came().wait()
    return True


def weigh(part: dict[str, Any], note: dict[str, Any] | None) -> int:
    if part["name"] == "heavy":
        raise ValueError("too heavy")
    return len(part["path"]) + (0 if note is None else note["words"])


async def pass_on(word: str) -> str:
    return word.upper()


def bind(pages: dict[str, str], lint: dict[str, Any], weights: dict[str, int], passed: dict[str, str]) -> dict[str, str]:
    made = {f"index/{path.removeprefix('pages/')}": hashed(text) for path, text in pages.items()}
    lines = [*(f"{key} {value['stdout']}" for key, value in lint.items()), *map(str, weights.items()), *map(str, passed.items())]
    return {**made, "index/all.txt": "\n".join(lines) + "\n"}


def answering(calls: Path) -> Callable[[ModelRequest], Any]:
    """The model. Each call leaves one line, its key, in the file `calls` before it answers."""
    async def model(request: ModelRequest) -> Any:
        fd = os.open(calls, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.write(fd, f"{request.key}\n".encode())
        os.close(fd)
        await asyncio.sleep(0)
        return answer(request)
    return model


def answer(request: ModelRequest) -> Any:
    """Depends on the messages alone, and on every letter of them; only the first attempt at `flaky` raises."""
    said = [message["content"] for message in request.messages]
    job, words = next(found for text in reversed(said) if (found := _job(text)))
    seal = hashed(canonical([dict(message) for message in request.messages]).decode())
    match job:
        case "plan" if request.schema is None:
            return f"One part for each topic. {seal}"
        case "plan":
            paths = {name: f"pages/{name[0]}/{name}.txt" for name in words}
            uses = {name: [paths[other] for other in words[max(0, place - 2):place:2]] for place, name in enumerate(words)}
            return {"parts": [{"name": name, "path": paths[name], "uses": uses[name]} for name in words]}
        case "page":
            body = "" if words[0].endswith("rough.txt") and len(request.messages) < 4 else "BODY"
            return _file(words[0], f"{body}\ndraft 1\n{seal}")
        case "note" if words[0] == "silent" or (words[0] == "flaky" and "~0/" in request.key):
            raise ValueError(f"nothing to say of {words[0]}")
        case "note":
            return {"title": f"{words[0]} {seal}", "words": len(seal)}
        case "mend":
            found = re.search(r"draft (\d+)", said[-1])
            number = int(found[1]) + 1 if found else 0
            end = "FINISHED" if number >= 2 + len(words[0]) % 2 else "not yet"
            return _file(words[0], f"BODY\ndraft {number}\n{end}\n{seal}")
    return f"All is bound. {seal}"


def hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _job(text: str) -> tuple[str, list[str]] | None:
    found = re.search(r"^JOB (\w+)(.*)$", text, re.MULTILINE)
    return None if found is None else (found[1], found[2].split())


def _file(path: str, text: str) -> str:
    return f"=== file: {path} ===\n{text}\n=== end ===\n"
