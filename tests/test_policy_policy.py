"""Laws of the policy: a deny never allows more, a role never widens, deny wins in every order, every action gets an answer."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import examples

from metaflow_agents.policy.action import ACTING, VERBS, Action
from metaflow_agents.policy.policy import Policy
from metaflow_agents.schema.tools import PolicySpec

STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}
RULES = ("read(**)", "read(docs/**)", "read(docs/law.md)", "write", "write(src/**)", "write(src/a.py)", "run", "run(git *)",
         "run(git push *)", "run(env *)", "run(bash *)", "run(python -m pytest *)", "python", "fetch", "fetch(https://a.example)",
         "fetch(https://a.example/x/*)", "fetch(https://*.a.example)", "connect", "connect(a.example)", "mcp", "mcp(github)",
         "mcp(github.search_*)", "mcp(github.drop)", "api(shop.get*)", "api(shop.getA)", "call", "call(convert)",
         "ask_person", "start_role(critic)")
ACTIONS = tuple(Action(verb, target) for verb, targets in {
    "read": ("docs/a.md", "docs/law.md", "Docs/LAW.md", "src/a.py", ".git/config", ""),
    "write": ("src/a.py", "src/../docs/a.md", "/etc/passwd", "docs/a.md"),
    "fetch": ("https://a.example/x/y", "https://b.a.example/", "http://a.example/", "https://u@a.example/"),
    "connect": ("a.example:443", "b.example:22"), "mcp": ("github.search_a", "github.drop", "web.search_a"),
    "api": ("shop.getA", "shop.dropA"), "call": ("convert", "drop"), "start_role": ("critic", "boss"),
    "python": ("",), "ask_person": ("",)}.items() for target in targets)
COMMANDS = tuple(Action("run", " ".join(argv), argv) for argv in (
    ("git", "push"), ("git", "status"), ("env", "A=b", "git", "push"), ("bash", "-c", "git status; git push"),
    ("bash", "-c", "git status"), ("python", "-m", "pytest"), ("python", "-c", "0"), ("bash", "-c", "$(x)"), ("GIT", "push"),
    ("",)))

rules = st.lists(st.sampled_from(RULES), max_size=4)
presets = st.sampled_from(["read-only", "workspace", "danger-full-access"])
specs = st.builds(lambda preset, **lists: PolicySpec.model_validate({**({} if preset is None else {"preset": preset}), **lists}),
                  st.none() | presets, allow=rules, ask=rules, deny=rules)
known = st.sampled_from(ACTIONS + COMMANDS)
anything = st.builds(Action, st.sampled_from(VERBS), st.text(max_size=20), st.lists(st.text(max_size=8), max_size=4).map(tuple))
labels = st.sampled_from(["", "the input `docs`"])


def strict(sop: PolicySpec | None, role: PolicySpec | None, action: Action, untrusted: str = "") -> int:
    return STRICTNESS[Policy(sop, role, role_name="it").decide(action, untrusted=untrusted).verdict]


@given(specs, st.none() | specs, st.sampled_from(RULES), known, labels)
@settings(max_examples=examples(500))
def test_a_further_deny_never_allows_more(sop: PolicySpec, role: PolicySpec | None, rule: str, action: Action,
                                          label: str) -> None:
    more = sop.model_copy(update={"deny": (*sop.deny, rule)})
    assert strict(more, role, action, label) >= strict(sop, role, action, label)
    if role is not None:
        narrower = role.model_copy(update={"deny": (*role.deny, rule)})
        assert strict(sop, narrower, action, label) >= strict(sop, role, action, label)


@given(specs, specs, known | anything, labels)
@settings(max_examples=examples(500))
def test_a_role_never_widens(sop: PolicySpec, role: PolicySpec, action: Action, label: str) -> None:
    assert strict(sop, role, action, label) >= strict(sop, None, action, label)


@given(specs, specs, known, st.randoms(use_true_random=False))
@settings(max_examples=examples(300))
def test_the_order_of_rules_decides_nothing(sop: PolicySpec, role: PolicySpec, action: Action, random: Any) -> None:
    def shuffled(spec: PolicySpec) -> PolicySpec:
        return spec.model_copy(update={key: tuple(random.sample(getattr(spec, key), len(getattr(spec, key))))
                                       for key in ("allow", "ask", "deny")})
    assert strict(shuffled(sop), shuffled(role), action) == strict(sop, role, action)


@given(specs, known)
@settings(max_examples=examples(300))
def test_what_a_rule_denies_no_rule_allows(sop: PolicySpec, action: Action) -> None:
    for rule in sop.deny:
        alone = Policy(PolicySpec(preset="danger-full-access", deny=(rule,))).decide(action)
        if alone.verdict == "deny":
            assert strict(sop, PolicySpec(preset="danger-full-access", allow=RULES), action) == 2


@given(specs, st.none() | specs, anything | known, st.text(max_size=10))
@settings(max_examples=examples(500))
def test_every_action_gets_an_answer_and_always_the_same(sop: PolicySpec, role: PolicySpec | None, action: Action,
                                                         label: str) -> None:
    policy = Policy(sop, role, role_name="it")
    first = policy.explain(action, untrusted=label)
    assert first == policy.explain(action, untrusted=label) == Policy(sop, role, role_name="it").explain(action, untrusted=label)
    assert first.decision.rule.startswith(first.decision.verdict)


@given(specs, st.none() | specs, known)
@settings(max_examples=examples(300))
def test_what_was_read_from_outside_only_ever_turns_allow_into_ask(sop: PolicySpec, role: PolicySpec | None,
                                                                   action: Action) -> None:
    before, after = strict(sop, role, action), strict(sop, role, action, "fetched from https://a.example")
    assert after == (1 if before == 0 and action.verb in ACTING else before)


@given(specs, st.none() | specs, st.lists(specs, max_size=2), known)
@settings(max_examples=examples(500))
def test_only_a_look_up_that_every_sop_allows_by_its_name_is_not_asked_about(
        sop: PolicySpec, role: PolicySpec | None, above: list[PolicySpec], action: Action) -> None:
    policy = Policy(sop, role, role_name="it", above=above)
    trusted = policy.decide(action).verdict
    asked = policy.decide(action, untrusted="a page").verdict
    looked = policy.decide(action, untrusted="a page", lookup=True).verdict
    assert policy.decide(action, lookup=True).verdict == trusted
    if looked != asked:
        assert (trusted, asked, looked) == ("allow", "ask", "allow") and action.verb in ("mcp", "api", "call")
    named = all(str(action) in spec.allow for spec in (sop, *above))
    assert looked == (trusted if named else asked)


def test_a_sop_that_is_a_step_of_others_looks_up_what_each_of_them_names() -> None:
    named, wide = PolicySpec(allow=("api(shop.getA)",)), PolicySpec(allow=("api(shop.get*)",))
    for sop, above, verdict in ((named, [named, named], "allow"), (named, [named, wide], "ask"), (named, [wide, named], "ask"),
                                (wide, [named], "ask"), (wide, [wide], "ask")):
        policy = Policy(sop, None, above=above)
        assert policy.decide(Action("api", "shop.getA"), untrusted="a page", lookup=True).verdict == verdict
        assert policy.decide(Action("api", "shop.getA"), lookup=True).verdict == "allow"


@given(specs, st.none() | specs, known)
@settings(max_examples=examples(500))
def test_what_is_never_allowed_is_not(sop: PolicySpec, role: PolicySpec | None, action: Action) -> None:
    policy = Policy(sop, role)
    name = f"{action.target.partition('.')[0]}.*" if action.verb in ("mcp", "api") else ""
    if not policy.ever(action.verb, name):
        assert policy.decide(action).verdict == "deny"


def test_the_words_name_every_rule_that_matches() -> None:
    policy = Policy(PolicySpec(allow=("run(git *)",), ask=("run(git push *)",)), PolicySpec(deny=("run(git push --force *)",)),
                    role_name="writer")
    told = policy.explain(Action("run", "git push --force", ("git", "push", "--force")))
    assert told.decision.rule == "deny run(git push --force *) of the role writer"
    assert told.matching == ("ask run(git push *) of the SOP", "allow run(git *) of the SOP",
                             "allow run(**) of the SOP's preset workspace", "deny run(git push --force *) of the role writer")


def test_a_list_of_what_is_said_of_a_verb() -> None:
    policy = Policy(PolicySpec(deny=("run(git push *)",)), PolicySpec(allow=("run(python *)",)), role_name="writer")
    assert policy.rules_of("run") == (
        "deny run(git push *) of the SOP", "allow run(**) of the SOP's preset workspace",
        "allow run(python *) of the role writer",
        "deny: no rule of the role writer about `run` names it")
    assert policy.rules_of("connect") == ("deny: no rule of the SOP names it, nor does its preset workspace",)
