"""The port between the engine and those who do the work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from metaflow_agents.engine.earlier_effects import EarlierEffects
from metaflow_agents.schema.event import EarlierEffect, Entry
from metaflow_agents.schema.keys import ActivationKey
from metaflow_agents.schema.payload import Binary, Data, Patch


@dataclass(frozen=True, slots=True)
class Item:
    """One element of a `foreach` list: its key, its value, and the keys that must be done first."""

    key: str
    value: Any
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Activation:
    """What a doer is asked to do: one item of a firing, or the whole of it, and which attempt this is.

    `scope` holds what expressions and templates of the step may name, `prior` among it: what the item's transitive
    `after` items made. `patches` gives the same as files, for the tree that a command runs on. `patterns` are the
    rendered path patterns to which the files made are confined, `bounds` those of the whole artifact; `base` is the
    digest of the artifact's latest version (None: none yet), on which edits apply.

    `untrusted`: what of all that it starts with came from outside the user, in words (`schema/trust.py`), and may not decide
    about actions; empty: nothing. What the step `trusts` by name is left out of it, and stands in `unlifted`: elsewhere, as
    in what a role remembers, it is as untrusted as before. `inputs` is the label of all that `run.inputs` holds, for a
    function that asks for `run`. `labels`: of what is untrusted, name in `scope` → its own label.
    """

    key: ActivationKey
    read: Mapping[str, int]
    scope: Mapping[str, Any]
    item: Item | None = None
    patches: Callable[[], tuple[Patch, ...]] = tuple
    patterns: tuple[str, ...] = ()
    bounds: tuple[str, ...] = ()
    base: str | None = None
    untrusted: str = ""
    unlifted: str = ""
    inputs: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Work:
    """What a doer gave: a payload, the blobs that it names by digest, what its role remembers of it, and what besides.

    `assumed` says in words what was taken for granted, since nobody answered.
    `untrusted` is the label of the payload in place of the activation's own, where the doer took in more (results of tools)
    or nothing of it (a person's own words: the empty text). None: the activation's.
    """

    payload: Data | Binary | Patch
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    memory: Entry | None = None
    assumed: tuple[str, ...] = ()
    untrusted: str | None = None
    besides: tuple[Entry, ...] = ()


class StepRunner(Protocol):
    """Does the work of one activation. The engine is tested with a plain function behind this port."""

    async def work(self, activation: Activation) -> Work:
        """Does it. Raises RunError where the attempt failed, Waiting where somebody has to answer first, and then it is asked
        again for the same; other MetaflowErrors stop the run.
        """
        ...

    async def taken_over(self, activation: Activation, work: Work) -> Work:
        """A result of an earlier run as this run has it. Raises AttemptFailed where it can't be."""
        ...

    def parts(self, activation: Activation) -> dict[str, str]:
        """Fingerprints of what the result depends on besides what it reads: step, role, model, memory."""
        ...


@dataclass(frozen=True, slots=True)
class Taken:
    """A result of an earlier run that may be taken over."""

    payload: str
    source: str
    blobs: Mapping[str, bytes]
    memory: Entry | None
    untrusted: str = ""
    besides: tuple[Entry, ...] = ()
    effects: tuple[EarlierEffect, ...] = ()


Recalled = Callable[[Activation], str]
"""The label of what an activation starts with besides what its step reads: what its role remembers."""


class Earlier(Protocol):
    """`--from RUN`: results of an earlier run, by what they depended on; `effects`: what it did that may happen once only."""

    @property
    def effects(self) -> EarlierEffects | None:
        """What it did; None where there is nothing of the kind."""
        ...

    def find(self, key: ActivationKey, parts: Mapping[str, str]) -> Taken | tuple[str, ...]:
        """The result whose every part is equal, else why there is none: the parts that differ."""
        ...

    def use(self, taken: Taken, key: ActivationKey) -> None:
        """A result was taken over for this activation."""
        ...

    def inside(self, key: ActivationKey) -> Earlier | None:
        """What there is of the steps of the sub-SOP that this activation is."""
        ...

    def close(self) -> None:
        """Lets go of that run."""
        ...
