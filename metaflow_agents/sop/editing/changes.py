"""An edit as a page sends it, read strictly, and carried out: the text with it, where it changed, and what stays behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from metaflow_agents.errors import UsageError, did_you_mean
from metaflow_agents.schema.model import Value
from metaflow_agents.sop.editing import steps
from metaflow_agents.sop.editing.draft import Draft
from metaflow_agents.sop.editing.renaming import Left, outside, rename
from metaflow_agents.sop.editing.steps import Reading
from metaflow_agents.sop.load import LoadedSOP

_Short = Annotated[str, Field(min_length=1, max_length=200)]
_Long = Annotated[str, Field(min_length=1, max_length=100_000)]


class RenameStep(Value):
    """A step under another name."""

    do: Literal["rename_step"]
    name: _Short
    to: _Short


class RenameArtifact(Value):
    """An artifact or an input under another name."""

    do: Literal["rename_artifact"]
    name: _Short
    to: _Short


class Connect(Value):
    """A step reads an artifact or an input."""

    do: Literal["connect"]
    step: _Short
    artifact: _Short
    kind: Reading = "needs"


class Disconnect(Value):
    """A step reads an artifact no longer; without `kind` in no list."""

    do: Literal["disconnect"]
    step: _Short
    artifact: _Short
    kind: Reading | None = None


class AddStep(Value):
    """A new step, done by `doer`: a role's name, an expression, a command or the like."""

    do: Literal["add_step"]
    name: _Short
    doer: Literal["role", "value", "run", "call", "human", "sop"] = "role"
    who: _Long
    needs: tuple[_Short, ...] = ()
    makes: _Short
    task: _Long | None = None
    after: _Short | None = None

    @property
    def written(self) -> dict[str, Any]:
        """The step as it is written."""
        task = {} if self.task is None else {"task": self.task}
        needs = {"needs": list(self.needs)} if self.needs else {}
        return {self.doer: self.who, **needs, "makes": self.makes, **task}


class RemoveStep(Value):
    """A step taken out."""

    do: Literal["remove_step"]
    name: _Short


class SetRole(Value):
    """Another role does a step."""

    do: Literal["set_role"]
    step: _Short
    role: _Short


class SetModel(Value):
    """The model that a role asks; null: none of its own."""

    do: Literal["set_model"]
    role: _Short
    model: _Short | None


Change = RenameStep | RenameArtifact | Connect | Disconnect | AddStep | RemoveStep | SetRole | SetModel
_CHANGES: TypeAdapter[Change] = TypeAdapter(Annotated[Change, Field(discriminator="do")])
KINDS = ("rename_step", "rename_artifact", "connect", "disconnect", "add_step", "remove_step", "set_role", "set_model")


@dataclass(frozen=True, slots=True)
class Edited:
    """The text after an edit. `line` and `column` are where it first differs, counted from 1."""

    text: str
    line: int
    column: int
    left: tuple[Left, ...]


def change_of(written: Mapping[str, Any]) -> Change:
    """An edit from its JSON form. Raises UsageError."""
    kind = written.get("do")
    if kind not in KINDS:
        raise UsageError(f"there is no edit {str(kind)[:60]!r}: {did_you_mean(str(kind)[:60], KINDS)}")
    try:
        return _CHANGES.validate_python(dict(written))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        at = ".".join(str(part) for part in first["loc"][1:])
        raise UsageError(f"`{at}` of the edit `{kind}`: {first['msg'][:1].lower()}{first['msg'][1:]}") from None


def edit(text: str, change: Change, file: str, loaded: LoadedSOP | None = None) -> Edited:
    """Carries an edit out on a SOP's text. `loaded`: the SOP as it was read, so that what other files say of it is told.

    Raises UsageError where it can't be done, and says why.
    """
    draft = Draft(text, file)
    left = _carried_out(draft, change)
    if isinstance(change, RenameArtifact) and loaded is not None:
        left += outside(loaded, change.name)
    at = next((index for index, (old, new) in enumerate(zip(text, draft.text, strict=False)) if old != new),
              min(len(text), len(draft.text)))
    return Edited(draft.text, draft.text.count("\n", 0, at) + 1, at - draft.text.rfind("\n", 0, at), tuple(left))


def _carried_out(draft: Draft, change: Change) -> list[Left]:
    match change:
        case RenameStep():
            return rename(draft, "step", change.name, change.to)
        case RenameArtifact():
            return rename(draft, "data", change.name, change.to)
        case Connect():
            steps.connect(draft, change.step, change.artifact, change.kind)
        case Disconnect():
            return steps.disconnect(draft, change.step, change.artifact, change.kind)
        case AddStep():
            steps.add_step(draft, change.name, change.written, after=change.after)
        case RemoveStep():
            return steps.remove_step(draft, change.name)
        case SetRole():
            steps.set_role(draft, change.step, change.role)
        case SetModel():
            steps.set_model(draft, change.role, change.model)
    return []
