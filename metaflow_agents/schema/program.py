"""A SOP made whole: what a run needs and nothing else, independent of the files it came from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from pydantic import Field

from metaflow_agents.errors import UsageError, did_you_mean
from metaflow_agents.schema.model import Value, fingerprint
from metaflow_agents.schema.sop import SOP


class Program(Value):
    """The compiled SOP. Defaults are merged into steps and roles, role files into `sop.roles`.

    `sops`: what a step writes as `sop:` → that SOP, made whole likewise.
    `schemas`: artifact name → normalised JSON Schema of its data (of one item, for a collection); absent for text
    without a schema, for files, and for results of commands. `input:NAME` → schema of an input (absent for `file`
    and `folder`). `review:NAME` → what the judge of a step answers with. A pydantic schema stands as
    `{"$python": "package.module:Model"}`.
    `templates`: file name → text, for role prompts, `render` and what they include. `documents`: name of an OpenAPI service →
    its description. `screens`: name of a file under `policy: {screen: …}` → heading → the names below it.
    """

    sop: SOP
    schemas: dict[str, dict[str, Any]] = Field(default_factory=dict)
    templates: dict[str, str] = Field(default_factory=dict)
    documents: dict[str, Any] = Field(default_factory=dict)
    screens: dict[str, dict[str, tuple[str, ...]]] = Field(default_factory=dict)
    sops: dict[str, Program] = Field(default_factory=dict)

    def all(self) -> Iterator[Program]:
        """It, and all SOPs that its steps are, theirs included."""
        yield self
        for inner in self.sops.values():
            yield from inner.all()

    def inside(self, steps: Iterable[str]) -> Program:
        """The SOP that steps with `sop:` lead to. Raises UsageError where one is none, naming those that there are."""
        found = self
        for step in steps:
            entries = {name: one.sop for name, one in found.sop.steps.items() if one.sop is not None}
            if step not in entries:
                raise UsageError(f"`{step}` is no step with `sop:` of {found.sop.sop}: "
                                 + (did_you_mean(step, entries) if entries else "it has none"))
            found = found.sops[entries[step]]
        return found

    def stored(self) -> bytes:
        """The bytes that the journal stores; the order of steps is kept, since rank depends on it."""
        return json.dumps(self.plain(), ensure_ascii=False, separators=(",", ":")).encode()

    @cached_property
    def fingerprint(self) -> str:
        """Equal for files that differ in comments or the order of keys only."""
        return fingerprint(self.plain())

    def plain(self) -> Any:
        """As JSON data, the way it is stored: what nobody wrote is left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)
