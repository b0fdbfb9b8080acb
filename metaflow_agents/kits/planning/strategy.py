# ruff: noqa: E501 - prompts
"""A planning problem that the model puts into words, a planner solves, and a validator checks.

Source: Liu et al., "LLM+P: Empowering Large Language Models with Optimal Planning Proficiency" (2023): the model translates the
task into PDDL, a classical planner finds the plan, the model says the plan in the form that was asked for. That the faults of
a translation go back to the model is Guan et al., "Leveraging Pre-trained Large Language Models to Construct and Utilize World
Models for Model-based Task Planning" (NeurIPS 2023). The validator is `metaflow_agents.kits.planning`, which shares no code with
the planner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from metaflow_agents.agent.applying import apply_blocks
from metaflow_agents.agent.blocks import parse_blocks
from metaflow_agents.agent.strategies.port import Said, Strategy, Thinking, above
from metaflow_agents.errors import AnswerInvalid, AttemptFailed
from metaflow_agents.kits.planning import solving
from metaflow_agents.kits.planning.domains import read_domain
from metaflow_agents.kits.planning.executing import execute
from metaflow_agents.kits.planning.model import Domain, PlanningProblem, shown
from metaflow_agents.kits.planning.problems import read_problem
from metaflow_agents.kits.planning.reaching import unreachable
from metaflow_agents.schema.scalars import Expression, Seconds
from metaflow_agents.schema.strategies.base import AnswerExpression, Refers, StrategySpec

DOMAIN, PROBLEM = "domain.pddl", "problem.pddl"

TRANSLATE = """\
{# solver.translate, version 1. Asks for the task as a planning problem in PDDL. Sees: domain (PDDL as text; empty: it is asked for too). #}
# A planning problem

Don't do the task yourself: write it as a planning problem in PDDL, which a planner then solves. Leave out nothing that the task says is there or
is true at first; what is not said to be true is false. The goal is what the task asks for, no more and no less.

{% if domain %}
This is the domain. Use its names as they stand:

{{ enclosed(domain | trim) }}

Answer with the problem, in one block and nothing else:
{% else %}
Write the domain too: the fewest types, predicates and actions that say what can be done. What is understood is STRIPS, types, constants,
negative and disjunctive preconditions, equality, `exists`, `forall`, `imply` and `when`; no numbers, no costs, no durations.

Answer with both, in two blocks and nothing else:

=== file: domain.pddl ===
(define (domain …) …)
=== end ===
{% endif %}

=== file: problem.pddl ===
(define (problem …) (:domain …) (:objects …) (:init …) (:goal …))
=== end ===
"""
MEND = """\
{# solver.mend, version 1. What is wrong with a planning problem, or with a plan, goes back to who wrote it. Sees: faults [text], left (answers left). #}
This can't be taken as it is. Each fault begins with its place, `FILE:LINE:COLUMN`, then comes what was found there, what was expected, and the mend:

{% for fault in faults %}
- {{ enclosed(fault) | indent(2) }}
{% endfor %}

Mend {{ 'it' if faults | length == 1 else 'them' }} and change nothing else. Answer again in the form that was asked for; a file may be given whole, or as an edit:

=== edit: problem.pddl ===
<<<<<<< SEARCH
the whole lines as they are
=======
the lines that stand there instead
>>>>>>> REPLACE
=== end ===
{% if left == 1 %}

This is the last answer that can be taken.
{% endif %}
"""
ANSWER = """\
{# solver.answer, version 1. Asks for the answer that a plan is. Sees: plan [text, an action each], domain, problem (PDDL), output_format. #}
# The plan

The task was written as a planning problem, a planner solved it, and its plan was carried out step by step: it holds, and reaches the goal.

The problem, in PDDL:

{{ enclosed(problem | trim) }}

The plan, {{ plan | length }} action{{ '' if plan | length == 1 else 's' }} in this order:

{% for action in plan %}
{{ action }}
{% endfor %}

Give it as the answer to the task. Change nothing about it: no other action, no other order.

{{ output_format | trim }}
"""


class SolverSpec(StrategySpec):
    """The model writes the task in PDDL, a planner solves it, a validator carries the plan out; faults go back to the model.

    Needs `pip install 'metaflow-agents[solver]'`.
    """

    PROMPTS: ClassVar[dict[str, tuple[str, ...]]] = {
        "translate": ("domain",), "mend": ("faults", "left"), "answer": ("plan", "domain", "problem", "output_format")}
    TEXTS: ClassVar[dict[str, str]] = {"translate": TRANSLATE, "mend": MEND, "answer": ANSWER}
    COMMANDS: ClassVar[bool] = True

    domain: Annotated[Expression, Refers("expression")] | None = Field(
        None, description="the domain in PDDL, as an expression over what the step reads; by default the model writes it too")
    plan: AnswerExpression | None = Field(
        None, description="the plan in an answer, as an expression over `answer`: a text, or a list of actions like "
                          "`(pick-up a)`; it is carried out as well")
    objects: AnswerExpression | None = Field(
        None, description="the objects in an answer, as an expression over `answer` that gives a list of names: those of the "
                          "problem, constants of the domain included, have to be in it, and no other")
    optimal: Annotated[bool, Field(strict=True)] = Field(
        False, description="a plan with as few actions as there can be; by default the first one that is found")
    repairs: Annotated[int, Field(ge=0, le=100, strict=True)] = Field(5, description="how often faults go back, all together")
    time: Seconds = Field(60.0, description="longest time of one search; more than 2 GB of memory it never takes")

    def calls(self, answer: int) -> int | None:
        """The translation, the answer, and as many of either again as there are repairs."""
        return 1 + answer + self.repairs * (answer if self.held else 1)

    @property
    def held(self) -> bool:
        """Whether the answer is compared with what was planned."""
        return self.plan is not None or self.objects is not None

    def failures(self) -> int:
        """Each repair."""
        return self.repairs


@dataclass(frozen=True, slots=True)
class _Written:
    """A domain and a problem without faults, as texts and as they are understood."""

    domain_text: str
    problem_text: str
    domain: Domain
    problem: PlanningProblem


class Solver(Strategy[SolverSpec]):
    """Translated, solved, carried out; faults of the translation go back, and so do those of a plan in the answer."""

    SPEC = SolverSpec

    @classmethod
    def missing(cls) -> str:
        """See `Strategy.missing`."""
        return solving.missing()

    async def answer(self, thinking: Thinking) -> Said:
        """See `Strategy.answer`."""
        given = self._domain(thinking)
        if thinking.dry:                            # what stands in for a model's words is no PDDL, and no command runs
            await thinking.ask("translate", self._asked(thinking, given), structured=False)
            return await thinking.ask("turn.0", self._ending(thinking, given, "", []))
        written, plan, used = await self._solved(thinking, given)
        asked = self._ending(thinking, written.domain_text, written.problem_text, plan)
        said = await thinking.ask("turn.0", asked)
        return await self._checked(thinking, said, written, used) if self.given.held else said

    def _domain(self, thinking: Thinking) -> str:
        """The domain that the SOP gives; empty where the model writes it."""
        if self.given.domain is None:
            return ""
        text = thinking.evaluate(self.given.domain)
        if not isinstance(text, str):
            raise AttemptFailed(f"`domain: {self.given.domain}` gave no text, but {str(text)[:100]!r}")
        faults = [] if thinking.dry else read_domain(text, DOMAIN)[1]
        if faults:
            raise AttemptFailed(f"`domain: {self.given.domain}` gave a domain that can't be used: " + "; ".join(map(str, faults)))
        return text

    @staticmethod
    def _asked(thinking: Thinking, domain: str) -> Any:
        return thinking.compose(thinking.prompt("translate", domain=domain))

    @staticmethod
    def _ending(thinking: Thinking, domain: str, problem: str, plan: list[str]) -> Any:
        return thinking.compose(thinking.prompt("answer", plan=plan, domain=domain, problem=problem,
                                                output_format=thinking.output_format))

    async def _solved(self, thinking: Thinking, given: str) -> tuple[_Written, list[str], int]:
        """What was written in the end, its plan, and how many repairs it took. Raises AnswerInvalid where they don't help."""
        texts = {DOMAIN: given} if given else {}
        patterns = (PROBLEM,) if given else (DOMAIN, PROBLEM)
        messages = self._asked(thinking, given)
        for number in range(self.given.repairs + 1):
            said = await thinking.ask(f"mend.{number}" if number else "translate", messages, structured=False)
            plan: list[str] = []
            try:
                made = apply_blocks(parse_blocks(said.reply.said), texts, patterns)[0]
                texts |= {name: text for name, text in made.items() if isinstance(text, str)}
                written = _read(texts)
                plan = await self._planned(thinking, number, written)
            except AnswerInvalid as error:
                faults = error.faults
            else:
                await thinking.note("solved", {"actions": len(plan), "repairs": number})
                return written, plan, number
            if number == self.given.repairs:
                break
            hint = above(await thinking.failed(f"mend.{number + 1}", "the translation", [list(faults)]))
            asked = hint + thinking.prompt("mend", faults=list(faults), left=self.given.repairs - number)
            messages = (*said.messages, said.reply.message, {"role": "user", "content": asked})
        raise AnswerInvalid(faults)

    async def _planned(self, thinking: Thinking, number: int, written: _Written) -> list[str]:
        """The plan that the solver finds and the validator carries out. Raises AnswerInvalid with what to tell the model."""
        ended = await thinking.run(f"solve.{number}", solving.command(optimal=self.given.optimal),
                                   files=solving.files(written.domain_text, written.problem_text), timeout=self.given.time,
                                   collect=solving.OUTCOME)
        found = solving.outcome(ended, self.given.time)
        if found.status != "solved":
            lost = () if found.status != "unsolvable" \
                else unreachable(written.domain, written.problem, written.problem_text, PROBLEM)
            raise AnswerInvalid([f"{PROBLEM}: {found.told}", *map(str, lost)])
        done = execute(written.domain, written.problem, found.plan)
        if not done.ok:
            raise AnswerInvalid([f"the solver's plan does not hold: {fault}" for fault in done.faults])
        return [shown(action) for action in done.actions]

    async def _checked(self, thinking: Thinking, said: Said, written: _Written, used: int) -> Said:
        """An answer whose plan can be carried out; others go back. Raises AnswerInvalid where repairs don't help."""
        for number in range(self.given.repairs - used + 1):
            faults = self._faults(thinking, said, written)
            if not faults:
                return said
            if number < self.given.repairs - used:
                hint = above(await thinking.failed(f"plan.{number + 1}", "the plan", [faults]))
                asked = hint + thinking.prompt("mend", faults=faults, left=self.given.repairs - used - number)
                messages = (*said.messages, said.reply.message, {"role": "user", "content": f"{asked}\n{thinking.output_format}"})
                said = await thinking.ask(f"plan.{number + 1}", messages)
        raise AnswerInvalid(faults)

    def _faults(self, thinking: Thinking, said: Said, written: _Written) -> list[str]:
        """What is wrong with the plan and the objects in an answer."""
        found: list[str] = []
        if self.given.plan is not None:
            plan, wrong = _lines(thinking, said, self.given.plan, "a plan: actions like `(pick-up a)`, in their order")
            found += wrong or map(str, execute(written.domain, written.problem, "\n".join(plan)).faults)
        if self.given.objects is not None:
            objects, wrong = _lines(thinking, said, self.given.objects, "a list of objects' names")
            found += wrong or _named(objects, written.problem)
        return found


def _lines(thinking: Thinking, said: Said, expression: str, expected: str) -> tuple[list[str], list[str]]:
    """The list of texts, or the lines of a text, that an expression finds in an answer; and what is wrong."""
    try:
        found = thinking.evaluate(expression, answer=thinking.value(said.reply))
    except AnswerInvalid as error:
        return [], list(error.faults)
    lines = found.splitlines() if isinstance(found, str) else found
    if not isinstance(lines, list | tuple) or not all(isinstance(line, str) for line in lines):
        return [], [f"`{expression}` gave {str(found)[:100]!r}; expected {expected}"]
    return list(lines), []


def _named(names: Sequence[str], problem: PlanningProblem) -> list[str]:
    """Objects that are missing in a list, and names that are no objects."""
    given = {name.lower() for name in names}
    return [f"the object `{name}` of the problem is missing" for name in problem.objects if name not in given] + \
        [f"`{name}` is no object of the problem: leave it out" for name in names if name.lower() not in problem.objects]


def _read(texts: Mapping[str, str]) -> _Written:
    """What the texts say. Raises AnswerInvalid with all their faults; those of the problem wait for a domain that can be read."""
    faults = [f"there is no `{name}`: give the whole of it" for name in (DOMAIN, PROBLEM) if name not in texts]
    if faults:
        raise AnswerInvalid(faults)
    domain, wrong = read_domain(texts[DOMAIN], DOMAIN)
    problem = None
    if domain is not None and not wrong:
        problem, wrong = read_problem(texts[PROBLEM], PROBLEM, domain)
    if wrong or domain is None or problem is None:
        raise AnswerInvalid(map(str, wrong))
    return _Written(texts[DOMAIN], texts[PROBLEM], domain, problem)
