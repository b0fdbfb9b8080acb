"""The run's folder kept in step with its journal: a view of the latest versions, written as they commit."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from metaflow_agents.bus import Bus
from metaflow_agents.journal.state import RunState
from metaflow_agents.journal.tree import Tree
from metaflow_agents.schema.event import Committed
from metaflow_agents.workspace import Workspace

_GATHER = 0.05          # seconds that a commit waits for others: a run that makes a file each millisecond writes them in batches


class Folder:
    """Writes what each commit changed; `settle` makes the whole folder agree, after a crash and at the end of a run."""

    def __init__(self, bus: Bus, state: RunState, tree: Tree, workspace: Workspace) -> None:
        self._bus, self._state, self._tree, self._workspace = bus, state, tree, workspace
        self._written: dict[str, dict[str, str]] = {}          # artifact → path → digest of what was written

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
            leaves = self._tree.of(artifact, payload)
            before = self._written.get(artifact, {})
            written.update({path: leaf.load() for path, leaf in leaves.items() if before.get(path) != leaf.digest})
            deleted |= before.keys() - leaves.keys()
            self._written[artifact] = {path: leaf.digest for path, leaf in leaves.items()}
        if written or deleted:
            await self._workspace.apply(written, deleted - written.keys())

    async def settle(self) -> None:
        """Makes the folder hold exactly the files of the latest versions."""
        leaves = self._tree.leaves()
        held = {leaf.digest: leaf for leaf in leaves.values()}

        async def load(name: str) -> bytes:
            return held[name].load()

        await self._workspace.reconcile({path: leaf.digest for path, leaf in leaves.items()}, load)
