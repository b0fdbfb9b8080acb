"""Wires the rooms together for one open journal; `runs.py` says which journal, and when."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from metaflow_agents.agent import strategies
from metaflow_agents.agent.agent import Hands, Minds, RoleAgent
from metaflow_agents.agent.asked_people import AskedPeople
from metaflow_agents.agent.conversation import Conversations
from metaflow_agents.agent.material import Material, ShownArtifact
from metaflow_agents.agent.progressing import RunJudge
from metaflow_agents.agent.surroundings import Surroundings
from metaflow_agents.agent.tool_step import ToolSteps
from metaflow_agents.agent.toolset import Equipment
from metaflow_agents.engine.attempts import Holding
from metaflow_agents.engine.clock import TimeCaps
from metaflow_agents.engine.earlier_effects import EarlierEffects
from metaflow_agents.engine.halting import Halting
from metaflow_agents.engine.progress import RunProgress
from metaflow_agents.engine.scheduler import Scheduler
from metaflow_agents.engine.scope import Scopes
from metaflow_agents.engine.step_execution import Fanout
from metaflow_agents.engine.suspension import Parking
from metaflow_agents.engine.work import Activation, Earlier
from metaflow_agents.journal.audit import Heads, keep_head
from metaflow_agents.journal.bus import Bus
from metaflow_agents.journal.inner import InnerJournal
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.run_context import RunContext
from metaflow_agents.journal.state import RunState
from metaflow_agents.journal.tree import Tree
from metaflow_agents.journal.values import Values
from metaflow_agents.memory.project import WHOLE, Inherited, Inside, MemoryFile, ProjectMemory, RunId
from metaflow_agents.memory.store import PLACE, MemoryDatabase
from metaflow_agents.memory.window import RoleMemory
from metaflow_agents.models.budget import Budgets
from metaflow_agents.models.caller import Caller, Watch
from metaflow_agents.models.inner_budget import InnerBudgets
from metaflow_agents.models.limits import Limiters
from metaflow_agents.models.registry import Models
from metaflow_agents.models.retry_policy import Patience
from metaflow_agents.modules import CodeSources, load_function, sources_of
from metaflow_agents.policy.screens import ScreenRule
from metaflow_agents.questions.answer_queue import AnswerQueue
from metaflow_agents.questions.broker import Asker, QuestionBroker
from metaflow_agents.questions.inner import InnerDesk
from metaflow_agents.runtime.caps import run_budget, step_budget
from metaflow_agents.runtime.compiled import Shared
from metaflow_agents.runtime.output_sync import Folder
from metaflow_agents.runtime.step_runner import Doers, StepTypes
from metaflow_agents.runtime.subworkflow import Joined, SubSOPs
from metaflow_agents.runtime.toolsets import toolbox
from metaflow_agents.sandbox.choice import Unchosen
from metaflow_agents.sandbox.port import Sandbox
from metaflow_agents.schema.endpoint import EndpointLimits
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.tools import PolicySpec
from metaflow_agents.settings import Settings
from metaflow_agents.sop.graph import SOPGraph
from metaflow_agents.steps.code import CodeParts
from metaflow_agents.steps.command import Commands
from metaflow_agents.steps.documents import Documents
from metaflow_agents.steps.effects import Effects
from metaflow_agents.steps.executor import Executors
from metaflow_agents.steps.expression import Expressions
from metaflow_agents.steps.function import Functions
from metaflow_agents.steps.given import given_inside
from metaflow_agents.steps.human import Humans
from metaflow_agents.steps.parts import ResultParts
from metaflow_agents.steps.repeats import Repeats
from metaflow_agents.steps.screening import Screening
from metaflow_agents.steps.side_effects import Observations
from metaflow_agents.steps.validation import Acceptance
from metaflow_agents.tools.secrets import Secrets
from metaflow_agents.tools.toolbox import Toolbox


@dataclass(frozen=True, slots=True)
class Options:
    """How a run is carried out; the part of it that the journal's events do not hold."""

    models: Models
    sandbox: Sandbox = field(default_factory=Unchosen)
    folders: Mapping[str, Sequence[Path]] = field(default_factory=dict)     # fingerprint of a SOP → those of its Python
    secrets: Mapping[str, Secrets] = field(default_factory=dict)            # fingerprint → its secrets
    screens: Mapping[str, Sequence[ScreenRule]] = field(default_factory=dict)       # fingerprint → what its policy screens by
    given: Mapping[str, Any] = field(default_factory=dict)
    earlier: Earlier | None = None
    effects: EarlierEffects | None = None      # of that run, which sub-SOPs may do again too
    reask: bool = False
    limits: EndpointLimits = field(default_factory=EndpointLimits)
    patience: Patience | None = None
    watch: Watch | None = None
    asker: Asker | None = None                 # asks who is there; None: nobody is
    yes: bool = False                          # allows actions and approves, without asking
    home: Path = Path()                        # the SOP's folder
    settings: Settings = field(default_factory=Settings)
    inner: Mapping[str, Models] = field(default_factory=dict)      # fingerprint of a sub-SOP → its models
    shared: Shared = field(default_factory=Shared)

    @property
    def all_models(self) -> tuple[Models, ...]:
        """Those of the SOP and of all SOPs in it."""
        return (self.models, *self.inner.values())


@dataclass(frozen=True, slots=True)
class Within:
    """What a sub-SOP has from the one that it is a step of. `prefix` begins its keys as the run's journal has them."""

    prefix: str
    run: str
    step: str
    acceptance: Acceptance
    budgets: Budgets | InnerBudgets
    desk: InnerDesk
    policies: tuple[PolicySpec | None, ...]
    screens: tuple[ScreenRule, ...]
    toolboxes: Mapping[str, Toolbox]
    staged: bool
    allowed: Sequence[str]
    told: str
    over: Mapping[str, float]               # caps given for it on the command line
    path: str                               # the steps that lead to it, as `--budget` and `--stub` write them: `build/`
    memory: MemoryFile
    remembered: RunId
    alone: bool                             # nothing remembered comes in from outside of it, or goes out
    inherited: Inherited | None
    halting: Halting
    noted: dict[str, list[ShownArtifact]] | None    # what prompts show, where that is noted down


@dataclass(frozen=True, slots=True)
class Assembly:
    """A run's rooms, joined."""

    journal: Journal
    bus: Bus
    values: Values
    scheduler: Scheduler
    graph: SOPGraph
    folder: Folder | None
    parking: Parking
    toolboxes: tuple[Toolbox, ...]
    memory: ProjectMemory
    material: Material
    documents: Documents


def assemble(program: Program, journal: Journal, options: Options, limiters: Limiters, *, folder: Path | None,
             within: Within | None = None) -> Assembly:
    """Joins the rooms for a journal that begins with `RunOpened`. `folder` is where files go; None: nowhere.

    `within`: for a sub-SOP, what it has from the one that it is a step of.
    """
    state, sop = journal.state, program.sop
    secrets = options.secrets[program.fingerprint]
    name = within.run if within else "" if state.opened is None else state.opened.run
    compiled = options.shared.of(program)
    bus, graph = Bus(journal), compiled.graph
    values = Values(journal.blob, state)
    context = RunContext(program, bus, state, values)
    tree = Tree(program, values, state, name)
    scopes = Scopes(program, values, name)

    def loading(one: Program) -> Callable[[str], Callable[..., Any]]:
        return partial(load_function, folders=options.folders[one.fingerprint])

    def reading(one: Program) -> Callable[[str], CodeSources]:
        return partial(sources_of, folders=options.folders[one.fingerprint])

    load = loading(program)
    acceptance = Acceptance(program, values, load, within.acceptance if within else None, compiled.validators)
    conversations = Conversations(program, acceptance, compiled.wordings)
    observations = Observations(bus, state, values)
    told = within.told if within else told_name(journal)
    desk: QuestionBroker
    if within:
        desk = within.desk
    else:
        desk = QuestionBroker(bus, state, journal.blob, asker=options.asker, yes=options.yes, run=told,
                    mailbox=AnswerQueue(journal.path) if journal.path.suffix else None)
        keep_head(journal, Heads(options.settings.heads))
    prefix, above = (within.prefix, within.policies) if within else ("", ())
    screens = (*(within.screens if within else ()), *options.screens.get(program.fingerprint, ()))
    screening = Screening(screens, bus, state, values)
    repeats = Repeats(desk, options.effects, secrets.masked, prefix)
    effects = Effects(bus, state, observations, desk, repeats)
    functions = Functions(sop, acceptance, observations, effects, load)
    commands = Commands(sop, acceptance, tree, values, observations, options.sandbox, options.settings)
    memory = RoleMemory(state, values, {step: graph.rank(step) for step in graph.steps})
    file = within.memory if within else MemoryFile(partial(MemoryDatabase, memory_file(options, folder)))
    over, path = (within.over, within.path) if within else (state.budget, "")
    caps = budgets(program, state, over, told) if within is None else InnerBudgets(
        budgets(program, state, over, told, path=path, whole=f"SOP {sop.sop}"), within.budgets, within.step)
    project = ProjectMemory(file, state, values, secrets.masked, keeps=sop.remembers, apart=sop.apart, inside=Inside(
        within.remembered, prefix, within.alone, within.inherited) if within else WHOLE)
    halting = Halting(None if within is None else within.halting)
    caller = Caller(bus, caps, limiters, patience=options.patience, reask=options.reask,
                    watch=options.watch, prefix=prefix, sent=halting.sent)
    toolboxes = within.toolboxes if within else {one.fingerprint: toolbox(
        one, options.home, options.sandbox, options.settings, options.secrets[one.fingerprint], loading(one),
        dry=options.models.dry) for one in program.all()}
    tools = toolboxes[program.fingerprint]
    staged = within.staged if within else state.opened is not None and state.opened.staged
    allowed = within.allowed if within else () if state.opened is None else state.opened.allowed
    around = Surroundings(bus, state, values, desk, secrets, repeats, screening, staged=staged)
    equipment = Equipment(sop, around, tools, observations, commands, dry=options.models.dry, above=above, allowed=allowed)
    material = Material(program, values, tree.as_rendered, asked=AskedPeople(state, values),
                        noted=within.noted if within else None, prefix=prefix)
    agent = RoleAgent(context, conversations, material, options.models, caller, observations, Minds(memory, project),
                      Hands(commands, functions, equipment))

    def join(inner: Program, its: InnerJournal, activation: Activation) -> Joined:
        key = str(activation.key)
        step, inside = activation.key.step, InnerDesk(desk, key)
        wanted, its_over = sop.steps[step].inherits_memory, given_inside(over, step)
        alone = wanted is False or (within is not None and within.alone)

        async def inherited(mind: str | None, *, lessons: bool) -> list[str]:
            past = (memory.lessons if lessons else memory.past)(mind, activation.key.firing)
            return await project.handed_over(mind, past, lessons=lessons)

        # What it inherits of memory is a part of the whole step, and of no single one inside.
        before = None if wanted or options.earlier is None else options.earlier.inside(activation.key)
        joined = assemble(inner, its, replace(options, models=options.inner[inner.fingerprint], earlier=before,
                                                       given=given_inside(options.given, step)), limiters,
                          folder=None, within=Within(f"{prefix}{key}/", name, step, acceptance, caps,
                                                     inside, (*above, sop.policy), screens, toolboxes, staged, allowed, told,
                                                     its_over, f"{path}{step}/", file,
                                                     project.run, alone, inherited if wanted else None, halting, material.noted))
        return Joined(joined.scheduler, joined.values, inside, joined.memory, run_budget(inner, its_over).time,
                      f"sop resume {told} --budget {path}{step}/time=…")

    sops = SubSOPs(program, journal, acceptance, loading, join,
                   {name: models.identities for name, models in options.inner.items()})
    tool_steps = ToolSteps(sop, state, equipment, acceptance, commands, functions)
    documents = Documents(sop, tree, state, values, options.sandbox, dry=options.models.dry)
    types = StepTypes(agent, commands, functions, Executors(sop, acceptance, observations, effects), Expressions(sop, acceptance),
                      Humans(program, acceptance, desk), tool_steps, documents, sops, screening)
    doers = Doers(sop, types, acceptance, ResultParts(compiled.meanings, state, values, memory, above),
                  CodeParts(program, reading, options.inner), dry=options.models.dry, given=options.given)
    parking = Parking(desk)
    desk.idle = parking.rests.seconds
    holding = Holding(time_caps(program, state, over, told, path), parking, halting)
    fanout = Fanout(context, scopes, doers, earlier=options.earlier, holding=holding, recalled=doers.recalled,
                    strategies=strategies.known())
    progress = None
    if sop.progress is not None:
        judge = RunJudge(context, sop.progress, options.models, caller, conversations, memory, observations,
                         run_budget(program, over))
        progress = RunProgress(sop, sop.progress, bus, state, values, scopes, judge)
    scheduler = Scheduler(context, graph, scopes, fanout, until=state.until, progress=progress)
    kept = None if folder is None else Folder(bus, state, tree, folder, journal.path)
    return Assembly(journal, bus, values, scheduler, graph, kept, parking, tuple(toolboxes.values()), project,
                    material, documents)


def memory_file(options: Options, folder: Path | None) -> Path | None:
    """The project's memory file, which lies in the workspace; None, in memory, where there is none, or the models are `dry`: what
    they say is not worth remembering.
    """
    return None if folder is None or options.models.dry else folder.parent / PLACE


def told_name(journal: Journal) -> str:
    """What the run is called in commands; a run in memory has no name to resume it by."""
    return journal.path.stem if journal.path.suffix else "RUN"


def time_caps(program: Program, state: RunState, over: Mapping[str, float], name: str, path: str) -> TimeCaps:
    """The caps on time of roles and steps, with what was used before; the run's own is held by `underway.py`.

    `name` is the run's, `path` leads to the SOP; both stand in the command that raises a cap.
    """
    sop = program.sop
    caps = {f"step:{step}": cap.time for step in sop.steps if (cap := step_budget(sop, step, over)) and cap.time}
    caps |= {f"role:{name}": role.budget.time for name, role in sop.roles.items() if role.budget and role.budget.time}
    used: dict[str, float] = {}
    for name, seconds in state.busy.items():
        for scope in (f"step:{name}", f"role:{sop.steps[name].role}" if name in sop.steps else ""):
            used[scope] = used.get(scope, 0.0) + seconds
    return TimeCaps(caps, used, {f"step:{step}": f"sop resume {name} --budget {path}{step}/time=…" for step in sop.steps})


def budgets(program: Program, state: RunState, over: Mapping[str, float], name: str, *, path: str = "",
            whole: str = "run") -> Budgets:
    """The caps on calls, tokens and money, with what the journal says was spent. `name` is the run's."""
    sop = program.sop
    found = Budgets(run_budget(program, over), {role: written.budget for role, written in sop.roles.items()},
                    {step: step_budget(sop, step, over) for step in sop.steps}, name=name, path=path, whole=whole)
    for (role, step), spending in state.spent.items():
        calls, tokens, cost = spending.charged
        found.charge(role, step, tokens, calls, cost)
    return found
