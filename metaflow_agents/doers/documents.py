"""Artifacts that are written in several formats: the documents of a text are made with it, and stored beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from metaflow_agents import publishing
from metaflow_agents.doers.command import Commands, said
from metaflow_agents.engine.work import Activation, Work
from metaflow_agents.errors import AttemptFailed
from metaflow_agents.journal.tree import Tree
from metaflow_agents.sandbox.port import Sandbox
from metaflow_agents.schema.model import digest
from metaflow_agents.schema.payload import Data
from metaflow_agents.schema.sop import SOP


class Documents:
    """Adds documents to what a step made."""

    def __init__(self, sop: SOP, tree: Tree, commands: Commands, sandbox: Sandbox) -> None:
        self._sop, self._tree, self._commands, self._sandbox = sop, tree, commands, sandbox

    async def added(self, activation: Activation, work: Work) -> Work:
        """The work with the documents of its artifact, made in the sandbox. Raises AttemptFailed where they can't be made."""
        name = self._sop.steps[activation.key.step].makes.artifact
        spec = self._sop.artifacts[name]
        if not spec.documents:
            return work
        if not isinstance(work.payload, Data):
            raise AttemptFailed(f"`{name}` is no text: {', '.join(spec.documents)} can't be made of it")
        (path, text), = self._tree.rendered(name, work.payload.value).items()
        made = await self._made(name, PurePosixPath(path).stem, text.decode(), spec.documents, self._commands.files(activation))
        stored = {path: digest(data) for path, data in made.items()}
        blobs = {stored[path]: data for path, data in made.items()}
        return replace(work, payload=work.payload.model_copy(update={"documents": stored}), blobs={**work.blobs, **blobs})

    async def _made(self, artifact: str, name: str, text: str, documents: tuple[str, ...],
                    tree: Mapping[str, bytes]) -> dict[str, bytes]:
        done = await self._sandbox.run(publishing.command(), files=publishing.files(text, name, documents, tree),
                                       timeout=publishing.SECONDS, collect=documents)
        if not done.ok or set(done.files) != set(documents):
            lacking = ", ".join([path for path in documents if path not in done.files] or documents)
            why = f"it takes longer than {publishing.SECONDS:g} s" if done.timed_out else said(done)
            raise AttemptFailed(f"{lacking} can't be made of `{artifact}`: {why}")
        return {path: done.files[path] for path in documents}
