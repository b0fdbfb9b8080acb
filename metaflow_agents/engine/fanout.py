"""One firing: its items side by side as their `after` allow, attempts, timeouts, reuse, and the commit at the end."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from metaflow_agents.bus import Bus
from metaflow_agents.engine.clock import TimeCaps
from metaflow_agents.engine.items import before, walk
from metaflow_agents.engine.merge import gathered, overlaid, still_missing
from metaflow_agents.engine.scope import Scopes, part
from metaflow_agents.engine.work import Activation, Earlier, Item, StepRunner, Taken, Work
from metaflow_agents.errors import AnswerInvalid, AttemptFailed, ExpressionError, StepFailed
from metaflow_agents.journal.state import Firing, Result, RunState
from metaflow_agents.journal.values import Values
from metaflow_agents.prompts import MISSING, render_pattern
from metaflow_agents.prompts.names import free_names
from metaflow_agents.schema.event import Committed, Failed, Finished, Version
from metaflow_agents.schema.keys import ActivationKey
from metaflow_agents.schema.model import digest, fingerprint
from metaflow_agents.schema.payload import Collection, Data, Files, Patch, pack, unpack
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.sop import Step
from metaflow_agents.sop.graph import artifact_of, reads

_ATTEMPT_ERRORS = (AnswerInvalid, AttemptFailed, ExpressionError)


class Prior(Mapping[str, Any]):
    """What an item's transitive `after` items made, read when it is asked for."""

    def __init__(self, results: Mapping[str, str], view: Callable[[str], Any]) -> None:
        self._results, self._view = results, view

    def __getitem__(self, key: str) -> Any:
        return self._view(self._results[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)


@dataclass(slots=True)
class Progress:
    """How far the items of one firing are."""

    items: list[Item]
    results: dict[str | None, Result] = field(default_factory=dict)
    reused: set[str] = field(default_factory=set)
    lost: dict[str, str] = field(default_factory=dict)
    ran: bool = False


class Fanout:
    """Carries out firings: asks the step runner, journals what came, and commits."""

    def __init__(self, program: Program, bus: Bus, state: RunState, values: Values, scopes: Scopes, runner: StepRunner,
                 *, earlier: Earlier | None = None, caps: TimeCaps | None = None) -> None:
        self._sop, self._bus, self._state = program.sop, bus, state
        self._values, self._scopes, self._runner = values, scopes, runner
        self._earlier, self._caps = earlier, caps or TimeCaps({})

    def items(self, step: Step, read: Mapping[str, int], round_: int) -> list[Item] | None:
        """The items of a firing that reads these versions; None without `foreach`."""
        return None if step.foreach is None else walk(step.foreach, self._scopes.of(step, read, round_))

    async def run(self, firing: Firing) -> None:
        """Does every activation of a firing and commits. Raises StepFailed where `on_fail` is `stop`."""
        step = self._sop.steps[firing.step]
        job = _Job(self, step, firing)
        if step.foreach is None:
            await job.whole()
        else:
            await job.each(walk(step.foreach, job.scope))


class _Job:
    """One firing under way."""

    def __init__(self, fanout: Fanout, step: Step, firing: Firing) -> None:
        self._fan, self._step, self._firing = fanout, step, firing
        self._artifact = fanout._sop.artifacts[step.makes.artifact]
        self.scope = fanout._scopes.of(step, firing.read, firing.round)
        self._base = fanout._state.payload(step.makes.artifact)
        self._bounds = tuple(render_pattern(pattern, self.scope) for pattern in self._artifact.files)
        self._revises = step.makes.artifact in reads(step)
        self._reads = self._read_parts()

    async def whole(self) -> None:
        """A firing without `foreach`: its result and its commit are one transaction."""
        found = None if None in self._firing.lost else await self._attempts(None, {})
        if found is None:
            await self._commit_whole(None, None, {})
        else:
            finished, blobs, payload = found
            await self._commit_whole(finished, payload, blobs)

    async def _commit_whole(self, finished: Finished | None, payload: Data | Files | Patch | Collection | None,
                            blobs: dict[str, bytes]) -> None:
        versions: list[Version] = []
        if isinstance(payload, Patch):
            files = overlaid(self._files_base(), [payload], patterns=self._bounds)
            versions.append(self._version(self._step.makes.artifact, pack(files), blobs))
        elif finished is not None:
            versions.append(self._numbered(self._step.makes.artifact, finished.payload))
        versions += self._failure_version(blobs)
        committed = Committed(firing=self._firing.key, versions=tuple(versions))
        await self._fan._bus.publish(*([finished] if finished is not None else []), committed, blobs=blobs)

    async def each(self, items: list[Item]) -> None:
        """A firing with `foreach`: items start in list order as their `after` and `parallel` allow."""
        progress = Progress(items)
        place = {item.key: index for index, item in enumerate(items)}
        direct = {item.key: item.after for item in items}
        waiting = {item.key: len(item.after) for item in items}     # how many of its `after` are not done
        dependents: dict[str, list[str]] = {}
        for item in items:
            for key in item.after:
                dependents.setdefault(key, []).append(item.key)
        ready: list[tuple[int, dict[str, str]]] = []           # heap: (place in the list, what it comes after gave)
        running = 0
        finished: asyncio.Queue[tuple[Item, Result | None]] = asyncio.Queue()

        def free(keys: Iterable[str]) -> None:
            """Takes up items that wait for nothing any more: what stands already is done, the rest may start."""
            open_ends = list(keys)
            while open_ends:
                item = items[place[open_ends.pop()]]
                prior = self._prior(item, direct, progress)
                if prior is not None and not self._known(item, prior, progress):
                    heapq.heappush(ready, (place[item.key], prior))
                    continue
                open_ends += over(item.key)

        def over(key: str) -> list[str]:
            for dependent in dependents.get(key, ()):
                waiting[dependent] -= 1
            return [dependent for dependent in dependents.get(key, ()) if not waiting[dependent]]

        async def one(item: Item, prior: dict[str, str]) -> None:
            finished.put_nowait((item, await self._publish_item(item, prior)))

        limit = self._step.foreach.parallel if self._step.foreach is not None else None
        free(item.key for item in items if not item.after)
        async with asyncio.TaskGroup() as group:
            while ready or running:
                while ready and (limit is None or running < limit):
                    index, prior = heapq.heappop(ready)
                    running += 1
                    group.create_task(one(items[index], prior), name=f"{self._firing.key}[{items[index].key}]")
                item, result = await finished.get()
                running -= 1
                progress.ran = True
                if result is None:
                    progress.lost[item.key] = self._firing.lost[item.key]
                else:
                    progress.results[item.key] = result
                free(over(item.key))
        await self._commit_each(progress)

    def _prior(self, item: Item, direct: Mapping[str, tuple[str, ...]], progress: Progress) -> dict[str, str] | None:
        """Key → payload of the items that it comes after; None where one of them failed, and so does this."""
        keys = before(item.key, direct)
        failed = [key for key in progress.lost if key in keys]
        if failed:
            progress.lost[item.key] = f"{failed[0]!r}, which it comes after, failed"
            progress.ran = True
            return None
        return {key: progress.results[key].payload for key in sorted(keys)}

    def _known(self, item: Item, prior: dict[str, str], progress: Progress) -> bool:
        """Whether the item's result stands already: done before a crash, failed for good, or unchanged since last time."""
        if item.key in self._firing.done:
            progress.results[item.key], progress.ran = self._firing.done[item.key], True
        elif item.key in self._firing.lost:
            progress.lost[item.key], progress.ran = self._firing.lost[item.key], True
        else:
            last = self._fan._state.last.get(self._firing.step, {}).get(item.key)
            if last is None or last.digest != self._digest(item, prior):
                return False
            progress.results[item.key] = last
            progress.reused.add(item.key)
        return True

    async def _publish_item(self, item: Item, prior: dict[str, str]) -> Result | None:
        found = await self._attempts(item, prior)
        if found is None:
            return None
        finished, blobs, _ = found
        await self._fan._bus.publish(finished, blobs=blobs)
        return Result(finished.payload, finished.digest)

    async def _commit_each(self, progress: Progress) -> None:
        last = self._fan._state.last.get(self._firing.step, {})
        keys = {item.key for item in progress.items}
        before = self._fan._state.walked.get(self._firing.step, ())
        dropped = [] if self._revises else [key for key in before if key not in keys]
        versions: list[Version] = []
        blobs: dict[str, bytes] = {}
        if progress.ran or dropped or self._base is None:
            versions.append(self._version(self._step.makes.artifact, pack(self._merged(progress, dropped, last)), blobs))
        versions += self._failure_version(blobs)
        reused = tuple(item.key for item in progress.items if item.key in progress.reused)
        await self._fan._bus.publish(
            Committed(firing=self._firing.key, versions=tuple(versions), reused=reused), blobs=blobs)

    def _merged(self, progress: Progress, dropped: list[str], last: Mapping[str, Result]) -> Files | Collection:
        order = [item.key for item in progress.items]
        absent = [key for key in order if key in progress.lost]
        gone = [] if self._revises else [*dropped, *absent]
        fresh = [key for key in order if key in progress.results and key not in progress.reused]
        base = None if self._base is None else self._fan._values.payload(self._base)
        if self._artifact.files:
            files = base if isinstance(base, Files) else None
            missing = still_missing(files, absent, {*order, *dropped})
            paths = {path for key in gone if key in last for path in self._wrote(last[key])}
            patches = [self._patch(progress.results[key].payload) for key in fresh]
            return overlaid(files, patches, gone=paths, patterns=self._bounds, missing=missing)
        entries = base if isinstance(base, Collection) else None
        missing = still_missing(entries, absent, {*order, *dropped})
        return gathered(entries, {key: progress.results[key].payload for key in fresh}, gone=set(gone),
                        order=[] if self._revises else order, missing=missing)

    def _wrote(self, result: Result) -> set[str]:
        """Every path that an item wrote in any of its runs, and that may still be there."""
        return {path for payload in (*result.before, result.payload) for path in self._patch(payload).written}

    def _patch(self, name: str) -> Patch:
        payload = self._fan._values.payload(name)
        return payload if isinstance(payload, Patch) else Patch()

    def _files_base(self) -> Files | None:
        base = None if self._base is None else self._fan._values.payload(self._base)
        return base if isinstance(base, Files) else None

    async def _attempts(self, item: Item | None,
                        prior: dict[str, str]) -> tuple[Finished, dict[str, bytes], Data | Files | Patch | Collection] | None:
        """Tries until it works or the attempts are used up: None where the item is lost."""
        key = None if item is None else item.key
        slot = self._firing.slot(key)
        loop = asyncio.get_running_loop()
        while True:
            attempt = ActivationKey(self._firing.step, self._firing.round, key, slot.attempts)
            started = loop.time()
            try:
                activation = self._activation(attempt, item, prior)
                parts = {**self._parts(item, prior), **self._fan._runner.parts(activation)}
                found = self._fan._earlier.find(attempt, parts) if self._fan._earlier and not slot.attempts else ()
                if isinstance(found, Taken):
                    return self._taken(activation, parts, found, self._digest(item, prior))
                work = await self._work(activation)
            except _ATTEMPT_ERRORS as error:
                await self._failed(attempt, str(error), loop.time() - started)
                if key in self._firing.lost:
                    return None
                continue
            blobs = dict(work.blobs)
            packed = pack(work.payload)
            name = digest(packed)
            blobs[name] = packed
            return Finished(activation=str(attempt), payload=name, digest=self._digest(item, prior), parts=parts,
                            memory=work.memory, why=found, seconds=loop.time() - started), blobs, work.payload

    async def _work(self, activation: Activation) -> Work:
        step = self._step
        scopes = [f"step:{activation.key.step}", f"role:{step.role}"]
        async with self._fan._caps.within(scopes):
            if step.timeout is None:
                return await self._fan._runner.work(activation)
            try:
                async with asyncio.timeout(step.timeout) as limit:
                    return await self._fan._runner.work(activation)
            except TimeoutError:
                if not limit.expired():
                    raise
                raise AttemptFailed(f"timed out after {step.timeout:g} s") from None

    async def _failed(self, key: ActivationKey, error: str, seconds: float) -> None:
        slot = self._firing.slot(key.item)
        final = slot.series >= self._step.retries
        stops = final and self._step.on_fail.action == "stop"
        await self._fan._bus.publish(Failed(activation=str(key), error=error, final=final, stops=stops, seconds=seconds))
        if stops:
            raise StepFailed(str(key), error)

    def _taken(self, activation: Activation, parts: dict[str, str], taken: Taken,
               own: str) -> tuple[Finished, dict[str, bytes], Data | Files | Patch | Collection]:
        blobs = dict(taken.blobs)
        return Finished(activation=str(activation.key), payload=taken.payload, digest=own, parts=parts, memory=taken.memory,
                        reused_from=taken.source), blobs, unpack(blobs[taken.payload])

    def _activation(self, key: ActivationKey, item: Item | None, prior: dict[str, str]) -> Activation:
        scope: dict[str, Any] = {**self.scope, "prior": Prior(prior, self._fan._values.view)}
        if item is not None and self._step.foreach is not None:
            scope.update({"item": item.value, self._step.foreach.as_: item.value, "key": item.key})
        patterns = tuple(render_pattern(pattern, scope) for pattern in self._step.makes.patterns) or self._bounds

        def patches() -> tuple[Patch, ...]:
            found = (self._fan._values.payload(payload) for payload in prior.values())
            return tuple(payload for payload in found if isinstance(payload, Patch))

        return Activation(key, self._firing.read, scope, item, patches, patterns, self._bounds, self._base)

    def _read_parts(self) -> dict[str, str]:
        """What every item's digest covers: needs and wants, but for those that the list itself is made of."""
        step, state = self._step, self._fan._state
        walked = free_names(step.foreach.in_) if step.foreach is not None else frozenset()
        parts: dict[str, str] = {}
        for kind, entries in (("need", step.needs), ("want", step.wants)):
            for entry in entries:
                artifact = artifact_of(entry)
                if entry == artifact and artifact not in walked:
                    parts[f"{kind}:{entry}"] = (state.payload(artifact, self._firing.read[artifact]) or "")[:32] \
                        if self._firing.read.get(artifact) else ""
                elif entry != artifact:
                    value = part(self.scope.get(artifact, MISSING), entry.split(".")[1:])
                    parts[f"{kind}:{entry}"] = "" if value is MISSING else fingerprint(value)
        if self._revises:
            # What a reviser betters counts, or a fault that is told in the same words again would never be mended again.
            made = step.makes.artifact
            parts[f"revises:{made}"] = (state.payload(made, self._firing.read[made]) or "")[:32] if self._firing.read[made] else ""
        return parts

    def _parts(self, item: Item | None, prior: Mapping[str, str]) -> dict[str, str]:
        """What a result depends on, as far as the engine sees: for `--from`, where `sees` counts too."""
        parts = dict(self._reads)
        for entry in self._step.sees:
            artifact = artifact_of(entry)
            number = self._firing.read.get(artifact, 0)
            parts[f"sees:{entry}"] = (self._fan._state.payload(artifact, number) or "")[:32] if number else ""
        if item is not None:
            parts["item"] = fingerprint(item.value)
        parts.update((f"after:{key}", payload[:32]) for key, payload in prior.items())
        return parts

    def _digest(self, item: Item | None, prior: Mapping[str, str]) -> str:
        """By which an item is reused when its step fires again."""
        if item is None:
            return ""
        return fingerprint([item.value, self._reads, dict(prior)])

    def _failure_version(self, blobs: dict[str, bytes]) -> list[Version]:
        """What tells of the failures, for `on_fail: {makes: …}`: the first in list order, and all of them."""
        lost = self._firing.lost
        if not lost or self._step.on_fail.artifact is None:
            return []
        order = [key for key in (self._firing.items or (None,)) if key in lost]
        items = [{"key": key, "error": lost[key]} for key in order if key is not None]
        value = {"step": self._firing.step, "key": order[0] or "", "error": lost[order[0]], "items": items}
        return [self._version(self._step.on_fail.artifact, pack(Data(value=value)), blobs)]

    def _version(self, artifact: str, packed: bytes, blobs: dict[str, bytes]) -> Version:
        name = digest(packed)
        blobs[name] = packed
        return self._numbered(artifact, name)

    def _numbered(self, artifact: str, payload: str) -> Version:
        return Version(artifact=artifact, number=self._fan._state.version(artifact) + 1, payload=payload)
