"""The policy: what is said of an action, and by which rule. Pure, and total: every action gets an answer.

Two levels have their say, the SOP and the role, and the stricter one holds; so a role narrows and never widens. Where the SOP
is a step of others, theirs are levels above it. Inside a
level deny beats ask beats allow, whatever their order and however close they are; a rule beats the preset; what neither
names is denied. A role has a preset only if it writes one. Without one it says nothing of the verbs that it allows nothing
of, and of the others allows just what its rules name.

An action that reaches beyond the run's repository, by a role that has read what came from outside the user, is asked about
where it would be allowed. One exception: a look-up, which changes nothing (`effect: none`), and which the SOP allows by its
exact name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from metaflow_agents.policy import commands
from metaflow_agents.policy.action import Action, Decision, Verb
from metaflow_agents.policy.command_patterns import CommandPattern
from metaflow_agents.policy.package_patterns import PackagePattern, each
from metaflow_agents.policy.patterns import NamePattern, PathPattern
from metaflow_agents.policy.presets import preset
from metaflow_agents.policy.rules import PolicyRule, parse_rule
from metaflow_agents.policy.subjects import CommandSubject, PathSubject, QuestionSubject, RefusedSubject, read
from metaflow_agents.schema import acting_files
from metaflow_agents.schema.event import Verdict
from metaflow_agents.schema.tools import PolicySpec

_STRICTNESS: dict[Verdict, int] = {"allow": 0, "ask": 1, "deny": 2}


def _strictness(decision: Decision) -> int:
    return _STRICTNESS[decision.verdict]


@dataclass(frozen=True, slots=True)
class Explanation:
    """What would happen, and why: the decision, and all rules of both levels that match, in the order in which they win."""

    decision: Decision
    matching: tuple[str, ...] = ()


class Policy:
    """What a role may do. Raises RuleWritten for a rule that can't be read; `sop check` tells of it before."""

    def __init__(self, sop: PolicySpec | None, role: PolicySpec | None = None, *, role_name: str = "",
                 above: Sequence[PolicySpec | None] = ()) -> None:
        self._levels = [_Level(one or PolicySpec(), "the SOP that this one is a step of", bounds=True) for one in above]
        self._levels.append(_Level(sop or PolicySpec(), "the SOP", bounds=True))
        if role is not None:
            self._levels.append(_Level(role, f"the role {role_name}".strip(), bounds=False))

    def decide(self, action: Action, *, untrusted: str = "", lookup: bool = False) -> Decision:
        """The verdict about an action and its rule in words. `untrusted`: what whoever acts has read from outside the user
        and the step does not trust; empty: nothing. `lookup`: the SOP says that the action changes nothing (`effect: none`).
        """
        if action.verb == "install":
            return self._installing(action, untrusted, lookup)
        try:
            return self._decision(action, read(action), untrusted, lookup)
        except RefusedSubject as error:
            return Decision("deny", f"deny always: {error}")

    def _installing(self, action: Action, untrusted: str, lookup: bool) -> Decision:
        """The strictest verdict about any of the packages, and which of them have it."""
        if not action.target:
            return Decision("allow", "allow always: it names no package")
        found: list[tuple[str, Decision]] = []
        for one in each(action):
            try:
                found.append((one.target, self._decision(one, read(one), untrusted, lookup)))
            except RefusedSubject as error:
                found.append((one.target, Decision("deny", f"deny always: {error}")))
        verdict = max((decision for _, decision in found), key=_strictness).verdict
        rules: dict[str, list[str]] = {}
        for name, decision in found:
            if decision.verdict == verdict:
                rules.setdefault(decision.rule, []).append(f"`{name}`")
        told = "; ".join(f"{rule} ({', '.join(names)})" for rule, names in rules.items())
        return Decision(verdict, told if len(found) > 1 else found[0][1].rule)

    def explain(self, action: Action, *, untrusted: str = "", lookup: bool = False) -> Explanation:
        """The decision about an action (see `decide`), and every rule that has a say in it."""
        try:
            asked = [read(one) for one in each(action)] if action.target or action.verb != "install" else []
        except RefusedSubject as error:
            return Explanation(Decision("deny", f"deny always: {error}"))
        matching = (words for one in asked for level in self._levels for words in level.matching(action.verb, one))
        return Explanation(self.decide(action, untrusted=untrusted, lookup=lookup), tuple(dict.fromkeys(matching)))

    def answer(self, path: str, *, named: bool = False) -> Decision:
        """The verdict about a path that a role's answer writes or deletes. `named`: the SOP's author wrote this very path.

        As of a tool that writes it, but for a file that would act later and that no rule is about: an answer is refused, with the
        fix, where a tool asks.
        """
        try:
            decision = self._by_rules("write", read(Action("write", path)))
        except RefusedSubject as error:
            return Decision("deny", f"deny always: {error}")
        found = acting_files.find(path)
        if found is not None and decision.verdict != "deny":
            if found.row.verdict == "refused":
                return Decision("deny", f"deny always: {self.may_write(path)}")
            if decision.verdict == "allow" and not named and (why := self.may_write(path)):
                return Decision("deny", f"deny: {why}")
        return decision

    def says_of(self, verb: Verb) -> bool:
        """Whether a rule is about the verb, or a preset that is written denies or asks about it: else all of it is allowed as
        ever, and no decision about it is worth a record.
        """
        return any(rule.verb == verb for level in self._levels for rule in (*level.deny, *level.ask, *level.allow)) or any(
            level.preset is not None and not any(rule.verb == verb for rule in level.preset.allow) for level in self._levels)

    def may_write(self, path: str) -> str:
        """Why a role may not write a path without a person, with the fix: the file would act later. Empty where it may."""
        found = acting_files.find(path)
        if found is None or found.row.verdict == "reported":
            return ""
        why = f"{found.row.why} (`{found.name.removesuffix('/')}`)"
        if found.row.verdict == "refused":
            return f"{why}; no rule allows it: choose another name"
        subject = QuestionSubject(PathSubject(path))
        against = [one for level in self._levels if (one := level.decide("write", subject)) is not None
                   and one.verdict != "allow"]
        if against:
            return f"{why}; what would allow it is overruled: {max(against, key=_strictness).rule}"
        patterns = (rule.pattern for level in self._levels for rule in _covering(level.allow, "write", subject))
        if any(found.named_by(pattern.pattern) for pattern in patterns if isinstance(pattern, PathPattern)):
            return ""
        rule = f"write({path.partition('/')[0]}/**)" if found.name.endswith("/") and "/" in path else f"write({path})"
        return f"{why}; to allow it write `policy: {{allow: [\"{rule}\"]}}` in the SOP"

    def _by_rules(self, verb: Verb, asked: QuestionSubject) -> Decision:
        """What the levels say: the strictest; where all allow it the narrowest, which says more."""
        spoken = [one for level in self._levels if (one := level.decide(verb, asked)) is not None]
        decision = max(spoken, key=_strictness)                 # of equals the first, the SOP's
        return spoken[-1] if decision.verdict == "allow" else decision

    def _decision(self, action: Action, asked: QuestionSubject, untrusted: str, lookup: bool) -> Decision:
        decision = self._by_rules(action.verb, asked)
        if action.verb == "write" and decision.verdict != "deny" and isinstance(asked.subject, PathSubject):
            found = acting_files.find(asked.subject.path)
            if found is not None and found.row.verdict == "refused":
                return Decision("deny", f"deny always: {self.may_write(asked.subject.path)}")
            if decision.verdict == "allow" and (why := self.may_write(asked.subject.path)):
                return Decision("ask", f"ask: {why}")
        if decision.verdict == "allow":
            if untrusted and action.acting:
                named = self._named(action) if lookup else ""
                decision = Decision("allow", f"{named}: a look-up, by its name") if named else Decision(
                    "ask", f"ask: what it has read is not trusted here ({untrusted}); else {decision.rule}")
        return decision

    def _named(self, action: Action) -> str:
        """The rule of the SOP that allows the very action by its name, if each SOP around this one has such a rule as well; else
        empty. A role can't add one: who takes a role from a library does not thereby stop being asked.
        """
        found = [level.naming(action) for level in self._levels if level.bounds]
        return found[-1] if all(found) else ""

    def rules_of(self, verb: Verb) -> tuple[str, ...]:
        """All that is said about a verb, by level, in the order in which it wins; what holds where none matches stands last."""
        return tuple(words for level in self._levels for words in level.said_of(verb))

    def denied_programs(self) -> tuple[str, ...]:
        """Globs of the programs that some level denies whatever their arguments are. A rule about all commands is none."""
        patterns = (rule.pattern for level in self._levels for rule in level.deny)
        found = (pattern.program for pattern in patterns if isinstance(pattern, CommandPattern))
        return tuple(dict.fromkeys(one for one in found if one is not None))

    def ever(self, verb: Verb, name: str = "") -> bool:
        """Whether some action of the verb might be allowed or asked about; `name`: of `SERVER.TOOL` and the like, perhaps a glob.

        False is certain, True is not: two rules may leave nothing between them.
        """
        if name and "*" not in name:
            return self.decide(Action(verb, name)).verdict != "deny"
        return all(level.ever(verb, name.partition(".")[0] if name else "") for level in self._levels)


def widened(sop: PolicySpec | None, packages: Sequence[str]) -> PolicySpec | None:
    """The policy of a SOP, and `install` of the packages that the user allows for a run. What it denies stays denied."""
    if not packages:
        return sop
    spec = sop or PolicySpec()
    return spec.model_copy(update={"allow": (*spec.allow, *(f"install({name})" for name in packages))})


class _Level:
    """What is written in one place. `bounds`: what it does not name it denies."""

    def __init__(self, spec: PolicySpec, owner: str, *, bounds: bool) -> None:
        self.owner, self.bounds = owner, bounds
        self.deny, self.ask, self.allow = (_rules(written) for written in (spec.deny, spec.ask, spec.allow))
        named = bounds or "preset" in spec.model_fields_set
        self.preset_name = spec.preset if named else ""
        self.preset = preset(spec.preset) if named else None

    def decide(self, verb: Verb, asked: QuestionSubject) -> Decision | None:
        """What this level says; None where it says nothing of such actions."""
        for verdict, rules in (("deny", self.deny), ("ask", self.ask)):
            for rule in _touching(rules, verb, asked):
                return Decision("deny" if verdict == "deny" else "ask", self._words(verdict, rule, _why(rule, asked)))
        beneath = self.preset.allow if self.preset else ()
        for rule in _covering(self.allow, verb, asked):
            if (left := _left(verb, asked, (*self.allow, *beneath))) is not None:
                return Decision("deny", f"deny: {self._unnamed(verb)} allows {left}")
            return Decision("allow", self._words("allow", rule))
        if self.preset is None:
            if any(rule.verb == verb for rule in self.allow):
                return Decision("deny", f"deny: {self._unnamed(verb)} names it")
            return None
        for rule in _touching(self.preset.ask, verb, asked):
            return Decision("ask", self._preset_words("ask", rule))
        for rule in _covering(self.preset.allow, verb, asked):
            return Decision("allow", self._preset_words("allow", rule))
        return Decision("deny", f"deny: no rule of {self.owner} names it, nor does its preset {self.preset_name}")

    def naming(self, action: Action) -> str:
        """The words of a rule under `allow` that is the action's own name, without wildcards; empty where there is none."""
        return next((self._words("allow", rule) for rule in self.allow if rule.verb == action.verb
                     and isinstance(rule.pattern, NamePattern | PackagePattern) and rule.pattern.literal == action.target), "")

    def matching(self, verb: Verb, asked: QuestionSubject) -> Iterator[str]:
        """The words of all rules that match."""
        for verdict, rules in (("deny", self.deny), ("ask", self.ask)):
            yield from (self._words(verdict, rule, _why(rule, asked)) for rule in _touching(rules, verb, asked))
        yield from (self._words("allow", rule) for rule in _covering(self.allow, verb, asked))
        if self.preset is not None:
            yield from (self._preset_words("ask", rule) for rule in _touching(self.preset.ask, verb, asked))
            yield from (self._preset_words("allow", rule) for rule in _covering(self.preset.allow, verb, asked))

    def said_of(self, verb: Verb) -> Iterator[str]:
        """The words of all rules about a verb, and of what holds where none matches."""
        for verdict, rules in (("deny", self.deny), ("ask", self.ask), ("allow", self.allow)):
            yield from (self._words(verdict, rule) for rule in rules if rule.verb == verb)
        if self.preset is None:
            if any(rule.verb == verb for rule in self.allow):
                yield f"deny: {self._unnamed(verb)} names it"
            return
        found = [self._preset_words(verdict, rule) for verdict, rules in (("ask", self.preset.ask), ("allow", self.preset.allow))
                 for rule in rules if rule.verb == verb]
        yield from found or [f"deny: no rule of {self.owner} names it, nor does its preset {self.preset_name}"]

    def ever(self, verb: Verb, server: str) -> bool:
        """Whether something of the verb (of that server) is left that is not denied."""
        whole = parse_rule(f"{verb}({server}.*)" if server else verb)
        if any(whole.within(rule) for rule in self.deny):
            return False
        if self.preset is None:
            own = [rule for rule in (*self.allow, *self.ask) if rule.verb == verb]
            return not any(rule.verb == verb for rule in self.allow) or any(_may_meet(rule, server) for rule in own)
        rules = (*self.allow, *self.ask, *self.preset.allow, *self.preset.ask)
        return any(rule.verb == verb and _may_meet(rule, server) for rule in rules)

    def _words(self, verdict: str, rule: PolicyRule, why: str = "") -> str:
        return f"{verdict} {rule.text} of {self.owner}{why}"

    def _preset_words(self, verdict: str, rule: PolicyRule) -> str:
        return f"{verdict} {rule.text} of {self.owner}'s preset {self.preset_name}"

    def _unnamed(self, verb: Verb) -> str:
        if self.preset is not None:
            return f"no rule of {self.owner}, nor its preset {self.preset_name},"
        return f"no rule of {self.owner} about `{verb}`"


def _rules(written: Sequence[str]) -> tuple[PolicyRule, ...]:
    return tuple(parse_rule(text) for text in written)


def _touching(rules: Sequence[PolicyRule], verb: Verb, asked: QuestionSubject) -> Iterator[PolicyRule]:
    return (rule for rule in rules if rule.verb == verb and rule.pattern.touches(asked.subject))


def _covering(rules: Sequence[PolicyRule], verb: Verb, asked: QuestionSubject) -> Iterator[PolicyRule]:
    return (rule for rule in rules if rule.verb == verb and rule.pattern.covers(asked.subject))


def _left(verb: Verb, asked: QuestionSubject, rules: Sequence[PolicyRule]) -> str | None:
    """The first command that it starts and that no rule allows, or why they can't be known; None where all are allowed."""
    allowing = [rule for rule in rules if rule.verb == verb]
    if any(rule.everything for rule in allowing):
        return None
    if asked.unclear:
        return f"what can't be taken apart: {asked.unclear}"
    return next((f"its part `{commands.told(part.words)}`" for part in asked.parts
                 if not any(rule.pattern.covers(part) for rule in allowing)), None)


def _why(rule: PolicyRule, asked: QuestionSubject) -> str:
    """Behind a rule that may or may not mean it: why that is not known."""
    subject = asked.subject
    if not isinstance(subject, CommandSubject) or not subject.unclear or rule.everything:
        return ""
    known = CommandSubject(subject.words, subject.seen)
    return "" if rule.pattern.touches(known) else f": {subject.unclear} can't be taken apart"


def _may_meet(rule: PolicyRule, server: str) -> bool:
    """Whether a rule says something of a server's tools."""
    if not server or rule.everything:
        return True
    return isinstance(rule.pattern, NamePattern) and fnmatchcase(server, rule.pattern.parts[0])
