"""Rules as people write them: what is read, and what is told where nothing can be."""

from __future__ import annotations

from typing import get_args

import pytest

from metaflow_agents.policy.action import VERBS, Action, Verb
from metaflow_agents.policy.patterns import RuleWritten
from metaflow_agents.policy.presets import preset
from metaflow_agents.policy.rules import EXAMPLES, parse_rule, split
from metaflow_agents.policy.subjects import read
from metaflow_agents.schema.tools import PolicySpec


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_rule_for_all_of_it_and_an_example(verb: Verb) -> None:
    assert parse_rule(verb).everything and parse_rule(verb).text == verb
    assert parse_rule(EXAMPLES[verb]).verb == verb
    assert parse_rule(EXAMPLES[verb]).everything == (EXAMPLES[verb] == verb)


@pytest.mark.parametrize("text", ["run(**)", "run(*)", "fetch(**)", "mcp(*)", "api(**)", "call(*)", "start_role(**)", "read(**)",
                                  "write(**)", "connect(**)", " run ( ** ) "])
def test_two_stars_are_all_of_it(text: str) -> None:
    assert parse_rule(text).everything


def test_one_star_of_a_path_is_one_folder() -> None:
    rule = parse_rule("read(*)")
    assert not rule.everything
    assert rule.pattern.covers(read(Action("read", "a.txt")).subject)
    assert not rule.pattern.covers(read(Action("read", "a/b.txt")).subject)


@pytest.mark.parametrize(("text", "message", "mend"), [
    ("rnu(git push)", "there is no verb `rnu`", "did you mean `run`, as in `run(git push *)`?"),
    ("Bash(git push:*)", "there is no verb `Bash`", "did you mean `run`"),
    ("Read(src/**)", "there is no verb `Read`", "did you mean `read`"),
    ("WebFetch(domain:a.example)", "there is no verb `WebFetch`", "did you mean `fetch`"),
    ("edit(a)", "there is no verb `edit`", "did you mean `write`"),
    ("zzz", "there is no verb `zzz`", "there is: read, write, run"),
    ("run(git push", "`run(git push` is no rule", "a verb and a pattern"),
    ("git push", "`git push` is no rule", "run(git push *)"),
    ("", "`` is no rule", "write a verb"),
    ("run()", "the brackets of `run()` are empty", "write `run` for all of it"),
    ("python(**)", "`python` takes no pattern", "write `python`"),
    ("ask_person(anna)", "`ask_person` takes no pattern", "write `ask_person`"),
    ("python()", "the brackets of `python()` are empty", "write `python`"),
    ("write(/etc/**)", "is refused: it is absolute", "src/**"),
    ("write(src/)", "is refused: it ends in `/`: write `src/**` for all below it", "src/**"),
    ("read(../a)", "`..` would leave", "src/**"),
    ("write(src/[a)", "`[` is not closed", "src/**"),
    ("run(git 'push)", "a quote is not closed", "close it"),
    ("run('')", "`''` names no program", "git push *"),
    ("fetch(api.example.com)", "`api.example.com` is no URL", "`https://api.example.com`"),
    ("fetch(ftp://a.example)", "is no URL", "`https://a.example`"),
    ("fetch(https://a.example/?q=1)", "stands a query", "leave out"),
    ("fetch(https://a.example/)", "one page to some", "write `https://a.example`"),
    ("fetch(https://user@a.example)", "is refused", "write the host"),
    ("fetch(https://a.*.example)", "is refused", "write the host"),
    ("connect(https://pypi.org)", "is more than a host", "pypi.org:443"),
    ("connect(py pi.org)", "is refused", "write the host"),
])
def test_a_rule_that_can_not_be_read_says_what_to_write(text: str, message: str, mend: str) -> None:
    with pytest.raises(RuleWritten) as told:
        parse_rule(text)
    assert message in told.value.message
    assert mend in told.value.mend


def test_a_rule_about_git_may_be_written() -> None:
    assert parse_rule("write(.git/**)").text == "write(.git/**)"
    assert parse_rule("read(**/.git/config)").verb == "read"


def test_what_stands_in_the_brackets_may_hold_brackets() -> None:
    assert split("run(echo (a) b)") == ("run", "echo (a) b")
    assert split("write(app/(group)/page.tsx)") == ("write", "app/(group)/page.tsx")


@pytest.mark.parametrize(("one", "other", "expected"), [
    ("run(git push *)", "run(git *)", True), ("run(git *)", "run(git push *)", False), ("run(git push)", "run(git push *)", True),
    ("run(git push *)", "run(git push)", False), ("run(git)", "run", True), ("run(a ?)", "run(a *)", True),
    ("run(a b?)", "run(a bc)", False), ("write(src/a.py)", "write(src/**)", True), ("write(src/a/**)", "write(src/**)", True),
    ("write(src/**)", "write(src/a/**)", False), ("write(**)", "write(src/**)", False), ("write(a)", "read(a)", False),
    ("mcp(github.x)", "mcp(github)", True), ("mcp(github)", "mcp(github.*)", True), ("mcp(*.x)", "mcp(github.x)", False),
    ("fetch(https://a.example/x)", "fetch(https://a.example)", True),
    ("fetch(https://a.example)", "fetch(https://a.example/x)", False),
    ("connect(a.example:443)", "connect(a.example)", True), ("connect(a.example)", "connect(a.example:443)", False),
])
def test_a_rule_within_another(one: str, other: str, expected: bool) -> None:
    assert parse_rule(one).within(parse_rule(other)) is expected


def test_the_presets_are_those_of_the_language() -> None:
    names = get_args(PolicySpec.model_fields["preset"].annotation)
    assert set(names) == {"read-only", "workspace", "danger-full-access"}
    said = {name: {rule.verb: verdict for verdict, rules in (("allow", preset(name).allow), ("ask", preset(name).ask))
                   for rule in rules} for name in names}
    assert said["read-only"] == {"read": "allow", "ask_person": "allow"}
    assert said["workspace"] == {"read": "allow", "write": "allow", "run": "allow", "python": "allow", "call": "allow",
                                 "ask_person": "allow", "start_role": "allow", "mcp": "ask", "api": "ask", "fetch": "ask",
                                 "install": "ask"}
    assert set(said["danger-full-access"]) == set(VERBS) and set(said["danger-full-access"].values()) == {"allow"}
