"""One firing: its items side by side as their `after` allow, what of them is reused, and the commit at the end."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from time import time

from metaflow_agents.engine.attempts import AttemptContext, Attempts, Holding, Outcome
from metaflow_agents.engine.failing import unless_stopped
from metaflow_agents.engine.items import before, walk
from metaflow_agents.engine.labels import Labels
from metaflow_agents.engine.merge import gathered, overlaid, still_missing
from metaflow_agents.engine.scope import Scopes
from metaflow_agents.engine.work import Earlier, Item, Recalled, StepRunner
from metaflow_agents.errors import BudgetExceeded, Waiting
from metaflow_agents.journal.records import Result
from metaflow_agents.journal.run_context import RunContext
from metaflow_agents.journal.state import Firing
from metaflow_agents.schema.event import Committed, Finished, Version
from metaflow_agents.schema.payload import Collection, Data, Files, Held, Patch, stored
from metaflow_agents.schema.step import Foreach, Step
from metaflow_agents.schema.strategies import STRATEGIES, Specs
from metaflow_agents.schema.trust import joined

News = tuple[Item, Result | Waiting | BudgetExceeded | dict[str, str] | None]
"""Of an item: its result, None where it failed, why it is parked; or (what it comes after gave) that it may go on."""


@dataclass(slots=True)
class MappedProgress:
    """How far the items of one firing are."""

    items: list[Item]
    results: dict[str | None, Result] = field(default_factory=dict)
    reused: set[str] = field(default_factory=set)
    lost: dict[str, str] = field(default_factory=dict)
    ran: bool = False


class Fanout:
    """Carries out firings: asks the step runner, journals what came, and commits."""

    def __init__(self, context: RunContext, scopes: Scopes, runner: StepRunner, *, earlier: Earlier | None = None,
                 holding: Holding | None = None, recalled: Recalled = lambda _: "", strategies: Specs = STRATEGIES) -> None:
        holding = holding or Holding()
        self.parking = holding.parking
        self._means = AttemptContext(context.sop, context.bus, context.state, context.values, scopes, runner, earlier, holding,
                            Labels(context.program, context.state, strategies), recalled, strategies)

    def items(self, step: Step, read: Mapping[str, int], round_: int) -> list[Item] | None:
        """The items of a firing that reads these versions; None without `foreach`."""
        return None if step.foreach is None else walk(step.foreach, self._means.scopes.of(step, read, round_))

    async def run(self, firing: Firing) -> None:
        """Does every activation of a firing and commits. Raises StepFailed where `on_fail` is `stop`."""
        step = self._means.sop.steps[firing.step]
        job = _Job(self._means, step, firing)
        if step.foreach is None:
            await job.whole()
        else:
            await job.each(step.foreach)


class _Job:
    """One firing under way."""

    def __init__(self, means: AttemptContext, step: Step, firing: Firing) -> None:
        self._means, self._step, self._firing = means, step, firing
        self._attempts = Attempts(means, step, firing)
        self._base, self._base_label = self._attempts.base, means.state.untrusted(step.makes.artifact)
        self._files = bool(means.sop.artifacts[step.makes.artifact].files)

    async def whole(self) -> None:
        """A firing without `foreach`: its result and its commit are one transaction."""
        found = None if None in self._firing.lost else await self._answered()
        if found is None:
            self._commit_whole(None, None, {})
        else:
            finished, blobs, payload = found
            self._commit_whole(finished, payload, blobs)

    async def _answered(self) -> Outcome | None:
        """What the attempts come to, each of which may have to wait for answers in between."""
        parking = self._means.parking
        while True:
            try:
                return await self._attempts.until_done(None, {})
            except (Waiting, BudgetExceeded) as why:
                with parking.rest(self._firing.key):
                    await parking.closed(self._firing.key, why)
                await asyncio.sleep(0)                         # the others get their turn, whatever the doer says next

    def _commit_whole(self, finished: Finished | None, payload: Held | None,
                            blobs: dict[str, bytes]) -> None:
        versions: list[Version] = []
        if isinstance(payload, Patch):
            files = overlaid(self._files_base(), [payload], patterns=self._attempts.bounds)
            untrusted = joined(self._base_label, finished.untrusted if finished is not None else "")
            versions.append(self._version(self._step.makes.artifact, files, blobs, untrusted))
        elif finished is not None:
            versions.append(self._numbered(self._step.makes.artifact, finished.payload, finished.untrusted))
        versions += self._failure_version(blobs)
        committed = Committed(at=time(), firing=self._firing.key, versions=tuple(versions))
        self._means.bus.post(*([finished] if finished is not None else []), committed, blobs=blobs)

    async def each(self, foreach: Foreach) -> None:
        """A firing with `foreach`: items start in list order as their `after` and `parallel` allow."""
        items, limit = walk(foreach, self._attempts.scope), foreach.parallel
        progress = MappedProgress(items)
        place = {item.key: index for index, item in enumerate(items)}
        direct = {item.key: item.after for item in items}
        waiting = {item.key: len(item.after) for item in items}     # how many of its `after` are not done
        dependents = _dependents(items)
        ready: list[tuple[int, dict[str, str]]] = []           # heap: (place in the list, what it comes after gave)
        running = parked = capped = 0
        news: asyncio.Queue[News] = asyncio.Queue()

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
            try:
                news.put_nowait((item, await self._publish_item(item, prior, progress)))
            except (Waiting, BudgetExceeded) as why:
                news.put_nowait((item, why))
                await self._means.parking.closed(self._firing.key, why)
                news.put_nowait((item, prior))

        free(item.key for item in items if not item.after)
        async with asyncio.TaskGroup() as group:
            while ready or running or parked:
                while ready and (limit is None or running + capped < limit):
                    index, prior = heapq.heappop(ready)
                    running += 1
                    group.create_task(unless_stopped(partial(one, items[index], prior)),
                                      name=f"{self._firing.key}[{items[index].key}]")
                item, told = await self._next(news, running)
                if isinstance(told, dict):
                    parked -= 1
                    heapq.heappush(ready, (place[item.key], told))
                    continue
                running -= 1
                if isinstance(told, Waiting | BudgetExceeded):
                    # Who waits for an answer gives up its place among `parallel`; at a cap it is kept: others would meet it too.
                    parked += 1
                    capped += isinstance(told, BudgetExceeded)
                    continue
                self._over(item, told, progress)
                free(over(item.key))
        self._commit_each(progress)

    async def _next(self, news: asyncio.Queue[News], running: int) -> News:
        """What is heard next of an item. Where none is under way, the firing rests until then."""
        if running or not news.empty():
            return await news.get()
        with self._means.parking.rest(self._firing.key):
            return await news.get()

    def _over(self, item: Item, result: Result | None, progress: MappedProgress) -> None:
        progress.ran = True
        if result is None:
            progress.lost[item.key] = self._firing.lost[item.key]
        else:
            progress.results[item.key] = result

    def _prior(self, item: Item, direct: Mapping[str, tuple[str, ...]], progress: MappedProgress) -> dict[str, str] | None:
        """Key → payload of the items that it comes after; None where one of them failed, and so does this."""
        keys = before(item.key, direct)
        failed = [key for key in progress.lost if key in keys]
        if failed:
            progress.lost[item.key] = f"{failed[0]!r}, which it comes after, failed"
            progress.ran = True
            return None
        return {key: progress.results[key].payload for key in sorted(keys)}

    def _known(self, item: Item, prior: dict[str, str], progress: MappedProgress) -> bool:
        """Whether the item's result stands already: done before a crash, failed for good, or unchanged since last time."""
        if item.key in self._firing.done:
            progress.results[item.key], progress.ran = self._firing.done[item.key], True
        elif item.key in self._firing.lost:
            progress.lost[item.key], progress.ran = self._firing.lost[item.key], True
        else:
            last = self._means.state.last.get(self._firing.step, {}).get(item.key)
            if last is None or last.digest != self._attempts.digest(item, prior):
                return False
            progress.results[item.key] = last
            progress.reused.add(item.key)
        return True

    async def _publish_item(self, item: Item, prior: dict[str, str], progress: MappedProgress) -> Result | None:
        heard = joined(*(progress.results[key].untrusted for key in prior))
        found = await self._attempts.until_done(item, prior, heard)
        if found is None:
            return None
        finished, blobs, _ = found
        self._means.bus.post(finished, blobs=blobs)
        return Result(finished.payload, finished.digest, (), finished.untrusted, finished.assumed)

    def _commit_each(self, progress: MappedProgress) -> None:
        last = self._means.state.last.get(self._firing.step, {})
        keys = {item.key for item in progress.items}
        before = self._means.state.walked.get(self._firing.step, ())
        dropped = [] if self._attempts.revises else [key for key in before if key not in keys]
        versions: list[Version] = []
        blobs: dict[str, bytes] = {}
        if progress.ran or dropped or self._base is None:
            untrusted = joined(self._base_label, self._attempts.label.listed,
                               *(result.untrusted for result in progress.results.values()))
            made = self._merged(progress, dropped, last)
            versions.append(self._version(self._step.makes.artifact, made, blobs, untrusted))
        versions += self._failure_version(blobs)
        reused = tuple(item.key for item in progress.items if item.key in progress.reused)
        self._means.bus.post(
            Committed(at=time(), firing=self._firing.key, versions=tuple(versions), reused=reused), blobs=blobs)

    def _merged(self, progress: MappedProgress, dropped: list[str], last: Mapping[str, Result]) -> Files | Collection:
        order = [item.key for item in progress.items]
        absent = [key for key in order if key in progress.lost]
        gone = [] if self._attempts.revises else [*dropped, *absent]
        fresh = [key for key in order if key in progress.results and key not in progress.reused]
        base = None if self._base is None else self._means.values.payload(self._base)
        if self._files:
            files = base if isinstance(base, Files) else None
            missing = still_missing(files, absent, {*order, *dropped})
            paths = {path for key in gone if key in last for path in self._wrote(last[key])}
            patches = [self._patch(progress.results[key].payload) for key in fresh]
            return overlaid(files, patches, gone=paths, patterns=self._attempts.bounds, missing=missing)
        entries = base if isinstance(base, Collection) else None
        missing = still_missing(entries, absent, {*order, *dropped})
        return gathered(entries, {key: progress.results[key].payload for key in fresh}, gone=set(gone),
                        order=[] if self._attempts.revises else order, missing=missing)

    def _wrote(self, result: Result) -> set[str]:
        """Every path that an item wrote in any of its runs, and that may still be there."""
        return {path for payload in (*result.before, result.payload) for path in self._patch(payload).written}

    def _patch(self, name: str) -> Patch:
        payload = self._means.values.payload(name)
        return payload if isinstance(payload, Patch) else Patch()

    def _files_base(self) -> Files | None:
        base = None if self._base is None else self._means.values.payload(self._base)
        return base if isinstance(base, Files) else None

    def _failure_version(self, blobs: dict[str, bytes]) -> list[Version]:
        """What tells of the failures, for `on_fail: {makes: …}`: the first in list order, and all of them."""
        lost = self._firing.lost
        if not lost or self._step.on_fail.artifact is None:
            return []
        order = [key for key in (self._firing.items or (None,)) if key in lost]
        items = [{"key": key, "error": lost[key]} for key in order if key is not None]
        value = {"step": self._firing.step, "key": order[0] or "", "error": lost[order[0]], "items": items}
        untrusted = joined(self._attempts.label.listed, *self._firing.doubted.values())
        return [self._version(self._step.on_fail.artifact, Data(value=value), blobs, untrusted)]

    def _version(self, artifact: str, payload: Held, blobs: dict[str, bytes], untrusted: str) -> Version:
        return self._numbered(artifact, stored(payload, blobs), untrusted)

    def _numbered(self, artifact: str, payload: str, untrusted: str) -> Version:
        return Version(artifact=artifact, number=self._means.state.version(artifact) + 1, payload=payload, untrusted=untrusted)


def _dependents(items: Iterable[Item]) -> dict[str, list[str]]:
    """Key → the items whose `after` names it."""
    found: dict[str, list[str]] = {}
    for item in items:
        for key in item.after:
            found.setdefault(key, []).append(item.key)
    return found
