"""Artifacts that are written in several formats: the documents of a text are made with it, and stored beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from metaflow_agents.documents import publishing
from metaflow_agents.engine.work import Activation, Work
from metaflow_agents.errors import AttemptFailed
from metaflow_agents.journal.bus import Bus
from metaflow_agents.journal.state import RunState
from metaflow_agents.journal.tree import Tree
from metaflow_agents.journal.values import Values
from metaflow_agents.sandbox.port import Sandbox
from metaflow_agents.schema.event import Documented
from metaflow_agents.schema.model import digest, fingerprint
from metaflow_agents.schema.payload import Data, pack
from metaflow_agents.schema.sop import SOP
from metaflow_agents.steps.command import said


class Documents:
    """Adds documents to what a step made. `dry`: there are none."""

    def __init__(self, sop: SOP, tree: Tree, state: RunState, values: Values, sandbox: Sandbox, *, dry: bool) -> None:
        self._sop, self._tree, self._state, self._values, self._sandbox = sop, tree, state, values, sandbox
        self._dry = dry

    async def added(self, activation: Activation, work: Work) -> Work:
        """The work with the documents of its artifact, made in the sandbox. Raises AttemptFailed where they can't be made."""
        name = self._sop.steps[activation.key.step].makes.artifact
        wanted = () if self._dry else self._sop.artifacts[name].documents
        if not isinstance(work.payload, Data):
            if wanted:
                raise AttemptFailed(f"`{name}` is no text: {', '.join(wanted)} can't be made of it")
            return work
        old = work.payload.documents.values()
        payload, made = await self._fresh(name, work.payload, wanted, activation.read)
        if payload == work.payload:
            return work
        kept = {name: data for name, data in work.blobs.items() if name not in old}
        return replace(work, payload=payload, blobs={**kept, **made})

    async def renew(self, bus: Bus) -> None:
        """Makes the documents of a run's latest versions anew where they would be others now. Raises AttemptFailed."""
        for name, versions in list(self._state.versions.items()):
            latest, spec = versions[-1], self._sop.artifacts.get(name)
            held = self._values.payload(latest.payload)
            if self._dry or spec is None or latest.firing is None or not isinstance(held, Data):
                continue
            payload, made = await self._fresh(name, held, spec.documents, self._state.firing_reads(latest.firing))
            if payload != held:
                packed = pack(payload)
                await bus.publish(Documented(artifact=name, number=latest.number, payload=digest(packed)),
                                  blobs={**made, digest(packed): packed})

    async def _fresh(self, artifact: str, payload: Data, documents: tuple[str, ...],
                     read: Mapping[str, int]) -> tuple[Data, dict[str, bytes]]:
        """The payload with documents of its text as it is rendered now, and their bytes. Made anew only where what they are made
        of (text, pictures, style, list of files) is not what those were made of that it has.
        """
        if not documents:
            return payload.alone, {}
        (path, text), = self._tree.rendered(artifact, payload.value).items()
        files = publishing.files(text.decode(), PurePosixPath(path).stem, documents, self._tree.files(read))
        made_of = fingerprint({path: digest(data) for path, data in files.items()})
        if made_of == payload.made_of:
            return payload, {}
        made = await self._made(artifact, files, documents)
        stored = {path: digest(data) for path, data in made.items()}
        return (payload.model_copy(update={"documents": stored, "made_of": made_of}),
                {stored[path]: data for path, data in made.items()})

    async def _made(self, artifact: str, files: Mapping[str, bytes], documents: tuple[str, ...]) -> dict[str, bytes]:
        done = await self._sandbox.run(publishing.command(), files=files, timeout=publishing.SECONDS, collect=documents)
        if not done.ok or set(done.files) != set(documents):
            lacking = ", ".join([path for path in documents if path not in done.files] or documents)
            why = f"it takes longer than {publishing.SECONDS:g} s" if done.timed_out else \
                done.stderr.strip() if done.exit_code == publishing.FAULTY else said(done)
            raise AttemptFailed(f"{lacking} can't be made of `{artifact}`: {why}")
        return {path: done.files[path] for path in documents}
