"""`sop memory show`, `search`, `forget`: what roles remember beyond a run. `keeping.py` adds, exports and clears."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metaflow_agents.cli.options import WORKSPACE, Json, Workspace
from metaflow_agents.cli.output import page, say, say_json
from metaflow_agents.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from metaflow_agents.memory.store import MemoryDatabase

memory = typer.Typer(no_args_is_help=True, help="Memories that roles keep between runs.")

Role = Annotated[str | None, typer.Option("--role", metavar="ROLE", help="Only memories of this role.")]
OfRun = Annotated[str | None, typer.Option("--run", metavar="RUN", help="Only memories of this run.")]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Maximum number.")]


@memory.callback()
def _whole() -> None:
    """Memories that roles keep between runs."""


@memory.command("show")
def show(role: Role = None, run: OfRun = None,
         kind: Annotated[str | None, typer.Option(
             "--kind", metavar="KIND", help="Only turns, reflections, lessons, notes or pins.")] = None,
         limit: Limit = 20, workspace: Workspace = WORKSPACE, json: Json = False) -> int:
    """Show memories, the newest last."""
    from metaflow_agents.memory.store import KINDS
    from metaflow_agents.views.memories import memory_lines

    if kind is not None and kind not in KINDS:
        raise UsageError(f"no memory is of kind `{kind}`: {did_you_mean(kind, KINDS)}")
    with opened(workspace) as store:
        found = [] if store is None else store.listed(role=role, run=run, kind=kind, limit=limit)
    if json:
        say_json([one.as_json() for one in found])
    else:
        say(memory_lines(found, page()) or [f"nothing is remembered in {workspace}/{_of(role, run)}"])
    return 0


@memory.command("search")
def search(text: Annotated[str, typer.Argument(metavar="TEXT", help="Words to search; any of them matches.")],
           role: Role = None, run: OfRun = None, limit: Limit = 10, workspace: Workspace = WORKSPACE, json: Json = False) -> int:
    """Search memories by words, the most relevant first (BM25)."""
    from metaflow_agents.views.memories import memory_lines

    with opened(workspace) as store:
        found = [] if store is None else store.search(text, role=role, run=run, limit=limit)
    if json:
        say_json([{**one.as_json(), "score": score} for one, score in found])
    else:
        none = f"no memory in {workspace}/{_of(role, run)} holds a word of that"
        say(memory_lines([one for one, _ in found], page()) or [none])
    return 0


@memory.command("forget")
def forget(keys: Annotated[list[str] | None, typer.Argument(
               metavar="[KEY]...", help="Keys of memories; `sop memory show` lists them.")] = None,
           role: Role = None, run: OfRun = None,
           everything: Annotated[bool, typer.Option("--all", help="Delete all memories.")] = False,
           workspace: Workspace = WORKSPACE, json: Json = False) -> int:
    """Delete memories for good. Journals of runs keep what was said in them."""
    chosen = bool(keys) or role is not None or run is not None
    if chosen == everything:
        raise UsageError("`--all` forgets all: leave out what would choose among it" if everything else
                         "say what to forget: keys, `--role`, `--run`, or `--all`")
    with opened(workspace) as store:
        unknown = [] if not keys else [key for key in keys if store is None or key not in store.numbers(keys)]
        if unknown:
            raise UsageError(f"no memory has the key {unknown[0]!r}: `sop memory show` tells keys")
        gone = 0 if store is None else store.forget(keys=keys or None, role=role, run=run)
    if json:
        say_json({"forgotten": gone})
    else:
        say([f"{gone:,} {'memory is' if gone == 1 else 'memories are'} forgotten", *still_told(workspace, gone)])
    return 0


@contextmanager
def opened(workspace: Path) -> Iterator[MemoryDatabase | None]:
    """The memory file; None where there is none: to look makes none."""
    from metaflow_agents.memory.store import PLACE, MemoryDatabase

    if not (workspace / PLACE).exists():
        yield None
        return
    store = MemoryDatabase(workspace / PLACE)
    try:
        yield store
    finally:
        store.close()


def still_told(workspace: Path, gone: int) -> list[str]:
    """Where what is gone from the memory file may still be read."""
    from metaflow_agents.journal.places import JOURNALS

    return [f"journals of runs are not touched: what was said in a run stays in {workspace / JOURNALS}/"] if gone else []


def _of(role: str | None, run: str | None) -> str:
    return (f" of {role}" if role else "") + (f" from {run}" if run else "")
