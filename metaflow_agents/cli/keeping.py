"""`sop memory add`, `export`, `clear`: what a person lays down for somebody to remember, writes out, and deletes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metaflow_agents.cli.memories import OfRun, opened, still_told
from metaflow_agents.cli.options import WORKSPACE, Json, Workspace
from metaflow_agents.cli.output import prompt, say, say_json
from metaflow_agents.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from metaflow_agents.memory.store import MemoryDatabase, StoredMemory

Owners = Annotated[list[str] | None, typer.Argument(
    metavar="[OWNER]...", help="Only memories of these owners, by exact name: `clerk`, `clerk[Ada]`, `[customer 7]`.")]


def add(owner: Annotated[str, typer.Argument(
            metavar="OWNER", help="Owner of the memory: a role `clerk`, a character `clerk[Ada]`, or what roles share "
                                  "by `memory_of`, `[customer 7]`.")],
        text: Annotated[str, typer.Argument(metavar="TEXT", help="Text of the memory.")],
        untrusted: Annotated[str, typer.Option(
            "--untrusted", metavar="WHERE", help="Mark as untrusted, with its source, for example \"a mail of Ada\".")] = "",
        pin: Annotated[bool, typer.Option("--pin", help="Always recall it, whatever the topic.")] = False,
        new: Annotated[bool, typer.Option("--new", help="Allow a new owner.")] = False,
        workspace: Workspace = WORKSPACE, json: Json = False) -> int:
    """Add a memory; later runs recall it."""
    from metaflow_agents.errors.encodable import encodable
    from metaflow_agents.memory.notes import LONGEST, MOST_PINS, note
    from metaflow_agents.memory.owners import LONGEST as LONGEST_NAME
    from metaflow_agents.memory.store import PLACE, MemoryDatabase

    if (written := f"{owner}\n{text}\n{untrusted}") != encodable(written):
        raise UsageError(f"{encodable(written)!r}: these are no letters of UTF-8; write them in that encoding")
    _called(owner)
    if not text.strip() or len(text) > LONGEST:
        raise UsageError(f"a note has 1 to {LONGEST:,} characters, and this one has {len(text.strip()):,}: "
                         + ("split it" if text.strip() else "write what shall be remembered"))
    origin = " ".join(untrusted.split())
    if len(origin) > LONGEST_NAME:
        raise UsageError(f"`--untrusted` says where it came from in {LONGEST_NAME} characters at most, and these are "
                         f"{len(origin):,}: name the source alone")
    if not new:
        with opened(workspace) as there:
            _known(there, [owner], workspace, "`--new` lets a new one remember")
    store = MemoryDatabase(workspace / PLACE)
    try:
        laid, pinned = note(owner, text, origin, pinned=pin), {one.key for one in store.pins(owner)}
        if pin and laid.key not in pinned and len(pinned) >= MOST_PINS:
            raise UsageError(f"{owner} has {len(pinned)} pins, which all stand in each prompt, and {MOST_PINS} is the most: "
                             f"`sop memory show --role '{owner}' --kind pin` lists them, `sop memory forget KEY` removes one")
        added = store.note(laid)
    finally:
        store.close()
    if json:
        say_json({**laid.as_json(), "added": added})
    else:
        say([f"{owner} remembers it: {laid.key}" if added else f"{owner} remembers it already: {laid.key}"])
    return 0


def export(owners: Owners = None, run: OfRun = None, workspace: Workspace = WORKSPACE) -> int:
    """Print complete memories as JSON lines, in the order in which they were added."""
    from metaflow_agents.terminal import printing

    with opened(workspace) as store:
        _known(store, owners or [], workspace)
        found = [] if store is None else store.listed(owners=owners or None, run=run)
    say([printing.as_json(one.as_json()) for one in found])
    return 0


def clear(owners: Owners = None, run: OfRun = None,
          everything: Annotated[bool, typer.Option("--all", help="Delete all memories.")] = False,
          yes: Annotated[bool, typer.Option("--yes", help="Delete without confirmation.")] = False,
          workspace: Workspace = WORKSPACE, json: Json = False) -> int:
    """Delete memories of owners for good, after confirmation. Journals of runs keep what was said."""
    from metaflow_agents.views.memories import counted
    from metaflow_agents.views.wording import amount

    if (bool(owners) or run is not None) == everything:
        raise UsageError("`--all` deletes all: leave out what would choose among it" if everything else
                         "say what to delete: owners, `--run`, or `--all`; `sop memory show` tells who remembers what")
    with opened(workspace) as store:
        _known(store, owners or [], workspace)
        found: Sequence[StoredMemory] = [] if store is None else store.listed(owners=owners or None, run=run)
        told, gone = counted(found), 0
        if store is not None and found:
            if not yes and not _agreed(told):
                say(["nothing was deleted"])
                return 1
            gone = store.forget(keys=[one.key for one in found])
    if json:
        say_json({"deleted": gone, "keys": [one.key for one in found]})
    else:
        say([*told, f"{amount(gone, 'memory', 'memories')} deleted" if gone else f"nothing is remembered there: {workspace}",
             *still_told(workspace, gone)])
    return 0


def _agreed(told: Sequence[str]) -> bool:
    """Whether whoever sits here agrees that this is deleted. Raises UsageError where nobody does."""
    from metaflow_agents.cli.asking import at_terminal
    from metaflow_agents.terminal.reader import standard_input

    if not at_terminal():
        raise UsageError(f"nobody is here who could agree that it is deleted ({'; '.join(told)}): `--yes` deletes without asking")
    standard_input(sys.stdin.fileno()).forget()
    prompt("\n".join([*told, "Delete this for good? [y/N] "]))
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _called(owner: str) -> None:
    from metaflow_agents.memory.owners import is_owner

    if not is_owner(owner):
        raise UsageError(f"{owner!r} is no owner of memories: write a role, `clerk`, a character of one, `clerk[Ada]`, or what "
                         "roles share by `memory_of`, `[customer 7]`")


def _known(store: MemoryDatabase | None, owners: Sequence[str], workspace: Path, fix: str = "") -> None:
    """Raises UsageError where one of them remembers nothing."""
    there = {} if store is None or not owners else store.owners()
    for owner in owners:
        _called(owner)
        if owner not in there:
            also = f"; {fix}" if fix else ""
            raise UsageError(f"nobody called {owner!r} remembers anything in {workspace}/: {did_you_mean(owner, there)}{also}")
