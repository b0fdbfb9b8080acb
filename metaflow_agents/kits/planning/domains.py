"""Domains: types, constants, predicates and actions, read from PDDL with everything checked that can be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from metaflow_agents.kits.planning.faults import LEAVE_OUT, PDDLFault, UnreadablePDDL, before, instead, write
from metaflow_agents.kits.planning.model import ALWAYS, ROOT, AllOf, Condition, Domain, Effect, PlanAction, Typed
from metaflow_agents.kits.planning.reading import Form, Node, Word, shown
from metaflow_agents.kits.planning.scanning import Scanner

SECTIONS = (":requirements", ":types", ":constants", ":predicates", ":action")
REQUIREMENTS = (":strips", ":typing", ":negative-preconditions", ":disjunctive-preconditions", ":equality",
                ":existential-preconditions", ":universal-preconditions", ":quantified-preconditions", ":conditional-effects",
                ":adl")
"""What is understood here."""
_BEYOND = (":fluents", ":numeric-fluents", ":object-fluents", ":action-costs", ":durative-actions", ":duration-inequalities",
           ":continuous-effects", ":derived-predicates", ":timed-initial-literals", ":preferences", ":constraints", ":time",
           ":domain-axioms", ":hierarchy")
"""What PDDL has besides, and what is refused by name."""
_PARTS = (":parameters", ":precondition", ":effect")


def read_domain(text: str, file: str) -> tuple[Domain | None, list[PDDLFault]]:
    """The domain that a text is, and all that is wrong with it; None where its parentheses can't be followed."""
    scanner = _Scanner(file)
    try:
        name, sections = scanner.definition(text, "domain", SECTIONS)
    except UnreadablePDDL as error:
        return None, [*scanner.faults, error.fault]
    domain = Domain(name)
    for wanted, take in ((":requirements", _requirements), (":types", _types), (":constants", _constants),
                         (":predicates", _predicates), (":action", _action)):
        for head, form in sections:
            if head == wanted:
                domain = take(scanner, domain, form)
    if not domain.actions and not scanner.faults:
        scanner.faults.append(PDDLFault(file, 1, 1, "found no action in the domain; expected one at least",
                                    "write `(:action NAME :parameters (…) :precondition … :effect …)`"))
    return domain, sorted(scanner.faults, key=lambda fault: (fault.line, fault.column))


class _Scanner(Scanner):
    declares_predicates = True
    declares_objects = "(:constants"


def _requirements(scanner: Scanner, domain: Domain, form: Form) -> Domain:
    for node in form.items[1:]:
        if isinstance(node, Form) or node.text not in REQUIREMENTS:
            known = isinstance(node, Word) and node.text in _BEYOND
            told = "is not understood here" if known else "is no requirement"
            mend = instead("" if isinstance(node, Form) or known else node.text, REQUIREMENTS, "one of")
            scanner.say(node, f"found `{shown(node)}`, which {told}", f"{LEAVE_OUT}; {mend}" if known else mend)
    return domain


def _types(scanner: Scanner, domain: Domain, form: Form) -> Domain:
    """`a b - c`: c is above a and b; a type that only stands above others is one too."""
    found = {name: above for name, above in scanner.typed(form.items[1:], domain, "type", known=False) if name != ROOT}
    types = {**found, **{above: ROOT for above in found.values() if above not in found and above != ROOT}}
    for name in found:
        chain = [name]
        while (above := types.get(chain[-1], ROOT)) != ROOT and above not in chain:
            chain.append(above)
        if above != ROOT:
            scanner.say(_above(form, name), f"found `{above}` above `{name}`, which lies below itself so "
                        f"({' - '.join([*chain, above])}); expected a tree of types", write(ROOT))
            types[name] = ROOT
    return replace(domain, types=types)


def _above(form: Form, name: str) -> Node:
    """Where a list of types says what is above one of them."""
    words = [node.text if isinstance(node, Word) else "" for node in form.items]
    return form.items[words.index("-", words.index(name)) + 1]


def _constants(scanner: Scanner, domain: Domain, form: Form) -> Domain:
    return replace(domain, constants=dict(scanner.typed(form.items[1:], domain, "object")))


def _predicates(scanner: Scanner, domain: Domain, form: Form) -> Domain:
    found: dict[str, Typed] = {}
    for node in form.items[1:]:
        if not isinstance(node, Form) or not node.head:
            scanner.say(node, f"found `{shown(node)}`; expected a predicate like `(name ?x ?y)`", LEAVE_OUT)
        elif node.head in found:
            scanner.say(node, f"found the predicate `{node.head}` a second time; expected each once", LEAVE_OUT)
        else:
            found[node.head] = scanner.typed(node.items[1:], domain, "?variable")
    return replace(domain, predicates=found)


def _action(scanner: Scanner, domain: Domain, form: Form) -> Domain:
    name = form.items[1] if len(form.items) > 1 else form
    if not isinstance(name, Word) or name.text.startswith((":", "?")):
        scanner.say(name, f"found `{shown(name)}`; expected the action's name", before("NAME"))
        return domain
    if name.text in domain.actions:
        scanner.say(name, f"found the action `{name.written}` a second time; expected each once", "name it otherwise")
        return domain
    parts = _parts(scanner, form, name.text)
    given = parts.get(":parameters")
    parameters: Typed = ()
    if isinstance(given, Form):
        parameters = scanner.typed(given.items, domain, "?variable")
    elif given is not None:
        scanner.say(given, f"found `{shown(given)}`; expected parameters like `(?x ?y)`", write(f"({given.text})"))
    scope = {**domain.constants, **dict(parameters)}
    needs: Condition = ALWAYS
    if (precondition := parts.get(":precondition")) is not None:
        needs = scanner.condition(precondition, domain, scope)
    effects = _effects(scanner, parts[":effect"], domain, scope) if ":effect" in parts else []
    return replace(domain, actions={**domain.actions, name.text: PlanAction(name.text, parameters, needs, tuple(effects))})


def _parts(scanner: Scanner, form: Form, action: str) -> dict[str, Node]:
    """Key of an action → what stands after it."""
    found: dict[str, Node] = {}
    rest = list(form.items[2:])
    while rest:
        key = rest.pop(0)
        if isinstance(key, Form) or not key.text.startswith(":"):
            scanner.say(key, f"found `{shown(key)}` in `(:action {action}`; expected one of {', '.join(_PARTS)}", LEAVE_OUT)
        elif key.text not in _PARTS:
            scanner.say(key, f"found `{key.written}`, which is no part of an action", instead(key.text, _PARTS, "one of"))
            rest = rest[1:] if rest and isinstance(rest[0], Form) else rest
        elif not rest or (isinstance(rest[0], Word) and rest[0].text.startswith(":")):
            scanner.say(key, f"found nothing after `{key.written}`; expected what it is", f"{LEAVE_OUT}, or write `()` after it")
        elif key.text in found:
            scanner.say(key, f"found `{key.written}` a second time in `(:action {action}`; expected each once",
                        "put both into one `(and …)`")
            rest.pop(0)
        else:
            found[key.text] = rest.pop(0)
    if ":effect" not in found and not any(fault.line >= form.line for fault in scanner.faults):
        scanner.say(form, f"found no `:effect` in `(:action {action}`; expected one", "write what the action changes")
    return found


def _effects(scanner: Scanner, node: Node, domain: Domain, scope: Mapping[str, str], when: Condition = ALWAYS,
             variables: Typed = ()) -> list[Effect]:
    """The effects that a form has, each with the conditions around it."""
    if isinstance(node, Word):
        scanner.say(node, f"found `{node.written}`; expected an effect like `(name …)`", write(f"({node.text})"))
        return []
    parts = node.items[1:]
    if node.head == "and" or not node.items:
        return [effect for part in parts for effect in _effects(scanner, part, domain, scope, when, variables)]
    if node.head == "when" and len(parts) == 2:
        inner = scanner.condition(parts[0], domain, scope)
        return _effects(scanner, parts[1], domain, scope, AllOf((when, inner)), variables)
    if node.head == "forall" and len(parts) == 2 and isinstance(parts[0], Form):
        more = scanner.typed(parts[0].items, domain, "?variable")
        return _effects(scanner, parts[1], domain, {**scope, **dict(more)}, when, (*variables, *more))
    if node.head in ("when", "forall"):
        scanner.say(node, f"found {len(parts)} parts in `{shown(node)}`; `{node.head}` expected 2", "give it 2")
        return []
    if node.head in ("or", "imply", "exists", "="):
        scanner.say(node.items[0], f"found `{node.head}` in an effect; expected `and`, `not`, `when`, `forall` or a predicate",
                    write("and") if node.head == "or" else LEAVE_OUT)
        return []
    becomes = node.head != "not"
    told = node if becomes else (parts[0] if len(parts) == 1 else node)
    if not isinstance(told, Form) or (not becomes and len(parts) != 1):
        scanner.say(node, f"found `{shown(node)}`; expected `(not (name …))`", "write the one predicate that becomes false")
        return []
    atom = scanner.atom(told, domain, scope)
    return [] if atom is None else [Effect(atom, becomes, when, variables)]
