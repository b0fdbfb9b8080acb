"""One activation of one role: prompt, model, answer, repair, check, artifact."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from metaflow_agents.agent import doings, rounds, strategies
from metaflow_agents.agent.answering import Consulting
from metaflow_agents.agent.answers import Answers, TakenAnswer
from metaflow_agents.agent.applying import Answered, PartTaken, shown_again, told_blocks
from metaflow_agents.agent.ask_role import Consult
from metaflow_agents.agent.checking import checked
from metaflow_agents.agent.conversation import Conversations
from metaflow_agents.agent.embedding import Embedding
from metaflow_agents.agent.loop_detection import Ladder, Noted
from metaflow_agents.agent.material import Material
from metaflow_agents.agent.prompt_builder import Briefing, Mind
from metaflow_agents.agent.reflecting import Typed
from metaflow_agents.agent.remembering import KeptMemories, Remembering, Says
from metaflow_agents.agent.reviewing import Reviewing
from metaflow_agents.agent.strategies.port import Messages, Said
from metaflow_agents.agent.strategy_context import ActivationThinking, Equip, Means, Prompting, turns
from metaflow_agents.agent.structured_output import sent_back
from metaflow_agents.agent.talking import Delegate
from metaflow_agents.agent.tool_executor import Acting, Scene
from metaflow_agents.agent.toolset import Equipment
from metaflow_agents.engine.work import Activation, Work
from metaflow_agents.errors import AnswerInvalid, failure_of
from metaflow_agents.journal.run_context import RunContext
from metaflow_agents.memory.project import ProjectMemory
from metaflow_agents.memory.window import RoleMemory, Turn
from metaflow_agents.models.caller import Caller
from metaflow_agents.models.port import Model, ModelRequest, Reply, traits
from metaflow_agents.models.registry import Models
from metaflow_agents.prompts import MISSING, from_package, render
from metaflow_agents.schema.caps import ANSWER_REPAIRS, Budget
from metaflow_agents.schema.keys import CHECKED
from metaflow_agents.schema.model import as_ordered
from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.step import Step
from metaflow_agents.schema.trust import joined
from metaflow_agents.steps.assignment import model_for, role_for
from metaflow_agents.steps.command import Commands
from metaflow_agents.steps.function import Functions
from metaflow_agents.steps.labelled import labelled
from metaflow_agents.steps.side_effects import Observations
from metaflow_agents.tools.port import ToolResult


@dataclass(frozen=True, slots=True)
class Minds:
    """What roles remember: of this run, and of others in the project."""

    memory: RoleMemory
    project: ProjectMemory


@dataclass(frozen=True, slots=True)
class Hands:
    """What carries out what roles do, and what checks it."""

    commands: Commands
    functions: Functions
    equipment: Equipment


class RoleAgent:
    """Does the work of `role:` steps."""

    def __init__(self, context: RunContext, conversations: Conversations, material: Material, models: Models, caller: Caller,
                 observations: Observations, minds: Minds, hands: Hands) -> None:
        program, state, values, acceptance = context.program, context.state, context.values, conversations.acceptance
        memory, project, commands, equipment = minds.memory, minds.project, hands.commands, hands.equipment
        self._program, self._sop, self._models, self._caller = program, program.sop, models, caller
        self._acceptance, self._commands, self._functions = acceptance, commands, hands.functions
        self._memory, self._observations, self._state, self._values = memory, observations, state, values
        self._remembering = Remembering(self._sop, memory, project, observations, Embedding(models, caller, state, values))
        self._conversations, self._material, self._equipment = conversations, material, equipment
        self._consulting = Consulting(program.sop, caller, self._conversations, memory, state)
        self._means = Means(program, caller, acceptance, Answers(program.sop, acceptance, values, dry=models.dry), commands,
                            observations, partial(_model_of, program.sop, models), dry=models.dry)

    def role_of(self, activation: Activation) -> str:
        """Who does this activation: the step's role, or the one that its expression names. Raises AttemptFailed."""
        return role_for(self._sop, self._sop.steps[activation.key.step], activation.scope)

    def model_of(self, activation: Activation, role: str) -> Model:
        """The model that answers: the step's, the role's, the default. Raises ModelMissing, AttemptFailed."""
        return _model_of(self._sop, self._models, activation, role)

    def embedders(self, roles: Iterable[str]) -> list[Model]:
        """The models by which these roles find what they remember. Raises ModelMissing."""
        recalls = (self._sop.roles[role].memory.recall for role in roles)
        return [self._models.of(recall.embedder) for recall in recalls if recall is not None and recall.embedder is not None]

    def signs(self, activation: Activation) -> list[str]:
        """What the rounds before say to a step that watches whether it is stuck: a part of what its result depends on."""
        step = self._sop.steps[activation.key.step]
        found = [] if step.stuck is None else rounds.signs(self._state, self._values, step, activation)
        return [sign.told for sign in found]

    def recalled(self, activation: Activation) -> str:
        """What of the role's memory, as it stands in this activation's prompts, came from outside the user; empty: nothing."""
        name = self.role_of(activation)
        return self._memory.untrusted(self._remembering.mind(activation, name), self._sop.roles[name], activation.key.firing)

    async def work(self, activation: Activation) -> Work:
        """The artifact that the role's answer becomes. Raises AnswerInvalid, AttemptFailed where the attempt failed."""
        name = self.role_of(activation)
        step = self._sop.steps[activation.key.step]
        asked = self._conversations.asked(step, activation, self._material.item(step, activation))
        letters = await self._inbox(name, activation)           # before any call: who was called has read them
        lessons = await self._remembering.lessons(activation, name)
        recalled = await self._remembering.recalled(activation, name, asked or f"{activation.key.step} {activation.item or ''}")
        recalled = [*lessons, *recalled]
        said = (text for turn in (*recalled, *letters) for text in (turn.asked, turn.answered or ""))
        await self._equipment.screening.remembered(str(activation.key), name, said)
        heard = joined(*(turn.untrusted for turn in (*recalled, *letters)), self._checker_hears(activation))
        with labelled(lambda: heard):
            return await self._answered(activation, asked, recalled, letters, heard)

    async def _answered(self, activation: Activation, asked: str, recalled: list[Turn], letters: list[Turn], heard: str) -> Work:
        """`asked`: what the role is to do. `heard`: the label of what the activation takes in besides what it starts with."""
        step = self._sop.steps[activation.key.step]
        name = self.role_of(activation)
        briefing = Briefing(self._conversations, self._material, self._memory, activation,
                            Mind(name, self._remembering.mind(activation, name), recalled, letters), asked)
        (strategy, parameters), = (step.strategy or {"single": {}}).items()
        thinks = strategies.make(strategy, parameters or {})
        delegate, consult = partial(self._delegate, activation), self._consulting.of(activation, self.model_of)
        acting = await self._equipment.acting(activation, name, delegate, consult, joined(activation.untrusted, heard))
        form = partial(self._form, briefing, activation)
        prompting = Prompting(strategy, asked, form, thinks.given.prompts, thinks.given.TEXTS, briefing.of, briefing.alone_of,
                              self._equip(activation, name, delegate, consult))
        with labelled(lambda: acting.untrusted):
            async with acting, AsyncExitStack() as opened:
                ladder = Ladder(step, activation.key.step, acting.desk, self._noted(activation, asked), dry=self._models.dry)
                thinking = ActivationThinking(self._means, activation, name, acting, prompting, ladder, opened)
                summaries = await self._remembering.summarised(activation, name, self._plainly(briefing, thinking))
                briefing.sum_up(summaries)
                briefing.hint = await self._hint(step, activation, thinking)
                answered = await _thought(thinks, thinking)
                work, said = await self._mended(step, activation, thinks, thinking.author, answered)
                if thinking.author is not thinking:
                    acting.go_on_from(thinking.author.acting)
                asked = asked or f"Step `{activation.key.step}`: make `{step.makes.artifact}`.\n"
                label = joined(activation.unlifted, heard, acting.heard)
                kept = await self._remembering.kept(activation, name, asked, said, label, self._apart(briefing, thinking),
                                                     summaries, thinking.lessons)
        return self._with_memory(work, kept, acting)

    def _form(self, briefing: Briefing, activation: Activation, acting: Acting) -> str:
        """What a role is told of the form of its answer, and of the command that this has to pass."""
        return briefing.form(acting) + self._commands.stated(activation)

    def _noted(self, activation: Activation, asked: str) -> Noted:
        """Journals that a role is stuck; where somebody is to think about it, with what was done up to then."""
        slot, step = self._state.active[activation.key.firing].slot(activation.key.item), self._sop.steps[activation.key.step]

        async def noted(branch: str, key: str, told: Mapping[str, Any]) -> Mapping[str, Any]:
            async def look() -> Any:
                if told["rung"] not in ("reflect", "ask"):
                    return dict(told)
                calls, most = self._state.total().charged[0], (self._sop.budget or Budget()).over(self._state.budget).calls
                task = f"{self._material.text(step, activation)}{asked}" if told["rung"] == "ask" else ""   # its role knows it
                name = step.makes.artifact
                before = self._values.at(name, self._state.version(name)) if step.foreach is None else MISSING
                made = "" if before is MISSING else render("{{ value }}", {"value": before})
                return {**told, "did": doings.told(
                    doings.doings(self._values, slot, key), task, made,
                    f"The run has made {calls:,} model calls{f' of {most:,}' if most else ''}.")}
            found: Mapping[str, Any] = await self._observations.once(f"{key}/{branch}", look)
            return found
        return noted

    def _equip(self, activation: Activation, name: str, delegate: Delegate, consult: Consult) -> Equip:
        """Gives roles that think beside the activation's own what they act with."""
        async def equip(role: str, key: str, beside: Acting) -> Acting:
            remembers = "" if role == name else self._memory.untrusted(role, self._sop.roles[role], activation.key.firing)
            return await self._equipment.beside(activation, role, delegate, consult, key, beside, remembers)
        return equip

    async def _hint(self, step: Step, activation: Activation, thinking: ActivationThinking) -> str:
        """What a role that is stuck over the rounds of its step is told; empty where it is not."""
        if not thinking.ladder.watches:
            return ""
        seen = rounds.signs(self._state, self._values, step, activation)
        said = await thinking.ladder.climb(thinking, "rounds", seen, thinking.acting.untrusted)
        return f"{said}\n\n" if said else ""

    @staticmethod
    def _apart(briefing: Briefing, thinking: ActivationThinking) -> Typed:
        async def ask(branch: str, told: str, schema: Any) -> Any:
            return await thinking.typed(branch, briefing.alone(told), schema)
        return ask

    @staticmethod
    def _plainly(briefing: Briefing, thinking: ActivationThinking) -> Says:
        async def say(branch: str, told: str) -> str:
            return (await thinking.ask(branch, briefing.alone(told), structured=False, tools=False)).reply.said
        return say

    async def _delegate(self, activation: Activation, role: str, task: str, scene: Scene) -> ToolResult:
        """Has another role do a part of an activation's task."""
        model = self.model_of(activation, role)
        its, payer = traits(model), _payer(scene.acting)

        async def send(at: str, messages: Messages, tools: tuple[Mapping[str, Any], ...]) -> Reply:
            return await self._caller.ask(model, ModelRequest(
                key=f"{scene.key}/{at}", role=role, step=activation.key.step, messages=messages, model=model.name, payer=payer,
                tools=tools, max_tokens=its.max_tokens, parameters=its.parameters))

        system = self._conversations.system(role, self._sop.roles[role], activation)
        asked = from_package("subtask", {"by": scene.acting.role, "task": task})
        messages = self._conversations.opening(system, [], asked)
        acting = await self._equipment.below(activation, role, partial(self._delegate, activation), scene)
        with labelled(lambda: acting.untrusted):
            async with acting:
                _, _, reply = await turns(send, acting, scene.key, "turn.0", messages)
        return ToolResult(reply.said, untrusted=joined(acting.untrusted, acting.heard), written=acting.tree.written,
                          deleted=tuple(sorted(acting.tree.deleted)))

    async def _mended(self, step: Step, activation: Activation, thinks: strategies.Strategy[Any], thinking: ActivationThinking,
                      answered: Said) -> tuple[Work, str]:
        """The work, after repairs of form, of what the check says and of what the review says; and the answer that was taken."""
        reviewing, answers = Reviewing(self._program, step, activation, thinking, dry=self._models.dry), self._means.answers
        branch, checks, reviews, kept = "turn.0", 0, 0, Answered()
        while True:
            taken, answered = await self._in_form(activation, thinks, thinking, answered, branch, kept)
            told = await self._checked(step, activation, taken.work, checks + reviews)
            if told is not None:
                left = (0 if step.check is None else step.check.repairs) - checks
                if left <= 0:
                    raise AnswerInvalid([f"its check still fails: {told}"])
                checks += 1
                branch = f"check.{checks}"
            else:
                told = await reviewing.told(answers.value(taken.work), taken.work.payload, reviews)
                if told is None:
                    return taken.work, taken.said
                left = reviewing.repairs - reviews
                if left <= 0:
                    raise AnswerInvalid([f"rejected by its reviewer: {told}{reviewing.wanted}"])
                reviews += 1
                branch = f"review.{reviews}"
            more = await thinking.ladder.climb(thinking, branch, thinking.ladder.complained(told), thinking.acting.untrusted)
            kept = answers.laid_out(activation, thinking.acting, answers.stands(taken.answered, thinking.acting))
            messages = _sent_back(activation, answered, [told, more] if more else [told], left, kept)
            answered = await thinks.mended(thinking, branch, messages, form=False)

    async def _in_form(self, activation: Activation, thinks: strategies.Strategy[Any], thinking: ActivationThinking,
                       answered: Said, branch: str, kept: Answered) -> tuple[TakenAnswer, Said]:
        """What an answer becomes with what was `kept` of those before it, repaired up to `ANSWER_REPAIRS` times; and the last
        answer. Raises AnswerInvalid.
        """
        for repairs in range(ANSWER_REPAIRS + 1):
            try:
                taken = self._means.answers.taken(activation, answered.reply, thinking.acting, kept)
                await self._means.answers.allowed(activation, taken, thinking.acting)
                return taken, answered
            except AnswerInvalid as error:
                if repairs == ANSWER_REPAIRS:
                    raise
                kept = error.kept if isinstance(error, PartTaken) else ()
                kept = self._means.answers.laid_out(activation, thinking.acting, kept)
                messages = _sent_back(activation, answered, error.faults, ANSWER_REPAIRS - repairs, kept)
            answered = await thinks.mended(thinking, f"{branch}/repair.{repairs + 1}", messages, form=True)
        raise AssertionError("the last repair is taken or raises")

    async def _checked(self, step: Step, activation: Activation, work: Work, number: int) -> str | None:
        if self._models.dry:
            return None
        return await checked(step, activation, work, f"{activation.key}{CHECKED}{number}", self._commands, self._functions,
                             self._acceptance)

    async def _inbox(self, role: str, activation: Activation) -> list[Turn]:
        """Messages that were sent to the role: which ones it has seen is not determined, and so it is journalled."""
        slot = self._state.active[activation.key.firing].slot(activation.key.item)
        key = f"{activation.key}/inbox"
        waiting = [sent for sent in self._state.sent if sent.to == role or (sent.to is None and sent.sender != role)]
        if key not in slot.observed and (not waiting or slot.calls):
            return []

        async def look() -> Any:
            return [[sent.sender, self._values.plain(sent.payload), *([sent.untrusted] if sent.untrusted else [])]
                    for sent in waiting]

        letters = await self._observations.once(key, look)
        return [Turn(f"Message from {sender}:\n\n{said if isinstance(said, str) else as_ordered(said).decode()}", None,
                     *untrusted) for sender, said, *untrusted in letters]

    def _checker_hears(self, activation: Activation) -> str:
        check = self._sop.steps[activation.key.step].check
        return "" if check is None or check.call is None or self._models.dry else self._functions.hears(check.call, activation)

    @staticmethod
    def _with_memory(work: Work, kept: KeptMemories, acting: Acting) -> Work:
        payload = work.payload.model_copy(update={"assumed": tuple(acting.assumed)}) if acting.assumed else work.payload
        return Work(payload, {**work.blobs, **kept.blobs}, kept.turn, tuple(acting.assumed), acting.untrusted, kept.besides)


def _sent_back(activation: Activation, answered: Said, faults: Sequence[str], left: int, kept: Answered) -> Messages:
    """The conversation with an answer and what is wrong with it; `kept`: what stands of the answers."""
    shown = shown_again(answered.reply.said, faults, kept)
    return sent_back(answered.messages, shown, faults, left, stands=told_blocks(kept), edits_told=activation.base is not None,
                     whole=shown == answered.reply.said)


async def _thought(thinks: strategies.Strategy[Any], thinking: ActivationThinking) -> Said:
    """The strategy's answer. Where calls that it makes at once fail, it is for the failure of the first of them."""
    try:
        return await thinks.answer(thinking)
    except BaseExceptionGroup as failures:
        raise failure_of(failures) from failures


def _model_of(sop: SOP, models: Models, activation: Activation, role: str) -> Model:
    return models.of(model_for(sop, sop.steps[activation.key.step], role, activation.scope), role)


def _payer(acting: Acting) -> str:
    """The role whose budget a started role's calls count against: that of the first one who started another."""
    return acting.role if acting.above is None else _payer(acting.above)
