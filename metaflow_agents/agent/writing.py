"""What a role writes by its answer, under the policy: decided, journalled and asked about like what its tools write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any

from metaflow_agents.agent.tool_executor import ANSWER, Acting
from metaflow_agents.engine.work import Activation
from metaflow_agents.errors import FilesInvalid, raise_first
from metaflow_agents.policy.action import Action, Decision
from metaflow_agents.questions.question import Question
from metaflow_agents.schema.binary import Content, data_of, described
from metaflow_agents.schema.model import digest


class FileWriting:
    """The files of one answer: `written` and `deleted`, where `before` stood. What it leaves as it was is no writing, and what
    tools did (`judged`) was decided when they did it. `named`: whether the SOP's author wrote this very path; `copied`: whether
    a person gave this very file.
    """

    def __init__(self, activation: Activation, acting: Acting, written: Mapping[str, Content], deleted: Collection[str],
                 before: Mapping[str, Content], judged: Collection[str], named: Callable[[str], bool],
                 copied: Callable[[str, Content], bool]) -> None:
        self._key, self._acting, self._written, self._before = str(activation.key), acting, written, before
        self._named, self._copied = named, copied
        self._paths = [path for path in (*written, *deleted) if path not in judged and self._touched(path)]

    def refused(self, path: str) -> str:
        """Why the role may not write a path, or delete it; empty where it may, or a person has to say."""
        if path not in self._paths:
            return ""
        decision = self._decided(path)
        return f"`write({path})` is not allowed ({decision.rule})" if decision.verdict == "deny" else ""

    async def allowed(self) -> None:
        """Asks a person about what the policy wants them asked about. Raises FilesInvalid with what was not allowed; Waiting,
        once all that there is to ask is asked.
        """
        asked = [(path, decision) for path in self._paths if (decision := self._decided(path)).verdict == "ask"]
        ended = await asyncio.gather(*(self._asked(path, decision) for path, decision in asked), return_exceptions=True)
        raise_first([error for error in ended if isinstance(error, BaseException)])
        refused = {path: told for (path, _), told in zip(asked, ended, strict=True) if isinstance(told, str) and told}
        if refused:
            raise FilesInvalid(refused.values(), refused)

    async def _asked(self, path: str, decision: Decision) -> str:
        """What the role is told where a person does not allow it; empty where they do. Other bytes are another question."""
        what = self._told(path)
        told = digest(f"{path} {what} {decision.rule} {self._acting.untrusted}".encode())[:8]
        action, role = str(Action("write", path)), self._acting.role
        answer = await self._acting.asked(Question(
            key=f"{self._key}/{ANSWER}.{told}/may", kind="action",
            text=f"May `{role}` do `{action}`?", role=role, step=self._key.partition("@")[0], tool=ANSWER, action=action,
            arguments=what, rule=decision.rule, untrusted=self._acting.untrusted, on_no_answer=self._acting.step.on_no_answer))
        if answer.arguments not in (None, what):
            return f"a person did not allow `{action}` as it stands, and wants it to be: {answer.arguments}"
        if answer.verdict == "yes":
            return ""
        return f"a person did not allow `{action}`{f': {answer.text}' if answer.text else ''}"

    def _told(self, path: str) -> dict[str, Any]:
        """What would become of a path, as people see it."""
        if path not in self._written:
            return {"path": path, "deleted": True}
        held = self._written[path]
        return {"path": path, "text": held if isinstance(held, str) else described(path, data_of(held))}

    def _decided(self, path: str) -> Decision:
        new = path in self._written and path not in self._before
        named = self._named(path) or (new and self._copied(path, self._written[path]))
        return self._acting.of_answer(f"{self._key}/{ANSWER}", path, named=named)

    def _touched(self, path: str) -> bool:
        """Whether it is changed: a path that is not there can't be deleted, and the same bytes are no change."""
        if path not in self._written:
            return True
        return path not in self._before or data_of(self._before[path]) != data_of(self._written[path])
