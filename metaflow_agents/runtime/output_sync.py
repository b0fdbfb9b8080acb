"""The run's folder kept in step with its journal: a view of the latest versions, written as they commit.

Its git history is written when the run rests, by a thread: while roles work nothing is spent on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from aiofiles.os import wrap

from metaflow_agents.errors import MetaflowError
from metaflow_agents.journal.bus import Bus
from metaflow_agents.journal.places import artifacts_of
from metaflow_agents.journal.state import RunState
from metaflow_agents.journal.tree import Leaf, Tree
from metaflow_agents.output.workspace import Workspace
from metaflow_agents.schema.event import Committed
from metaflow_agents.threads.blocking import carried, to_the_end

_GATHER = 0.05          # seconds that a commit waits for others: a run that makes a file each millisecond writes them in batches


class Folder:
    """Writes what each commit changed; `settle` makes the whole folder agree, after a crash and when the run rests."""

    def __init__(self, bus: Bus, state: RunState, tree: Tree, folder: Path, journal: Path) -> None:
        self._bus, self._state, self._tree, self._journal = bus, state, tree, journal
        self._workspace, self._beside = Workspace(folder), Workspace(artifacts_of(folder))
        self._written: dict[str, Mapping[str, str]] = {}       # artifact → path → digest of what was written

    async def follow(self) -> None:
        """Writes until the bus closes. Runs beside the scheduler, which never waits for it.

        Commits that come close together are written together: of an artifact only the last of them shows.
        """
        async with self._bus.events(Committed) as commits:
            async for _, event in commits:
                if not commits.queued:
                    await asyncio.sleep(_GATHER)
                latest = {version.artifact: version.payload for version in event.versions}
                while commits.queued:
                    _, event = await commits.get()
                    latest.update((version.artifact, version.payload) for version in event.versions)
                await self.take(latest)

    async def take(self, latest: Mapping[str, str]) -> None:
        """Writes what new versions (artifact → payload) changed. Raises RunError where the disk is full or a path is taken."""
        written: dict[str, bytes] = {}
        deleted: set[str] = set()
        for artifact, payload in latest.items():
            before = self._written.get(artifact, {})
            held, changed = self._tree.changes(artifact, payload, before)
            written.update({path: leaf.load() for path, leaf in sorted(changed.items())})
            deleted |= before.keys() - held.keys()
            self._written[artifact] = held
        if written or deleted:
            await self._workspace.apply(written, deleted - written.keys())

    async def settle(self) -> None:
        """Makes the folder hold exactly the files of the latest versions."""
        await _reconciled(self._workspace, self._tree.leaves())

    async def rest(self) -> None:
        """Settles the folder, brings its git history to what the journal says, and writes beside the folder what has no file in
        it. Raises RunError, as `take` does.

        Each of the three is done also where another can't be: what one file hinders is still in the history.
        """
        failures = []
        for work in (self.settle, self._remember, self._lay_beside):
            try:
                await work()
            except MetaflowError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    async def _lay_beside(self) -> None:
        leaves = self._tree.beside()
        if leaves or self._beside.folder.exists():
            await _reconciled(self._beside, leaves)

    async def _remember(self) -> None:
        remember = carried(lambda: _write_history(self._journal, self._workspace.folder))
        await to_the_end(asyncio.ensure_future(wrap(remember)()))


async def _reconciled(workspace: Workspace, leaves: Mapping[str, Leaf]) -> None:
    held = {leaf.digest: leaf for leaf in leaves.values()}

    async def load(name: str) -> bytes:
        return held[name].load()

    await workspace.reconcile({path: leaf.digest for path, leaf in leaves.items()}, load)


def _write_history(journal: Path, folder: Path) -> None:
    from metaflow_agents.output.history.writing import write

    write(journal, folder)
