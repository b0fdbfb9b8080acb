"""What spans tell of steps and models beyond the events: the type of a step, its role, where a model's endpoint is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from urllib.parse import urlsplit

from metaflow_agents.schema.endpoint import EndpointModel, ModelSpec
from metaflow_agents.schema.keys import LOOK
from metaflow_agents.schema.program import Program
from metaflow_agents.views.spans import names
from metaflow_agents.views.spans.span import Attributes

_OPENAI = "api.openai.com"
_PLANS = {                          # strategy → what the branches of calls begin with in which it plans
    "plan_and_execute": re.compile(r"plan\.\d+(?!\d*/executor)(?:/(?!executor)|$)"),
    "task_queue": re.compile(r"queue(?:\.\d+)?/(?:create|order)"),
    "solver": re.compile(r"translate|mend\.\d+"),
}


@dataclass(frozen=True, slots=True)
class StepFacts:
    """Of a step: its type, its role (empty where it is worked out, or has none), and the SOP that it is."""

    type: str = ""
    role: str = ""
    sop: str = ""
    plans: re.Pattern[str] | None = None


class Steps:
    """The steps of the compiled SOP that a run goes by, those of its sub-SOPs too."""

    def __init__(self, blob: Callable[[str], bytes]) -> None:
        self._blob, self._compiled = blob, ""
        self.program: Program | None = None
        self._known: dict[tuple[str, ...], StepFacts] = {}

    def use(self, compiled: str) -> None:
        """From here on it is the SOP with this digest."""
        if compiled != self._compiled:
            self._compiled, self._known = compiled, {}
            self.program = Program.model_validate_json(self._blob(compiled))

    def of(self, path: tuple[str, ...]) -> StepFacts:
        """A step by the steps that lead to it."""
        found = self._known.get(path)
        if found is None:
            found = self._known[path] = self._looked_up(path)
        return found

    def _looked_up(self, path: tuple[str, ...]) -> StepFacts:
        program = self.program
        for name in path[:-1]:
            step = None if program is None else program.sop.steps.get(name)
            program = None if program is None or step is None else program.sops.get(step.sop or "")
        if program is None:
            return StepFacts()
        sop, name = program.sop, path[-1]
        if name == LOOK and sop.progress is not None:
            return StepFacts("role", sop.progress.role)
        step = sop.steps.get(name)
        if step is None:
            return StepFacts()
        inner = program.sops.get(step.sop or "")
        strategy = next(iter(step.strategy), "") if step.strategy is not None else ""
        role = step.role if step.role is not None and step.role in sop.roles else ""
        return StepFacts(step.doer, role, "" if inner is None else inner.sop.sop, _PLANS.get(strategy))


class Providers:
    """Provider, name and host of models, from what a run says of them."""

    def __init__(self) -> None:
        self._hosts: dict[str, set[tuple[str, int]]] = {}
        self._usual = (_OPENAI, 443)
        self._known: dict[str, Attributes] = {}

    def learn(self, models: Mapping[str, ModelSpec], base_url: str | None) -> None:
        """What the SOP or the command line says about models; `base_url` is where those are that name no endpoint."""
        self._known = {}
        if base_url:
            self._usual = _host(base_url) or self._usual
        for spec in models.values():
            if isinstance(spec, EndpointModel):
                host = _host(spec.endpoint) if spec.endpoint else self._usual
                self._hosts.setdefault(spec.name, set()).update({host} if host is not None else ())

    def of(self, model: str) -> Attributes:
        """The attributes of a model, as the journal spells it. Of paths only the last part: they name the machine."""
        found = self._known.get(model)
        if found is None:
            found = self._known[model] = self._worked_out(model)
        return found

    def _worked_out(self, model: str) -> Attributes:
        form, sign, name = model.partition(":")
        if form != "openai":
            return {names.PROVIDER: form, names.MODEL: PurePath(name).name if sign else form}
        hosts = self._hosts.get(name, {self._usual})
        host, port = next(iter(hosts)) if len(hosts) == 1 else ("", 0)
        place: Attributes = {names.ADDRESS: host, names.PORT: port} if host else {}
        return {names.PROVIDER: form, names.MODEL: name, **place}


def _host(url: str) -> tuple[str, int] | None:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    return (host, port or (80 if parts.scheme == "http" else 443)) if host else None
