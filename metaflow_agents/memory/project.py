"""The project's memory as a run uses it: what its firings commit is handed over, and what comes to mind is looked for in it.

The file is a fold of journals: a run that is killed before it handed over what it had committed does so on its resume.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from time import time
from typing import Any, Protocol, TypeVar

from metaflow_agents.journal.state import RunState
from metaflow_agents.journal.values import Values
from metaflow_agents.memory.embeddings import Embedder, Embeddings, WantedEmbedding
from metaflow_agents.memory.scope import Scope
from metaflow_agents.memory.scoring import Scored, Weights, best
from metaflow_agents.memory.seen import UNRATED
from metaflow_agents.memory.store import EMBEDDED, Kind, MemoryDatabase, StoredMemory
from metaflow_agents.memory.wording import worded
from metaflow_agents.schema.event import Entry
from metaflow_agents.schema.model import canonical, digest
from metaflow_agents.schema.role import Recall
from metaflow_agents.threads.blocking import Threads

FOUND = 256                         # memories that an index names; what is not among them is not relevant
SHOWN = EMBEDDED                    # characters of a memory in a prompt
T = TypeVar("T")
Near = Callable[[MemoryDatabase, Scope], dict[int, float]]
"""Memory → similarity, of those that a scope sees."""
_BEYOND = 4                         # times as many as are wanted: some say the same


class Inherited(Protocol):
    """What a sub-SOP inherits from the run above."""

    def __call__(self, mind: str | None, *, lessons: bool) -> Awaitable[list[str]]:
        """Keys of what a role or character (None: anybody) remembers, oldest first, all of it in the file: its lessons, or what
        else there is. Raises MemoryFault.
        """
        ...


@dataclass(frozen=True, slots=True)
class RunId:
    """A run for good, and by its name, which may be another one's once it is removed."""

    digest: str
    name: str


class MemoryFile:
    """The file, as a run and the SOPs in it share it. `open_` opens it; it is made when something is kept for the first time."""

    def __init__(self, open_: Callable[[], MemoryDatabase]) -> None:
        self._open = open_
        self._store: MemoryDatabase | None = None
        self._threads = Threads(1, "memory")

    @cached_property
    def embeddings(self) -> Embeddings:
        """What is embedded of it; made where a role recalls by embeddings."""
        return Embeddings(self.do)

    async def do(self, work: Callable[[MemoryDatabase], T]) -> T:
        """What `work` gives, which is done in a thread. Raises MemoryFault."""
        return await self._threads.run(lambda: work(self._opened()))

    async def close(self) -> None:
        """Lets go of the file."""
        store, self._store = self._store, None
        if store is not None:
            await self._threads.run(store.close)

    def _opened(self) -> MemoryDatabase:
        if self._store is None:
            self._store = self._open()
        return self._store


@dataclass(frozen=True, slots=True)
class Inside:
    """What the memory of a SOP in a run has of it: `run` is the whole run's, `prefix` begins its keys there. `alone`: nothing of
    other runs comes in, whoever asks. `inherited`: what it is told of the run; None: nothing.
    """

    run: RunId | None = None
    prefix: str = ""
    alone: bool = False
    inherited: Inherited | None = None


WHOLE = Inside()
"""Of a run itself."""


class ProjectMemory:
    """The memory of one run in its project, or of a SOP in it, which has what `inside` says.

    `masked` blots secrets out: nothing that a SOP declares as one comes into the file. Without `keeps` nothing is handed over:
    nobody remembers anything. `apart`: roles whose memories are the run's alone.
    """

    def __init__(self, file: MemoryFile, state: RunState, values: Values, masked: Callable[[str], str], *, keeps: bool = True,
                 apart: Container[str] = (), inside: Inside = WHOLE) -> None:
        self._file, self._state, self._values, self._masked, self._keeps, self._apart = file, state, values, masked, keeps, apart
        self._given, self._prefix, self._alone, self._inherited = inside.run, inside.prefix, inside.alone, inside.inherited
        self._handed_over = 0                                   # firings, in the order in which they committed

    async def recall(self, role: str, wanted: Recall, past: Sequence[Entry], standing: Sequence[Entry],
                     asked: str, embedder: Embedder | None = None, *, others: bool = True) -> list[dict[str, Any]]:
        """What comes to a role's mind, oldest first, as JSON. Raises MemoryFault.

        What a person pinned for the role comes always, beside the `top`.
        `past`: what the firing's causal past holds of this run, oldest first; `standing`: what of it the prompt holds word for
        word and is not to be told twice; `asked`: what the memories have to do with; `embedder`: who embeds both. Nothing of
        other runs comes without `others`.
        """
        whom = role if wanted.from_ == "role" else None
        own, left_out = await self._own(whom, past), [self.key(entry) for entry in standing]
        fresh, upto = self._fresh()
        weights = Weights(wanted.recency, wanted.importance, wanted.relevance, wanted.decay)
        run, reaches = self.run.digest, others and not self._alone and wanted.from_ != "run"

        def whose(store: MemoryDatabase) -> tuple[dict[str, int], Scope]:
            store.keep(fresh)
            numbers = store.numbers([*own, *left_out])
            seen = tuple(numbers[key] for key in own if key in numbers)
            return numbers, Scope(None if wanted.from_ == "project" else role, run, seen, reaches)

        numbers, scope = await self._file.do(whose)
        self._handed_over = max(self._handed_over, upto)
        near = await self._near(wanted, asked, scope, embedder)

        def look(store: MemoryDatabase) -> list[dict[str, Any]]:
            seen = store.seen(scope)
            relevances = [index(store, scope) for index in near]
            if wanted.relevance:
                relevances.append(store.matching(asked, scope, FOUND))
            pins = {one.seq: one for one in store.pins(role)} if reaches else {}
            scored = best(seen, relevances, weights, wanted.top * _BEYOND,
                          frozenset(numbers[key] for key in left_out if key in numbers) | pins.keys())
            return _told([*(Scored(seq, 0.0, 0.0, 0.0, 0.0) for seq in pins), *scored],
                         pins | store.read([one.seq for one in scored]), len(pins) + wanted.top, run)

        return await self._file.do(look)

    async def _near(self, wanted: Recall, asked: str, scope: Scope, embedder: Embedder | None) -> list[Near]:
        """What looks for the memories whose embeddings are near to the question's; nothing where nobody embeds."""
        if embedder is None:
            return []
        embeddings = self._file.embeddings
        looked_for = WantedEmbedding(embedder, self._masked(asked), wanted.index, wanted.similarity)
        question = await embeddings.prepare(looked_for, scope)
        return [lambda store, scope: embeddings.nearest(store, looked_for, question, scope, FOUND)]

    async def recent(self, mind: str, past: Sequence[Entry], limit: int, *, others: bool) -> tuple[int, list[dict[str, Any]]]:
        """What a role or character remembers that is newest, oldest first; and before that, how much importance came together
        in other runs since it last reflected. `past`: of this run. Without `others` other runs don't count. Raises MemoryFault.
        """
        own, run, reaches = await self._own(mind, past), self.run.digest, others and not self._alone
        fresh, upto = self._fresh()

        def look(store: MemoryDatabase) -> tuple[int, list[StoredMemory]]:
            store.keep(fresh)
            numbers = store.numbers(own)
            scope = Scope(mind, run, tuple(numbers[key] for key in own if key in numbers), reaches)
            newest = store.seen(scope).newest(limit)
            memories = store.read(newest)
            return store.unreflected(scope, UNRATED), [memories[number] for number in newest if number in memories]

        weight, found = await self._file.do(look)
        self._handed_over = max(self._handed_over, upto)
        return weight, [{"key": one.key, "text": shown(one.text), "untrusted": one.untrusted} for one in found]

    async def lessons(self, mind: str, past: Sequence[Entry], limit: int, *, others: bool = True) -> list[dict[str, Any]]:
        """The latest lessons of a role or character, of this run and before it of all others, oldest first, each text once.
        `past`: of this run. Without `others` there are no others. Raises MemoryFault.
        """
        own, run, reaches = await self._own(mind, past, lessons=True), self.run.digest, others and not self._alone
        fresh, upto = self._fresh()

        def look(store: MemoryDatabase) -> list[StoredMemory]:
            store.keep(fresh)
            numbers = store.numbers(own)
            scope = Scope(mind, run, tuple(numbers[key] for key in own if key in numbers), reaches, lessons=True)
            latest = store.seen(scope).newest(limit * _BEYOND)
            memories, told = store.read(latest), dict[str, StoredMemory]()
            for number in reversed(latest):
                if number in memories and len(told) < limit:
                    told.setdefault(memories[number].text, memories[number])
            return [*told.values()][::-1]

        found = await self._file.do(look)
        self._handed_over = max(self._handed_over, upto)
        return [{"key": one.key, "run": one.name, "activation": one.activation, "text": shown(one.text),
                 "untrusted": one.untrusted} for one in found]

    async def handed_over(self, mind: str | None, past: Sequence[Entry], *, lessons: bool) -> list[str]:
        """Keys of what the run remembers of its past, and before them of what it inherits, once all of it is in the file: what a
        SOP in it inherits. Raises MemoryFault.
        """
        await self.settle()
        return await self._own(mind, past, lessons=lessons)

    async def _own(self, mind: str | None, past: Sequence[Entry], *, lessons: bool = False) -> list[str]:
        above = [] if self._inherited is None else await self._inherited(mind, lessons=lessons)
        return [*above, *(self.key(entry) for entry in past)]

    async def settle(self) -> None:
        """Hands over what committed since. Raises MemoryFault."""
        fresh, upto = self._fresh()
        if fresh:
            await self._file.do(lambda store: store.keep(fresh))
            self._handed_over = max(self._handed_over, upto)

    async def close(self) -> None:
        """Lets go of the file."""
        await self._file.close()

    def key(self, entry: Entry) -> str:
        """What a memory is known by: equal for the same activation of a run and of its forks as long as they said the same."""
        activation = f"{self._prefix}{entry.activation}"
        kind = [] if entry.kind == "turn" else [entry.kind]
        return digest(canonical([self.run.digest, entry.whose, activation, entry.asked, entry.answered, *kind]))[:16]

    @property
    def run(self) -> RunId:
        """The run that this is of."""
        opened = self._state.opened
        if self._given is not None or opened is None:
            return self._given or RunId("", "")
        return RunId(digest(canonical([opened.run, opened.at, opened.compiled]))[:16], opened.run)

    def _fresh(self) -> tuple[list[StoredMemory], int]:
        """What committed since something was handed over, and how many firings that makes in all: more of them may commit
        until it is in the file.
        """
        upto = len(self._state.memory)
        if not self._keeps or self._handed_over == upto:
            return [], upto
        run = self.run
        return [self._memory(entry, run) for entries in islice(self._state.memory.values(), self._handed_over, None)
                for entry in entries if entry.kind != "summary"], upto

    def _memory(self, entry: Entry, run: RunId) -> StoredMemory:
        answered = self._values.text(entry.answered)
        kind: Kind = "turn" if entry.kind == "summary" else entry.kind
        text = worded(self._values.text(entry.asked), answered) if kind == "turn" else answered.strip()
        return StoredMemory(self.key(entry), kind, run.digest, run.name, entry.whose, f"{self._prefix}{entry.activation}", time(),
                      self._masked(text), entry.importance, self._masked(entry.untrusted), entry.cites,
                      apart=self._alone or entry.role in self._apart)

    def masked(self, text: str) -> str:
        """A text as the file may hold it: without secrets."""
        return self._masked(text)


def _told(scored: Sequence[Scored], memories: Mapping[int, StoredMemory], top: int, own: str) -> list[dict[str, Any]]:
    """The best, each text once, in the order in which they came to be. Those of the run `own` do not name it: prompts that
    did would be others under another name, and no recording would replay.
    """
    found: dict[str, tuple[Scored, StoredMemory]] = {}
    for one in scored:
        memory = memories.get(one.seq)                          # another process may have removed it since
        if memory is not None and len(found) < top:
            found.setdefault(memory.text, (one, memory))
    return [{"key": memory.key, "role": memory.role, "run": "" if memory.run == own else memory.name,
             "activation": memory.activation, "kind": memory.kind, "text": shown(memory.text),
             "importance": memory.importance, "untrusted": memory.untrusted,
             "score": round(one.score, 6), "recency": round(one.recency, 6), "relevance": round(one.relevance, 6)}
            for one, memory in sorted(found.values(), key=lambda pair: pair[1].seq)]


def shown(text: str) -> str:
    """A memory as prompts show it: a long one is cut, and that is said."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} … ({len(text) - SHOWN:,} more characters)"
