"""What reading domains and problems have in common: faults that are collected, names, typed lists, conditions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from metaflow_agents.errors import nearest
from metaflow_agents.kits.planning.faults import LEAVE_OUT, PDDLFault, UnreadablePDDL, before, instead, listed, write
from metaflow_agents.kits.planning.model import ROOT, AllOf, Atom, Condition, Domain, Holds, Not, OneOf, Quantified, Same, Typed
from metaflow_agents.kits.planning.reading import Form, Node, Word, read, shown

_NUMERIC = ("increase", "decrease", "assign", "scale-up", "scale-down", "<", ">", "<=", ">=", "+", "*", "/")
CONNECTIVES = ("and", "or", "not", "imply", "exists", "forall", "=")


class Scanner:
    """Goes through the forms of one file and collects what is wrong with them."""

    declares_predicates = False
    declares_objects = "(:objects"
    """What a name may be declared in where none is like it."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.faults: list[PDDLFault] = []
        self._undeclared: set[str] = set()

    def say(self, node: Node, told: str, mend: str) -> None:
        """A fault at a node."""
        self.faults.append(PDDLFault(self.file, node.line, node.column, told, mend))

    def stop(self, node: Node, told: str, mend: str) -> UnreadablePDDL:
        """A fault after which nothing can be understood any more."""
        return UnreadablePDDL(PDDLFault(self.file, node.line, node.column, told, mend))

    def definition(self, text: str, kind: str, sections: Sequence[str]) -> tuple[str, list[tuple[str, Form]]]:
        """The name that a `(define (KIND name) …)` gives, and its sections in order. Raises Unreadable."""
        forms = read(text, self.file)
        if not forms:
            raise UnreadablePDDL(
                PDDLFault(self.file, 1, 1, f"found nothing; expected `(define ({kind} …) …)`", f"write the {kind}")
            )
        whole, *more = forms
        if more:
            raise self.stop(more[0], f"found `{shown(more[0])}` after the end of `(define`; expected nothing", LEAVE_OUT)
        first = whole.items[0] if whole.items else whole
        header = whole.items[1] if len(whole.items) > 1 else None
        if whole.head != "define":
            raise self.stop(first, f"found `{shown(first)}`; expected `define`",
                            write("define") if isinstance(first, Word) else before("define"))
        if not isinstance(header, Form) or header.head.startswith(":"):
            wrong = header or whole
            raise self.stop(wrong, f"found `{shown(wrong)}`; expected `({kind} NAME)`", before(f"({kind} it)"))
        if header.head != kind:
            named = header.items[0] if header.items else header
            raise self.stop(named, f"found `{shown(named)}`; expected `{kind}`", write(kind))
        if len(header.items) != 2 or not isinstance(header.items[1], Word):
            raise self.stop(header, f"found `{shown(header)}`; expected one name, `({kind} NAME)`", write(f"({kind} it)"))
        return header.items[1].text, list(self._sections(whole.items[2:], sections))

    def _sections(self, nodes: Iterable[Node], known: Sequence[str]) -> Iterator[tuple[str, Form]]:
        seen: dict[str, Form] = {}
        for node in nodes:
            if not isinstance(node, Form) or not node.head:
                self.say(node, f"found `{shown(node)}`; expected a section", LEAVE_OUT)
            elif node.head not in known:
                self.say(node.items[0], f"found `{node.head}`, which is no section here", instead(node.head, known, "one of"))
            elif node.head in seen and node.head != ":action":
                at = seen[node.head]
                self.say(node, f"found a second `({node.head}`; the first is at {at.line}:{at.column}, and expected is one that "
                         "holds all", LEAVE_OUT)
            else:
                seen[node.head] = node
                yield node.head, node

    def typed(self, nodes: Sequence[Node], domain: Domain, kind: str, *, known: bool = True) -> Typed:
        """The names of a list such as `a b - block c`, each with its type. `kind`: `object`, `?variable`, `type`.
        `known`: types have to be.
        """
        found: list[tuple[str, str]] = []
        waiting: list[str] = []
        at = 0
        while at < len(nodes):
            node, at = nodes[at], at + 1
            if isinstance(node, Form):
                self.say(node, f"found `{shown(node)}` in a list of names; expected {_a(kind)}", LEAVE_OUT)
            elif node.text == "-":
                type_ = nodes[at] if at < len(nodes) else None
                at += 1
                if not waiting:
                    self.say(node, f"found `-` with no name before it; expected {_a(kind)}", LEAVE_OUT)
                elif type_ is None:
                    self.say(node, "found `-` with no type after it; expected a type", LEAVE_OUT)
                above = self._type(type_, domain, known=known)
                found += [(name, above) for name in waiting]
                waiting = []
            elif name := self._named(node, kind, [*(name for name, _ in found), *waiting]):
                waiting.append(name)
        return (*found, *((name, ROOT) for name in waiting))

    def _named(self, word: Word, kind: str, taken: Sequence[str]) -> str:
        """The name that a word is, or that it is once it is mended: one fault does not bring others. Empty: it goes."""
        variable = kind == "?variable"
        meant = f"?{word.text.lstrip(':?')}" if variable else word.text.lstrip("?:")
        if meant != word.text:
            self.say(word, f"found `{word.written}`; expected {_a(kind)}", write(meant))
        if meant in taken:
            self.say(word, f"found `{word.written}` a second time; expected each {kind.strip('?')} once", LEAVE_OUT)
            return ""
        return meant

    def _type(self, node: Node | None, domain: Domain, *, known: bool) -> str:
        if node is None:
            return ROOT
        if isinstance(node, Form):
            self.say(node, f"found `{shown(node)}`: a choice of types is not understood here; expected one type", write(ROOT))
            return ""
        if known and node.text != ROOT and node.text not in domain.types:
            self.say(node, f"found `{node.written}`, which is no type of the domain",
                     instead(node.text, [ROOT, *domain.types], "one of"))
            return ""
        return node.text

    def atom(self, form: Form, domain: Domain, scope: Mapping[str, str]) -> Atom | None:
        """A predicate over terms that exist and fit. `scope`: term → type. None, with faults, where it is not one."""
        name, *terms = form.items if form.head else (form,)
        if not form.head or not isinstance(name, Word):
            self.say(form, f"found `{shown(form)}`; expected a predicate and its arguments", LEAVE_OUT)
            return None
        if name.text in _NUMERIC:
            self.say(form, f"found `{shown(form)}`: numbers are not understood here; expected a predicate", LEAVE_OUT)
            return None
        if name.text not in domain.predicates:
            if name.text not in self._undeclared:
                self.say(name, f"found `{name.written}`, which is no predicate of the domain",
                         self._predicate(form, name, domain, scope))
            return None
        wanted = domain.predicates[name.text]
        if len(terms) != len(wanted):
            self._miscount(form, name.text, terms, wanted)
            return None
        fine = [self.term(term, scope, type_, domain) for term, (_, type_) in zip(terms, wanted, strict=True)]
        return None if not all(fine) else (name.text, *(term.text for term in terms if isinstance(term, Word)))

    def _predicate(self, form: Form, name: Word, domain: Domain, scope: Mapping[str, str]) -> str:
        """The mend for a predicate that does not exist: where none has a name like it, it may be declared."""
        choices = list(domain.predicates)
        if nearest(name.text, choices) is not None or not self.declares_predicates:
            return instead(name.text, choices, "one of")
        typed = [f"?x{number}{_typed(scope.get(term.text, ROOT))}" for number, term in enumerate(form.items[1:], 1)
                 if isinstance(term, Word)]
        self._undeclared.add(name.text)
        declared = f"({' '.join((name.text, *typed))})"
        return f"declare it in `(:predicates` as `{declared}`, or expected one of: {listed(choices)}"

    def _miscount(self, form: Form, name: str, terms: Sequence[Node], wanted: Typed) -> None:
        """Says so at the first argument too many, or else at the form."""
        names = " ".join(parameter for parameter, _ in wanted)
        form_of = f"({name} {names})" if names else f"({name})"
        counted = f"{len(terms)} argument{'' if len(terms) == 1 else 's'} of `{name}`"
        if len(terms) > len(wanted):
            self.say(terms[len(wanted)], f"found {counted} in `{shown(form)}`; expected {len(wanted)}: `{form_of}`", LEAVE_OUT)
        else:
            missing = ", ".join(f"`{one}` of type `{type_}`" for one, type_ in wanted[len(terms):])
            self.say(form, f"found {counted} in `{shown(form)}`; expected {len(wanted)}: `{form_of}`",
                     f"give {missing} too, after the others")

    def term(self, node: Node, scope: Mapping[str, str], wanted: str, domain: Domain) -> bool:
        """Whether a term exists and has the type that is wanted; where not, that is said."""
        if isinstance(node, Form):
            self.say(node, f"found `{shown(node)}` among the arguments; expected a name", LEAVE_OUT)
            return False
        kind = "variable" if node.text.startswith("?") else "object"
        if node.text not in scope:
            same = [name for name in scope if name.startswith("?") == (kind == "variable")] or list(scope)
            mend = instead(node.text, same, "one of")
            if kind == "object" and nearest(node.text, same) is None:
                mend = f"declare it in `{self.declares_objects}` as `{node.text}{_typed(wanted)}`, or {mend}"
                if node.text in self._undeclared:           # it was told at its first place
                    return False
                self._undeclared.add(node.text)
            self.say(node, f"found `{node.written}`, which is no {kind} here", mend)
            return False
        if not domain.is_a(scope[node.text], wanted):
            fitting = [name for name, type_ in scope.items() if domain.is_a(type_, wanted)]
            self.say(node, f"found `{node.written}` of type `{scope[node.text]}`; expected one of type `{wanted}`",
                     f"there is: {listed(fitting)}" if fitting else "there is none of that type")
            return False
        return True

    def condition(self, node: Node, domain: Domain, scope: Mapping[str, str]) -> Condition:
        """What a condition says; of what is wrong with it, which is told, it says nothing."""
        if isinstance(node, Word):
            self.say(node, f"found `{node.written}`; expected a condition like `(name …)`", write(f"({node.text})"))
            return AllOf(())
        parts = node.items[1:]
        match node.head:
            case "":
                if node.items:
                    self.say(node, f"found `{shown(node)}`; expected a condition like `(name …)`", before("and "))
                return AllOf(())
            case "and":
                return AllOf(tuple(self.condition(part, domain, scope) for part in parts))
            case "or":
                return OneOf(tuple(self.condition(part, domain, scope) for part in parts))
            case "not" | "imply" as head if len(parts) != (1 if head == "not" else 2):
                wanted = "1 condition" if head == "not" else "2 conditions"
                self.say(node, f"found {len(parts)} in `{shown(node)}`; `{head}` expected {wanted}", f"give it {wanted}")
            case "not":
                return Not(self.condition(parts[0], domain, scope))
            case "imply":
                return OneOf((Not(self.condition(parts[0], domain, scope)), self.condition(parts[1], domain, scope)))
            case "exists" | "forall" as head:
                return self._quantified(node, domain, scope, every=head == "forall")
            case "=":
                return self._same(node, domain, scope)
            case _:
                atom = self._fact(node, domain, scope)
                return AllOf(()) if atom is None else Holds(atom)
        return AllOf(())

    def _fact(self, node: Form, domain: Domain, scope: Mapping[str, str]) -> Atom | None:
        if node.head in ("when", "preference"):
            self.say(node, f"found `({node.head}` in a condition; expected a predicate, {listed(CONNECTIVES)}", LEAVE_OUT)
            return None
        return self.atom(node, domain, scope)

    def _quantified(self, node: Form, domain: Domain, scope: Mapping[str, str], *, every: bool) -> Condition:
        if len(node.items) != 3 or not isinstance(node.items[1], Form):
            self.say(node, f"found `{shown(node)}`; expected `({node.head} (?x - type) CONDITION)`", "write all of its parts")
            return AllOf(())
        variables = self.typed(node.items[1].items, domain, "?variable")
        return Quantified(every, variables, self.condition(node.items[2], domain, {**scope, **dict(variables)}))

    def _same(self, node: Form, domain: Domain, scope: Mapping[str, str]) -> Condition:
        terms = node.items[1:]
        if len(terms) != 2:
            self.say(node, f"found {len(terms)} terms in `{shown(node)}`; `=` expected 2", "give it 2")
        elif all([self.term(term, scope, ROOT, domain) for term in terms]):
            left, right = (term.text for term in terms if isinstance(term, Word))
            return Same(left, right)
        return AllOf(())


def _typed(type_: str) -> str:
    return "" if type_ == ROOT else f" - {type_}"


def _a(kind: str) -> str:
    return {"object": "an object's name", "?variable": "a variable, which begins with `?`"}.get(kind, f"a {kind}'s name")
