"""Plans carried out, action by action, by the rules of PDDL and nothing else: whether each can be done, and where it ends.

It shares no code with any planner: a plan that passes here is right because of the domain, and not because of who found it.
Semantics: Fox and Long, "PDDL2.1" (JAIR 2003), section 3, without numbers and time: an action's effects come from the state
before it; what it deletes goes first, then comes what it adds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from metaflow_agents.kits.planning.faults import LEAVE_OUT, PDDLFault, UnreadablePDDL, instead, write
from metaflow_agents.kits.planning.model import (
    AllOf,
    Atom,
    Condition,
    Domain,
    Holds,
    Not,
    OneOf,
    PlanAction,
    PlanningProblem,
    Quantified,
    Same,
    Typed,
    told,
)
from metaflow_agents.kits.planning.reading import Form, Word, read, shown
from metaflow_agents.kits.planning.scanning import Scanner

State = frozenset[Atom]
MOST = 2_000_000
"""Choices of objects that conditions and effects with `forall` and `exists` may take in one plan."""
_TOLD = 5


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a plan: `actions` as they were carried out, the `state` after them, and what is wrong."""

    actions: tuple[Atom, ...]
    state: State
    faults: tuple[PDDLFault, ...]

    @property
    def ok(self) -> bool:
        """Whether every action could be done, and the goal holds."""
        return not self.faults


def execute(domain: Domain, problem: PlanningProblem, plan: str, file: str = "plan") -> Outcome:
    """What comes of a plan, which is one action a line: `(pick-up a)`. It stops at the first action that can't be done."""
    try:
        forms = read(plan, file)
    except UnreadablePDDL as error:
        return Outcome((), problem.initial, (error.fault,))
    executor = _Executor(domain, problem)
    done: list[Atom] = []
    state, scanner = problem.initial, Scanner(file)
    try:
        for number, form in enumerate(forms, 1):
            bound = _bound(scanner, form, domain, problem)
            if bound is None:
                return Outcome(tuple(done), state, tuple(scanner.faults))
            action, binding = bound
            wrong = [told(_filled(part, binding)) for part in executor.broken(action.precondition, state, binding)]
            if wrong:
                holds = "does not hold" if len(wrong) == 1 else "do not hold"
                scanner.say(form, f"found `{shown(form)}` as action {number}; its precondition {_listed(wrong)} {holds} there; "
                            "expected an action that can be done", f"make it hold first, or {LEAVE_OUT}")
                return Outcome(tuple(done), state, tuple(scanner.faults))
            state = executor.after(action, state, binding)
            done.append((action.name, *binding.values()))
        unmet = [told(part) for part in executor.broken(problem.goal, state, {})]
    except OverflowError:
        fault = PDDLFault(file, 1, 1, f"the plan's conditions look at more than {MOST:,} choices of objects; expected fewer",
                      "say the domain with fewer variables in `forall` and `exists`")
        return Outcome(tuple(done), state, (fault,))
    if unmet:
        holds = "does not hold" if len(unmet) == 1 else "do not hold"
        line = forms[-1].line if forms else 1
        scanner.faults.append(PDDLFault(file, line + 1, 1, f"found the end of the plan, and of the goal {_listed(unmet)} {holds}",
                                    "add the actions that make it hold"))
    return Outcome(tuple(done), state, tuple(scanner.faults))


def _bound(scanner: Scanner, form: Form, domain: Domain, problem: PlanningProblem) -> tuple[PlanAction, dict[str, str]] | None:
    """The action that a line of a plan means, and what its parameters are; None, with faults, where it is none."""
    name, *terms = form.items or (form,)
    if not isinstance(name, Word) or name.text not in domain.actions:
        mend = instead(name.text, list(domain.actions), "one of") if isinstance(name, Word) else LEAVE_OUT
        scanner.say(name, f"found `{shown(name)}`, which is no action of the domain", mend)
        return None
    action = domain.actions[name.text]
    if len(terms) != len(action.parameters):
        form_of = " ".join((action.name, *(parameter for parameter, _ in action.parameters)))
        scanner.say(form, f"found {len(terms)} arguments in `{shown(form)}`; expected {len(action.parameters)}: `({form_of})`",
                    write(f"({form_of})"))
        return None
    fine = [scanner.term(term, problem.objects, type_, domain) for term, (_, type_) in zip(terms, action.parameters, strict=True)]
    if not all(fine):
        return None
    return action, {parameter: term.text for (parameter, _), term in zip(action.parameters, terms, strict=True)
                    if isinstance(term, Word)}


class _Executor:
    def __init__(self, domain: Domain, problem: PlanningProblem) -> None:
        self._domain, self._problem = domain, problem
        self._left = MOST

    def choices(self, variables: Typed, binding: Mapping[str, str]) -> Iterator[dict[str, str]]:
        """The binding with every choice of objects for the variables. Raises OverflowError where there were too many."""
        fitting = [[name for name, type_ in self._problem.objects.items() if self._domain.is_a(type_, wanted)]
                   for _, wanted in variables]
        for chosen in product(*fitting):
            self._left -= 1
            if self._left < 0:
                raise OverflowError
            yield {**binding, **{name: value for (name, _), value in zip(variables, chosen, strict=True)}}

    def holds(self, condition: Condition, state: State, binding: Mapping[str, str]) -> bool:
        match condition:
            case Holds(atom):
                return _ground(atom, binding) in state
            case Same(left, right):
                return binding.get(left, left) == binding.get(right, right)
            case Not(inner):
                return not self.holds(inner, state, binding)
            case AllOf(parts):
                return all(self.holds(part, state, binding) for part in parts)
            case OneOf(parts):
                return any(self.holds(part, state, binding) for part in parts)
            case Quantified(every, variables, inner):
                found = (self.holds(inner, state, one) for one in self.choices(variables, binding))
                return all(found) if every else any(found)

    def broken(self, condition: Condition, state: State, binding: Mapping[str, str]) -> list[Condition]:
        """The smallest parts, as far as `and` goes, that do not hold."""
        if isinstance(condition, AllOf):
            return [one for part in condition.parts for one in self.broken(part, state, binding)]
        return [] if self.holds(condition, state, binding) else [condition]

    def after(self, action: PlanAction, state: State, binding: Mapping[str, str]) -> State:
        """The state after an action that can be done."""
        added: set[Atom] = set()
        deleted: set[Atom] = set()
        for effect in action.effects:
            for one in self.choices(effect.variables, binding):
                if self.holds(effect.when, state, one):
                    (added if effect.becomes else deleted).add(_ground(effect.atom, one))
        return (state - deleted) | added


def _ground(atom: Atom, binding: Mapping[str, str]) -> Atom:
    return (atom[0], *(binding.get(term, term) for term in atom[1:]))


def _filled(condition: Condition, binding: Mapping[str, str]) -> Condition:
    """A condition with the objects in the place of variables, to be shown."""
    match condition:
        case Holds(atom):
            return Holds(_ground(atom, binding))
        case Same(left, right):
            return Same(binding.get(left, left), binding.get(right, right))
        case Not(inner):
            return Not(_filled(inner, binding))
        case AllOf(parts):
            return AllOf(tuple(_filled(part, binding) for part in parts))
        case OneOf(parts):
            return OneOf(tuple(_filled(part, binding) for part in parts))
        case Quantified(every, variables, inner):
            own = {name for name, _ in variables}
            return Quantified(every, variables, _filled(inner, {name: to for name, to in binding.items() if name not in own}))


def _listed(parts: Sequence[str]) -> str:
    more = f", … ({len(parts)} in all)" if len(parts) > _TOLD else ""
    return ", ".join(f"`{part}`" for part in parts[:_TOLD]) + more
