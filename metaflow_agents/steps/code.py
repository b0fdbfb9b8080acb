"""The Python that a result depends on: files, as parts `code:FILE`, for `--from`, which carries out anew what an edit touches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from metaflow_agents.engine.work import Activation
from metaflow_agents.models.port import Model, traits
from metaflow_agents.models.registry import Models
from metaflow_agents.modules import CodeSources
from metaflow_agents.schema.keys import CODE
from metaflow_agents.schema.program import Program
from metaflow_agents.sop.functions import functions_of
from metaflow_agents.steps.assignment import tools_for

Read = Callable[[str], CodeSources]


class CodeParts:
    """Finds it, and reads each module's files once in a run; those of `FILE.py:function` again when that file is another.

    `read` gives what reads the functions of a SOP, `inner` the models of each SOP that is a step, by its fingerprint.
    """

    def __init__(self, program: Program, read: Callable[[Program], Read], inner: Mapping[str, Models]) -> None:
        self._program, self._sop, self._inner = program, program.sop, inner
        self._reading = read
        self._known: dict[tuple[str, str], Mapping[str, str]] = {}

    def of(self, activation: Activation, role: str | None, beside: Iterable[str], models: Iterable[Model]) -> dict[str, str]:
        """Of an activation that `role` does (None: no role) with `beside`, others that take part; `models` answer them, and embed
        what they remember. Raises AttemptFailed where an expression gives it tools that it does not have.
        """
        step = self._sop.steps[activation.key.step]
        written = [step.call, step.check and step.check.call, self._program.schemas.get(step.makes.artifact, {}).get("$python")]
        tools = [*self._sop.tools_of(step)] if role is None else [*tools_for(self._sop, step, role, activation.scope),
                                         *(tool for name in beside for tool in self._sop.roles[name].tools)]
        if "start_role" in tools:                       # who is started has its own
            tools += [tool for one in self._sop.roles.values() for tool in one.tools]
        written += [self._sop.tools[tool].python for tool in tools if tool in self._sop.tools]
        found = {file: digest for spec in written if spec for file, digest in self._read(self._program, spec).items()}
        found |= {file: digest for model in models for file, digest in traits(model).code.items()}
        if step.sop is not None:
            found |= dict(self._of_sops(self._program.sops[step.sop]))
        return {f"{CODE}{file}": digest for file, digest in found.items()}

    def _of_sops(self, inner: Program) -> Iterator[tuple[str, str]]:
        """All of a SOP that is a step, and of those in it: what it did in there is not told apart from outside."""
        for one in inner.all():
            for files in (self._inner[one.fingerprint].code, *(self._read(one, spec) for spec in functions_of(one.sop))):
                yield from ((f"{one.sop.sop}/{file}", digest) for file, digest in files.items())

    def _read(self, program: Program, spec: str) -> Mapping[str, str]:
        where = spec.rpartition(":")[0]
        key = (program.fingerprint if program is not self._program else "", where)
        if key not in self._known or where.endswith(".py"):
            self._known[key] = self._reading(program)(spec).files
        return self._known[key]
