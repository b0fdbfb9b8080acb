"""How a role acts, and a `tool:` step: each call is checked, decided by the policy, journalled, carried out, and told.

A call's events are `Decided`, `Intended` (before it may have any effect) and `Done`. On a resume a call that is done is
not made again; one that was cut off is made again where that does no harm, and else a person is asked what became of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any, TypeVar

from metaflow_agents.agent.offered import Offered
from metaflow_agents.agent.recorded import REFUSED, STAGED, Ended, Recorded, packed, short
from metaflow_agents.agent.surroundings import ActivationTree, Surroundings
from metaflow_agents.agent.unframed import told_by_a_person, unframed
from metaflow_agents.errors import AnswerInvalid, MetaflowError, raise_first, raised
from metaflow_agents.journal.audit import chained
from metaflow_agents.journal.records import Act
from metaflow_agents.journal.state import Slot
from metaflow_agents.models.port import ToolCall
from metaflow_agents.policy.action import Action, Decision
from metaflow_agents.questions.broker import QuestionBroker
from metaflow_agents.questions.question import Answer, Question
from metaflow_agents.schema.event import Decided
from metaflow_agents.schema.model import digest
from metaflow_agents.schema.step import Step
from metaflow_agents.schema.trust import joined
from metaflow_agents.schema.trusting import covers
from metaflow_agents.steps.effects import MEANS
from metaflow_agents.tools.arguments import faults_of
from metaflow_agents.tools.builtin import BuiltIn
from metaflow_agents.tools.port import Tool, ToolResult
from metaflow_agents.tools.showing import shown

if TYPE_CHECKING:
    from metaflow_agents.policy.policy import Policy

T = TypeVar("T")
_IN_MEMORY = frozenset({"read", "write", "python"})     # verbs that touch nothing but the activation: done one after the other
_BRINGING = frozenset({"fetch", "mcp", "api"})          # verbs that bring what somebody outside said, also by how they fail
_SIDE_BY_SIDE = 16                                      # calls of one activation that are carried out at once
MOST_CALLS = 200
"""Calls of one turn that are carried out; of the others the role is told."""
ANSWER = "answer"
"""What stands for the tool, in the journal and in questions, where an answer writes files."""
_STRICT = {"allow": 0, "ask": 1, "deny": 2}


@dataclass(frozen=True, slots=True)
class May:
    """What decides what a role may do: see `Acting`."""

    policy: Callable[[], Policy]
    untrusted: str = ""
    trusted: Sequence[str] = ()
    above: Acting | None = None
    doubted: Sequence[str] = ()


class Acting:
    """The tool calls of one role in one activation; an async context manager: leaving it ends what its tools keep open.

    `untrusted`: what the activation has read from outside the user so far; `heard`: what of it its tools said. `assumed`: what
    was assumed since nobody answered. Results of tools that `trusted` covers (`schema/trusting.py`) do not count in `untrusted`.
    `above`: of a role that another one started, the acting of that one: it may do nothing that the other one may not.
    `doubted`: the names by which the step reads what is untrusted. `role` is empty for a step that calls a tool itself: nobody
    is told then, and what the tool gave is taken as it is; `gives` is what that has to fit, as JSON, where the step reads it
    as JSON.
    """

    def __init__(self, around: Surroundings, step: Step, role: str, slot: Slot, may: May, offered: Offered, tree: ActivationTree,
                 packages: Callable[[], AbstractAsyncContextManager[Path | None]] | None = None) -> None:
        self._around, self.step, self.role, self._slot = around, step, role, slot
        self._policy, self.offered, self.tree, self.above = may.policy, offered, tree, may.above
        self.untrusted, self.heard, self._trusted, self._doubted = may.untrusted, "", may.trusted, may.doubted
        self._packages = packages
        self.assumed: list[str] = []
        self.gives: dict[str, Any] | None = None
        self._open = AsyncExitStack()
        self._kept: dict[str, Any] = {}
        self._keeping = asyncio.Lock()
        self._turns = asyncio.Semaphore(_SIDE_BY_SIDE)
        self.recorded = Recorded(around, slot, offered)
        self._readable: dict[str, bool] = {}
        self._said: tuple[str, ...] = ()            # short arguments of its calls so far, for the screens of the policy

    @property
    def desk(self) -> QuestionBroker:
        """Where questions to people are put."""
        return self._around.desk

    async def __aenter__(self) -> Acting:
        await self._open.__aenter__()
        return self

    async def __aexit__(self, *raised_: Any) -> None:
        await self._open.__aexit__(*raised_)

    async def answered(self, prefix: str, calls: Sequence[ToolCall]) -> list[Mapping[str, Any]]:
        """The messages with the results of one turn's calls, in their order. `prefix` is the turn's key."""
        results = await self.results(prefix, calls[:MOST_CALLS])
        texts = [shown(result.text, f"{short(prefix)}/tool.{index}") for index, result in enumerate(results)]
        texts += [f"`{call.name}` was not called: a turn has {MOST_CALLS} calls at most, and had {len(calls):,}; "
                  "call it in the next one" for call in calls[MOST_CALLS:]]
        return [{"role": "tool", "id": call.id, "name": call.name, "content": text}
                for call, text in zip(calls, texts, strict=True)]

    async def results(self, prefix: str, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """What calls give, in their order; their keys are `PREFIX/tool.0` and so on.

        Calls run side by side; those that touch the activation alone, one after the other. What they wrote counts from the
        next turn on, in the order of the calls. Raises Waiting, once the others have ended, where a person has to answer;
        Screened before any is made.
        """
        screening = self._around.screening
        for index, call in enumerate(calls):
            self._said = await screening.called(f"{prefix}/tool.{index}", self.role, call.name, call.arguments, self._said)
        results: dict[int, ToolResult] = {}
        group = [index for index, call in enumerate(calls)
                 if self.offered.verb(call.name) in _IN_MEMORY or self.offered.on_files(call.name)]
        turn = _Turn(self, results, group)

        async def one(index: int) -> None:
            key = f"{prefix}/tool.{index}"
            async with self._turns:
                results[index] = await self._one(key, calls[index], turn.scene(key, index))

        async def in_order() -> None:
            for index in group:
                await one(index)

        ended = await asyncio.gather(in_order(), *(one(index) for index in range(len(calls)) if index not in group),
                                     return_exceptions=True)
        raise_first([error for error in ended if error is not None])
        for index in range(len(calls)):
            self.tree.take(results[index])
            self.heard = joined(self.heard, results[index].untrusted)
            if not self.trusts(calls[index].name):
                self.untrusted = joined(self.untrusted, results[index].untrusted)
        return [results[index] for index in range(len(calls))]

    async def _one(self, key: str, call: ToolCall, scene: Scene) -> ToolResult:
        result = await self._made(key, call, scene)
        await self._around.screening.gave(key, self.role, call.name, result.text)
        self.assumed += self._assumed(key, call.name)
        return result

    def _assumed(self, key: str, tool: str) -> list[str]:
        """What was assumed in a call, and in those of a role that it started, since nobody answered: as the journal has it."""
        desk = self._around.desk
        inside = desk.answered(f"{key}/") if tool == "start_role" else []
        found = []
        for one in dict.fromkeys((key, f"{key}/may", *inside)):
            answer = desk.known(one)
            if answer is not None and answer.assumed:
                question = desk.question(one)
                found.append(f"{question.text}: {question.assumption or answer.text or answer.verdict or 'nothing'}")
        return found

    async def _made(self, key: str, call: ToolCall, scene: Scene) -> ToolResult:
        act = self.recorded.known(key, call)
        if act is not None and act.done is not None:
            return self.recorded.again(call.name, act, act.done, scene)
        tool, why = await self.offered.found(call.name)
        arguments = call.arguments
        faults = [why] if tool is None else faults_of(tool.parameters, arguments)
        action: Action | None = None
        if tool is not None and not faults and isinstance(arguments, Mapping):
            try:
                action = tool.action(arguments)
            except AnswerInvalid as error:
                faults = list(error.faults)
        if tool is None or action is None or not isinstance(arguments, Mapping):
            told = f"`{call.name}` was not called: " + "; ".join(faults)
            return await self.recorded.done(key, call.name, arguments, "none", ToolResult(told, error=True), act, REFUSED)
        return await self._decided(key, tool, action, arguments, scene, act)

    async def _decided(self, key: str, tool: Tool, action: Action, arguments: Mapping[str, Any], scene: Scene,
                       act: Act | None) -> ToolResult:
        """The result of a call that makes sense, as far as the policy lets it."""
        if isinstance(tool, BuiltIn) and tool.free:
            return await self._carried_out(key, tool, arguments, scene, act)
        decision = self.decide(key, tool.name, action, lookup=tool.effect(arguments) == "none")
        if decision.verdict == "deny":
            told = f"`{action}` is not allowed ({decision.rule}), and nothing was done" + "; go on without it" * bool(self.role)
            return await self.recorded.done(key, tool.name, arguments, "none", ToolResult(told, error=True), act, REFUSED)
        looks_up = decision.verdict == "allow" and tool.effect(arguments) == "none"
        if self._around.staged and action.acting and not looks_up:
            return await self._staged(key, tool, action, arguments, decision, act)
        if act is None and tool.effect(arguments) == "once":
            before = await self._done_before(key, tool, action, arguments, scene)
            if before is not None:
                return before
        if decision.verdict == "ask":
            asked = await self._permission(key, tool, action, arguments, decision)
            if isinstance(asked, ToolResult):
                return await self.recorded.done(key, tool.name, arguments, "none", asked, act, REFUSED)
            arguments, action = asked, tool.action(asked)       # a person may have changed them
            await self._around.screening.called(key, self.role, tool.name, arguments)
            if action.verb == "read":
                self._readable[action.target] = True
        return await self._carried_out(key, tool, arguments, scene, act)

    async def _done_before(self, key: str, tool: Tool, action: Action, arguments: Mapping[str, Any],
                           scene: Scene) -> ToolResult | None:
        """What stands in place of a call that an earlier run made (`--from`), as a person decided. Raises Waiting, Halted."""
        found = await self._around.repeats.settled(
            key, tool.name, self._around.secrets.masked(str(action)), packed(arguments), role=self.role, step=_step_of(key),
            gives=self.gives)
        if found is None:
            return None
        if isinstance(found, Answer):
            given = told_by_a_person(found.text, tool.name, framed=bool(self.role))
            return await self.recorded.done(key, tool.name, arguments, tool.effect(arguments), given, None)
        return await self.recorded.taken(key, tool.name, arguments, found, scene, told=bool(self.role))

    def readable(self, path: str) -> bool:
        """Whether the role may read a path without being asked about: others are not there for its tools."""
        if path not in self._readable:
            self._readable[path] = self.judged(Action("read", path)).verdict == "allow"
        return self._readable[path]

    def judged(self, action: Action, *, lookup: bool = False) -> Decision:
        """What the policy says: that of the role, and of the roles that it works for, whichever is strictest."""
        own = self._policy().decide(action, untrusted=self.untrusted, lookup=lookup)
        if self.above is None:
            return own
        theirs = self.above.judged(action, lookup=lookup)
        return theirs if _STRICT[theirs.verdict] > _STRICT[own.verdict] else own

    @property
    def heeds_writing(self) -> bool:
        """Whether some rule is about writing: of the role's policy, or of the roles that it works for."""
        return self._policy().says_of("write") or (self.above is not None and self.above.heeds_writing)

    def denied_programs(self) -> tuple[str, ...]:
        """The programs that the policy of the role denies, or those of the roles that it works for."""
        above = () if self.above is None else self.above.denied_programs()
        return tuple(dict.fromkeys((*self._policy().denied_programs(), *above)))

    def decide(self, key: str, tool: str, action: Action, *, lookup: bool = False) -> Decision:
        """What the policy says, in the journal; said once of one action. `lookup`: see `Policy.decide`."""
        decision = self.judged(action, lookup=lookup)
        self._record(key, tool, action, decision)
        return decision

    def of_answer(self, key: str, path: str, *, named: bool) -> Decision:
        """What the policy says of a path that the role's answer writes or deletes, in the journal: see `Policy.answer`. Where no
        rule is about writing, and it is allowed, there is nothing to record.
        """
        policy = self._policy()
        decision = policy.answer(path, named=named)
        if decision.verdict != "allow" or policy.says_of("write"):
            self._record(key, ANSWER, Action("write", path), decision)
        return decision

    async def asked(self, question: Question) -> Answer:
        """A person's word about what the answer writes. Raises Waiting."""
        masked = self._around.secrets.masked
        answer = await self._around.desk.ask(question.model_copy(update={
            "text": masked(question.text), "action": masked(question.action),
            "arguments": self.recorded.masked(question.arguments)}))
        self.assumed += [one for one in self._assumed(question.key, ANSWER) if one not in self.assumed]
        return answer

    def _record(self, key: str, tool: str, action: Action, decision: Decision) -> None:
        record = Decided(at=time(), key=key, role=self.role, tool=tool, action=self._around.secrets.masked(str(action)),
                         verdict=decision.verdict, rule=decision.rule, untrusted=self.untrusted if action.acting else "")
        before = self._slot.decided.get((key, record.action))
        same = before is not None and (before.verdict, before.rule) == (record.verdict, record.rule)
        if not same:
            self._around.bus.post(chained(self._around.state, record))

    async def _permission(self, key: str, tool: Tool, action: Action, arguments: Mapping[str, Any],
                          decision: Decision) -> Mapping[str, Any] | ToolResult:
        """The arguments with which a person lets it be called; or what the role is told. Raises Waiting."""
        masked = self._around.secrets.masked
        who = f"`{self.role}`" if self.role else f"the step `{_step_of(key)}`"
        answer = await self._around.desk.ask(Question(
            key=f"{key}/may", kind="action", role=self.role,
            text=f"May {who} do `{masked(str(action))}`?{self._culprits(action)}", step=_step_of(key), tool=tool.name,
            action=masked(str(action)), arguments=self.recorded.masked(dict(arguments)), rule=decision.rule,
            effect=tool.effect(arguments), untrusted=self.untrusted, on_no_answer=self.step.on_no_answer))
        if answer.verdict != "yes":
            why = f": {answer.text}" if answer.text else ""
            return ToolResult(f"a person did not allow `{action}`{why}; nothing was done", error=True)
        if answer.arguments is None:
            return arguments
        faults = faults_of(tool.parameters, answer.arguments)
        try:
            changed = action if faults else tool.action(answer.arguments)
        except AnswerInvalid as error:
            faults = list(error.faults)
        if faults:
            return ToolResult("a person changed the arguments, and they do not fit: " + "; ".join(faults), error=True)
        if self.decide(key, tool.name, changed).verdict == "deny":
            return ToolResult(f"a person changed it to `{changed}`, which is not allowed; nothing was done", error=True)
        return answer.arguments

    def _culprits(self, action: Action) -> str:
        """Which of what the step reads is not trusted, so that its author knows what to add to `trusts`."""
        named = ", ".join(f"`{name}`" for name in self._doubted)
        return f" Of what it reads this is not trusted: {named}" if self.untrusted and action.acting and named else ""

    async def _staged(self, key: str, tool: Tool, action: Action, arguments: Mapping[str, Any], decision: Decision,
                      act: Act | None) -> ToolResult:
        asks = f", once a person has allowed it ({decision.rule})" if decision.verdict == "ask" else ""
        told = f"staged: nothing was done. `{action}` would have been done{asks}; go on as if it had been, as far as you can"
        return await self.recorded.done(key, tool.name, arguments, "none", ToolResult(told), act, STAGED)

    async def _carried_out(self, key: str, tool: Tool, arguments: Mapping[str, Any], scene: Scene, act: Act | None) -> ToolResult:
        effect = tool.effect(arguments)
        if act is not None and act.intended.effect == "once":
            answer = await self._happened(key, tool, act)
            if answer.verdict == "yes":
                given = told_by_a_person(answer.text, tool.name, framed=bool(self.role))
                return await self.recorded.done(key, tool.name, arguments, effect, given, act)
            act = None              # it is intended anew: should it be cut off again, that is another question
        if effect != "none":
            if act is None:
                act = await self.recorded.intended(key, tool.name, arguments, effect)
        elif tool.action(arguments).acting:
            await self._around.bus.sync()       # that it was decided is on disk before anybody outside hears of it
        started = time()
        try:
            result = await tool.call(arguments, scene)
        except MetaflowError as error:
            if not isinstance(error, AnswerInvalid):
                raise
            result = ToolResult("; ".join(error.faults), error=True, untrusted=error.untrusted)
        except Exception as error:      # a tool is somebody else's code: whatever it raises is told to the role
            source = f"from {tool.name}" if tool.action(arguments).verb in _BRINGING else ""
            result = ToolResult(f"`{tool.name}` failed: {raised(error)}", error=True, untrusted=source)
        if not self.role:
            result = unframed(tool.name, result, effect, self._around.secrets.masked)
        return await self.recorded.done(key, tool.name, arguments, effect, result, act, Ended(seconds=time() - started))

    async def _happened(self, key: str, tool: Tool, act: Act) -> Answer:
        """Whether an effect that a crash cut off has happened: a person has to say. Raises Waiting."""
        arguments = self._around.values.plain(act.intended.arguments)
        means = "(yes: it is not done again, and the role is told so; no: it is done now)" if self.role else MEANS
        return await self._around.desk.ask(Question(
            key=act.doubt, kind="effect", role=self.role, step=_step_of(key), tool=tool.name,
            action=self._around.secrets.masked(str(tool.action(arguments))), arguments=self.recorded.masked(arguments),
            effect=act.intended.effect, answer_schema=self.gives,
            text=f"The run was cut off while this was done. Has it happened? {means}"))

    async def may_act(self, action: Action) -> None:
        """Before an action in the middle of a call that is allowed. Raises AnswerInvalid in a staged run, JournalError."""
        if self._around.staged:
            raise AnswerInvalid([f"staged: nothing was done. `{action}` would have been done"])
        await self._around.bus.sync()

    def heed(self, other: Acting) -> None:
        """What another branch of the activation read bears on what becomes of this one."""
        self.untrusted, self.heard = joined(self.untrusted, other.untrusted), joined(self.heard, other.heard)

    def go_on_from(self, other: Acting) -> None:
        """The files of another branch, and what was assumed on it, count from here on."""
        self.tree.written, self.tree.deleted = dict(other.tree.written), set(other.tree.deleted)
        self.assumed += [one for one in other.assumed if one not in self.assumed]

    def join(self, other: Acting) -> tuple[str, ...]:
        """What another branch did to the files, and what was assumed on it, is added to what was done here. Gives the paths
        where both did something else.
        """
        self.heed(other)
        self.assumed += [one for one in other.assumed if one not in self.assumed]
        return self.tree.join(other.tree)

    def trusts(self, tool: str) -> bool:
        """Whether the step trusts what a tool says: by its name, by a pattern of it, or by the name of its server."""
        return any(covers(name, tool) for name in self._trusted)

    async def packages(self) -> Path | None:
        """See `Situation.packages`."""
        return None if self._packages is None else await self.keep("packages", self._packages)

    async def keep(self, name: str, make: Callable[[], AbstractAsyncContextManager[T]]) -> T:
        """See `Situation.kept`."""
        async with self._keeping:
            if name not in self._kept:
                self._kept[name] = await self._open.enter_async_context(make())
            found: T = self._kept[name]
            return found


@dataclass(frozen=True, slots=True)
class Scene:
    """What a tool is given of the activation: fits `Situation`."""

    acting: Acting
    key: str
    look: Callable[[], Mapping[str, bytes]]

    @property
    def files(self) -> Mapping[str, bytes]:
        """See `Situation`."""
        return self.look()

    @property
    def patterns(self) -> tuple[str, ...]:
        """See `Situation`."""
        return self.acting.tree.patterns

    @property
    def untrusted(self) -> str:
        """See `Situation`."""
        return self.acting.untrusted

    @property
    def denied(self) -> tuple[str, ...]:
        """See `Situation`."""
        return self.acting.denied_programs()

    async def packages(self) -> Path | None:
        """See `Situation`."""
        return await self.acting.packages()

    async def kept(self, name: str, make: Callable[[], AbstractAsyncContextManager[T]]) -> T:
        """See `Situation`."""
        return await self.acting.keep(name, make)

    def earlier(self, tool: str) -> tuple[Mapping[str, Any], ...]:
        """See `Situation`."""
        return self.acting.recorded.replays(tool)

    def files_first(self, tool: str) -> Mapping[str, bytes]:
        """See `Situation`."""
        found = self.acting.recorded.seen_first(tool)
        return self.files if found is None else found

    async def granted(self, action: Action) -> None:
        """See `Situation`. A person is not asked in the middle of a call: what they would be asked about is refused.

        What was decided is durable before the action is taken.
        """
        if action.verb == "write" and not self.acting.heeds_writing and self.acting.judged(action).verdict == "allow":
            return                              # a command may write thousands of files, and no rule is about them
        decision = self.acting.decide(f"{self.key}/{action.verb}.{digest(action.target.encode())[:8]}", action.verb, action)
        if decision.verdict != "allow":
            raise AnswerInvalid([f"`{action}` is not allowed ({decision.rule})"])
        if action.acting:
            await self.acting.may_act(action)


class _Turn:
    """The calls of one turn: each sees the files as they were at its beginning, and what those before it in its `row` wrote."""

    def __init__(self, acting: Acting, results: Mapping[int, ToolResult], row: Sequence[int]) -> None:
        self._acting, self._results, self._row = acting, results, frozenset(row)
        self._order = list(row)
        self._begin()

    def _begin(self) -> None:
        tree = self._acting.tree
        self._tree = ActivationTree(tree.seen, tree.patterns, dict(tree.written), set(tree.deleted))
        self._taken = 0                     # how many of the row's results the tree has

    def scene(self, key: str, index: int) -> Scene:
        @cache                              # a tool may look often, and there may be many files
        def look() -> Mapping[str, bytes]:
            tree = self._before(index) if index in self._row else self._acting.tree
            return {path: data for path, data in tree.files.items() if self._acting.readable(path)}
        return Scene(self._acting, key, look)

    def _before(self, index: int) -> ActivationTree:
        """The files with what the calls before this one in the row wrote. They end one after the other: each is taken once."""
        if self._taken and self._order[self._taken - 1] >= index:
            self._begin()
        while self._taken < len(self._order) and self._order[self._taken] < index:
            if self._order[self._taken] in self._results:
                self._tree.take(self._results[self._order[self._taken]])
            self._taken += 1
        return self._tree


def _step_of(key: str) -> str:
    return key.partition("@")[0]

