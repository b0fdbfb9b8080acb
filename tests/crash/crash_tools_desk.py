"""What `tools.yaml` calls, and the model that answers for its roles: all of it determined by what they are given.

Each effect leaves a line in the file `outside`: the tool, and the id that makes it one of its kind.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from metaflow_agents.models.port import ModelRequest
from metaflow_agents.schema.model import canonical

LOST = ("pay", "ledger.enter", "depot.send", "start_role")
"""What these give back may be lost in a crash: nothing is built on it."""
RECEIPT = {"number": "R-1", "amount": 12}
outside = Path("outside")


def noted(*words: str) -> None:
    file = os.open(outside, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(file, " ".join(words).encode() + b"\n")
    os.close(file)


def note(id: str, text: str) -> str:
    """Notes something down.

    Args:
        id: under which it stands
        text: what is noted
    """
    noted("note", id, hashed(text))
    return f"noted {id}"


async def pay(id: str) -> str:
    """Pays something."""
    noted("pay", id)
    return f"paid {id}"


def charge(order: str) -> dict[str, Any]:
    noted("charge", order)
    return RECEIPT


def answering(calls: Path) -> Callable[[ModelRequest], Any]:
    """The model. Each call leaves one line, its key, in the file `calls` before it answers."""
    async def model(request: ModelRequest) -> Any:
        file = os.open(calls, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.write(file, f"{request.key}\n".encode())
        os.close(file)
        return answer(request)
    return model


def answer(request: ModelRequest) -> Any:
    """Depends on the messages alone, and on every letter of those that no crash can take."""
    messages = [dict(message) for message in request.messages]
    said = [str(message.get("content")) for message in reversed(messages)]
    job = "help" if request.role == "helper" else next(
        found[1] for text in said if (found := re.search(r"^JOB (.*)$", text, re.MULTILINE)))
    turn = sum(message["role"] == "assistant" for message in messages)
    seal = hashed(canonical([message for message in messages if message.get("name") not in LOST]).decode())
    what, *words = job.split()
    turns = {"work": worked, "help": helped, "pay": paid, "sketch": sketched}.get(what, written)(seal, *words)
    now = turns[turn] if turn < len(turns) else turns[-1]
    return now if isinstance(now, str | dict) else {"calls": [{"name": name, "arguments": given} for name, given in now]}


def worked(seal: str, *_: str) -> list[Any]:
    return [
        [("python", {"code": "x = 20"}), ("write", {"path": "src/a.txt", "text": f"draft {seal}\n"}),
         ("note", {"id": "first", "text": seal}), ("ledger.look", {"id": "first"}), ("depot.find", {"id": "first"})],
        [("python", {"code": "x += 1\nx"}), ("edit", {"path": "src/a.txt", "search": "draft", "replace": "final"}),
         ("run", {"command": ["sh", "-c", "cat src/a.txt > src/made.txt; wc -c src/a.txt"]}), ("pay", {"id": "work"}),
         ("ledger.enter", {"id": "work"}), ("write", {"path": "src/asked.txt", "text": f"asked {seal}\n"})],
        [("ask_person", {"question": "Where to?", "assumption": "nowhere"}), ("depot.send", {"body": {"id": "work"}}),
         ("ledger.enter", {"id": "more"}), ("search", {"expression": "final|asked"}), ("list", {})],
        [("start_role", {"role": "helper", "task": "help"}), ("pay", {"id": "again"}), ("read", {"path": "src/a.txt"})],
        [("python", {"code": "x + 1"}), ("list", {}), ("read", {"path": "src/helped.txt"}), ("nowhere", {})],
        f"All is done. {seal}"]


def sketched(seal: str, *_: str) -> list[Any]:
    """What the scratch interpreter finds are the files as they were when it was first used."""
    count = "import os; print(sorted(os.listdir('sketch')) if os.path.isdir('sketch') else 'nothing')"
    return [
        [("python", {"code": f"found = 1\n{count}"}), ("write", {"path": "sketch/a.txt", "text": f"{seal}\n"})],
        [("run", {"command": ["sh", "-c", "cat sketch/a.txt > sketch/b.txt"]}), ("python", {"code": f"found += 1\n{count}"})],
        [("python", {"code": f"{count}\nfound"}), ("write", {"path": "sketch/c.txt", "text": f"{seal}\n"})],
        f"It is sketched. {seal}"]


def helped(seal: str, *_: str) -> list[Any]:
    return [
        [("write", {"path": "src/helped.txt", "text": f"helped {seal}\n"}), ("ledger.enter", {"id": "helped"}),
         ("note", {"id": "helped", "text": seal})],
        [("read", {"path": "src/helped.txt"}), ("ledger.enter", {"id": "helped-more"})],
        f"I helped. {seal}"]


def paid(seal: str, what: str) -> list[Any]:
    return [
        [("ledger.look", {"id": what}), ("note", {"id": what, "text": seal})],
        [("pay", {"id": what}), ("ledger.enter", {"id": what})],
        {"entry": f"{what} {seal}"}]


def written(seal: str, *_: str) -> list[Any]:
    return [f"All is told. {seal}"]


def hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
