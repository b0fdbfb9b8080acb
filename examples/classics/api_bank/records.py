"""What the APIs share: their databases, which are files of the run, the catalogue of them all, and the log of their calls.

A database is `records/NAME.json`; what an API changes there becomes a version of the artifact `records`. Each call is a line of
`records/calls.jsonl`, as API-Bank writes them down: the API, its input, its output, and what went wrong.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from metaflow_agents import RunFiles

FOLDER = "records"
CALLS = f"{FOLDER}/calls.jsonl"
Token = Annotated[str, Field(description="the user's token, as GetUserToken gives it")]
Time = Annotated[str, Field(description="a time like 2023-03-18 14:00:00")]
Date = Annotated[str, Field(description="a day like 2023-03-18")]

CATALOGUE: dict[str, Callable[..., Any]] = {}
"""Every API by its name, once the modules that define them are imported."""


class Refused(Exception):
    """An API does not do what it is asked for; the text says why."""


class Base:
    """The databases, each read when it is first asked for."""

    def __init__(self, files: RunFiles) -> None:
        self.files = files
        self._tables: dict[str, Any] = {}

    def table(self, name: str) -> Any:
        """A database. Raises Refused where none of that name was published."""
        if name not in self._tables:
            path = f"{FOLDER}/{name}.json"
            if path not in self.files:
                raise Refused(f"there is no database `{name}`")
            self._tables[name] = json.loads(self.files[path])
        return self._tables[name]

    def user(self, token: str) -> str:
        """Whose token it is. Raises Refused."""
        found = [name for name, account in self.table("Account").items() if account["token"] == token]
        if not found:
            raise Refused("The token is invalid.")
        return str(found[0])

    def keep(self) -> None:
        """What was changed becomes part of the run's files."""
        for name, table in self._tables.items():
            data = json.dumps(table, ensure_ascii=False, indent=1).encode()
            if json.loads(self.files[f"{FOLDER}/{name}.json"]) != table:
                self.files[f"{FOLDER}/{name}.json"] = data


def api(name: str, *, logged: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A function `(base, …)` as the API of that name: its first parameter is filled with the run's files; what it raises as
    Refused or ValueError is the call's exception, and changes nothing. One that is not `logged` writes nothing at all.
    """
    def made(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function, eval_str=True)
        first, *others = signature.parameters.values()

        def called(files: RunFiles, **given: Any) -> dict[str, Any]:
            base, output, exception = Base(files), None, None
            try:
                output = function(base, **given)
                base.keep()
            except (Refused, ValueError) as error:
                exception = str(error)
            line = {"api_name": name, "input": given, "output": output, "exception": exception}
            if logged:
                files[CALLS] = files.get(CALLS, b"") + f"{json.dumps(line, ensure_ascii=False)}\n".encode()
            return {"output": output, "exception": exception}

        called.__doc__ = function.__doc__
        called.__signature__ = signature.replace(                                       # type: ignore[attr-defined]
            parameters=[first.replace(name="files", annotation=RunFiles), *others])
        CATALOGUE[name] = called
        return called
    return made


def opened(folder: str) -> dict[str, str]:
    """The databases of a folder as the run's own, and an empty log. Raises OSError."""
    files = sorted((Path(__file__).parent / folder).iterdir())
    return {**{f"{FOLDER}/{file.name}": file.read_text(encoding="utf-8") for file in files if file.suffix == ".json"}, CALLS: ""}


def time_in(text: str) -> str:
    """A time as the databases write it. Raises ValueError."""
    return datetime.strptime(text.strip(), "%Y-%m-%d %H:%M:%S").strftime("%Y-%m-%d %H:%M:%S")     # noqa: DTZ007


def day_in(text: str) -> str:
    """A day as the databases write it. Raises ValueError."""
    return datetime.strptime(text.strip(), "%Y-%m-%d").strftime("%Y-%m-%d")                       # noqa: DTZ007


def named(text: str, what: str) -> str:
    """A name without white space around it, in lower case. Raises Refused where nothing is left."""
    if not text.strip():
        raise Refused(f"{what} cannot be empty.")
    return text.strip().lower()
