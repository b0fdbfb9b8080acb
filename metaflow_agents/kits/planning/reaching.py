"""Why no plan reaches a goal, as far as it can be told without searching: what can never come true, whatever is done.

Actions are looked at as if nothing ever became false (the delete relaxation of Bonet and Geffner, "Planning as heuristic search",
Artificial Intelligence 2001). What is out of reach even then is out of reach for every plan; what is within reach may still be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from metaflow_agents.kits.planning.faults import PDDLFault, before, listed
from metaflow_agents.kits.planning.model import AllOf, Atom, Condition, Domain, Holds, PlanAction, PlanningProblem, Same, shown
from metaflow_agents.kits.planning.reading import Form, read

MOST = 200_000
"""Ways to do an action that are looked at; past it nothing is told."""


def unreachable(domain: Domain, problem: PlanningProblem, text: str, file: str) -> list[PDDLFault]:
    """What keeps the goal out of reach, at the place of `text` where it is to be mended; empty where that is not known."""
    try:
        reached = _Relaxed(domain, problem).reached()
    except OverflowError:
        return []
    lost = [atom for atom in _atoms(problem.goal) if atom not in reached]
    if not lost:
        return []
    there = {atom[0] for atom in reached}
    never = {atom[0] for action in domain.actions.values() for atom in _atoms(action.precondition) if atom[0] not in there}
    sections = {form.head: form for form in read(text, file)[0].items if isinstance(form, Form)}
    initial, goal = sections[":init"], sections[":goal"]
    alone = [name for name in domain.predicates if name in never and not domain.predicates[name]]
    if alone and len(initial.items) > 1:
        first = initial.items[1]
        return [
            PDDLFault(
                file,
                first.line,
                first.column,
                f"found no `({name})` in `(:init`, and no action that can be done makes it "
                f"true, but actions need it; so the goal's {_told(lost)} can't be reached",
                before(f"({name})"),
            )
            for name in alone
        ]
    why = f": nothing ever is {listed(sorted(never))}, which actions need" if never else ""
    return [
        PDDLFault(
            file,
            goal.line,
            goal.column,
            f"found {_told(lost)} in the goal, which no order of actions can make true{why}",
            "say in `(:init` all that is true at first, and in the goal only what is asked for",
        )
    ]


def _told(atoms: list[Atom]) -> str:
    return listed(map(shown, atoms))


def _atoms(condition: Condition) -> Iterator[Atom]:
    """The atoms that have to hold, as far as `and` goes."""
    if isinstance(condition, Holds):
        yield condition.atom
    elif isinstance(condition, AllOf):
        for part in condition.parts:
            yield from _atoms(part)


def _equal(condition: Condition) -> Iterator[Same]:
    if isinstance(condition, Same):
        yield condition
    elif isinstance(condition, AllOf):
        for part in condition.parts:
            yield from _equal(part)


class _Relaxed:
    def __init__(self, domain: Domain, problem: PlanningProblem) -> None:
        self._domain, self._objects = domain, problem.objects
        self._true: dict[str, set[Atom]] = {}
        for atom in problem.initial:
            self._true.setdefault(atom[0], set()).add(atom)
        self._left = MOST

    def reached(self) -> set[Atom]:
        """All that can ever be true where nothing becomes false. Raises OverflowError where there is too much to look at."""
        grown = True
        while grown:
            made = {atom for action in self._domain.actions.values() for atom in self._made(action)}
            new = [atom for atom in made if atom not in self._true.get(atom[0], ())]
            grown = bool(new)
            for atom in new:
                self._true.setdefault(atom[0], set()).add(atom)
        return {atom for atoms in self._true.values() for atom in atoms}

    def _made(self, action: PlanAction) -> Iterator[Atom]:
        for effect in action.effects:
            if effect.becomes:
                needed = AllOf((action.precondition, effect.when))
                types, same = {**dict(action.parameters), **dict(effect.variables)}, list(_equal(needed))
                for binding in self._ways(list(_atoms(needed)), types, {}):
                    if all(binding.get(one.left, one.left) == binding.get(one.right, one.right) for one in same):
                        yield from self._completed(types, effect.atom, binding)

    def _ways(self, needs: list[Atom], types: Mapping[str, str], binding: dict[str, str]) -> Iterator[dict[str, str]]:
        """The choices of objects for which all needs can be true."""
        self._left -= 1
        if self._left < 0:
            raise OverflowError
        if not needs:
            yield binding
            return
        (name, *terms), *others = needs
        for atom in tuple(self._true.get(name, ())):
            bound = self._matched(terms, atom[1:], types, binding)
            if bound is not None:
                yield from self._ways(others, types, bound)

    def _matched(self, terms: list[str], objects: tuple[str, ...], types: Mapping[str, str],
                 binding: dict[str, str]) -> dict[str, str] | None:
        bound = dict(binding)
        for term, name in zip(terms, objects, strict=True):
            if not term.startswith("?"):
                fits = term == name
            elif term in bound:
                fits = bound[term] == name
            else:
                fits = self._domain.is_a(self._objects[name], types.get(term, "object"))
                bound[term] = name
            if not fits:
                return None
        return bound

    def _completed(self, types: Mapping[str, str], atom: Atom, binding: Mapping[str, str]) -> Iterator[Atom]:
        """The atom with every choice for the variables that its needs have left open."""
        open_ = next((term for term in atom[1:] if term.startswith("?") and term not in binding), None)
        self._left -= 1
        if self._left < 0:
            raise OverflowError
        if open_ is None:
            yield (atom[0], *(binding.get(term, term) for term in atom[1:]))
            return
        for name, type_ in self._objects.items():
            if self._domain.is_a(type_, types.get(open_, "object")):
                yield from self._completed(types, atom, {**binding, open_: name})
