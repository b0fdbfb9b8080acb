"""Problems: objects, what is true at first, and the goal, read from PDDL and checked against their domain."""

from __future__ import annotations

from metaflow_agents.kits.planning.faults import LEAVE_OUT, PDDLFault, UnreadablePDDL, write
from metaflow_agents.kits.planning.model import AllOf, Atom, Condition, Domain, PlanningProblem
from metaflow_agents.kits.planning.reading import Form, Word, shown
from metaflow_agents.kits.planning.scanning import Scanner

SECTIONS = (":domain", ":requirements", ":objects", ":init", ":goal")


def read_problem(text: str, file: str, domain: Domain) -> tuple[PlanningProblem | None, list[PDDLFault]]:
    """The problem that a text is, and all that is wrong with it; None where its parentheses can't be followed."""
    scanner = Scanner(file)
    try:
        name, sections = scanner.definition(text, "problem", SECTIONS)
    except UnreadablePDDL as error:
        return None, [*scanner.faults, error.fault]
    forms = dict(sections)
    misspelt = {fault.line for fault in scanner.faults}
    for missing in (":domain", ":init", ":goal"):
        if missing not in forms and not misspelt:
            wanted = f"(:domain {domain.name})" if missing == ":domain" else f"({missing} …)"
            line, column = _last(text)
            scanner.faults.append(
                PDDLFault(
                    file,
                    line,
                    column,
                    f"found the end of the problem, which has no `({missing}`; expected `{wanted}`",
                    f"put `{wanted}` before it",
                )
            )
    if ":domain" in forms:
        _domain(scanner, forms[":domain"], domain)
    objects = dict(domain.constants)
    if ":objects" in forms:
        objects.update(scanner.typed(forms[":objects"].items[1:], domain, "object"))
    initial = _initial(scanner, forms[":init"], domain, objects) if ":init" in forms else frozenset()
    goal = _goal(scanner, forms[":goal"], domain, objects) if ":goal" in forms else AllOf(())
    return PlanningProblem(name, objects, initial, goal), sorted(scanner.faults, key=lambda fault: (fault.line, fault.column))


def _domain(scanner: Scanner, form: Form, domain: Domain) -> None:
    named = form.items[1] if len(form.items) == 2 else form
    if not isinstance(named, Word) or named.text != domain.name:
        scanner.say(named, f"found `{shown(named)}`; expected the domain's name, `{domain.name}`",
                    write(domain.name if isinstance(named, Word) else f"(:domain {domain.name})"))


def _initial(scanner: Scanner, form: Form, domain: Domain, objects: dict[str, str]) -> frozenset[Atom]:
    found: set[Atom] = set()
    for node in form.items[1:]:
        if isinstance(node, Form) and node.head == "not":
            scanner.say(node, f"found `{shown(node)}` in `(:init`; expected what is true alone: all else is false", LEAVE_OUT)
        elif isinstance(node, Form) and node.head == "and":
            scanner.say(node, f"found `{shown(node)}` in `(:init`; expected its facts one by one, without `and`",
                        "write its parts alone")
        elif isinstance(node, Form) and node.head == "=":
            scanner.say(node, f"found `{shown(node)}` in `(:init`: numbers are not understood here; expected a fact", LEAVE_OUT)
        elif isinstance(node, Form):
            atom = scanner.atom(node, domain, objects)
            found |= set() if atom is None else {atom}
    return frozenset(found)


def _goal(scanner: Scanner, form: Form, domain: Domain, objects: dict[str, str]) -> Condition:
    parts = form.items[1:]
    if len(parts) == 1:
        return scanner.condition(parts[0], domain, objects)
    inside = " ".join(shown(part) for part in parts)
    scanner.say(form, f"found {len(parts)} conditions in `(:goal`; expected one, `(:goal (and …))`",
                write(f"(:goal (and {inside}))") if parts else "say what has to be true at the end")
    return AllOf(())


def _last(text: str) -> tuple[int, int]:
    """Where the last parenthesis of a text stands."""
    at = text.rindex(")")
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
