"""What a template prints of the values that it names, and what it only walks over, counts or asks about."""

from __future__ import annotations

import pytest

from metaflow_agents.prompts.printed import printed_paths


@pytest.mark.parametrize(("template", "printed", "asked"), [
    ("{{ plan }}", {"plan"}, set()),
    ("{{ plan.title | upper }} {{ plan['goal'] }}", {"plan.title", "plan.goal"}, set()),
    ("{% for one in plan.changes %}{{ one.path }}{% endfor %}", {"plan.changes.path"}, set()),
    ("{% for one in plan.changes | sort(attribute='path') %}{{ one }}{% endfor %}", {"plan.changes"}, set()),
    ("{% for key, one in plan | items %}{{ one.path }}{% endfor %}", {"plan.path"}, set()),
    ("{% set all = plan.changes %}{{ all[0].path }}", {"plan.changes.path"}, set()),
    ("{{ plan.changes | length }}", set(), set()),
    ("{{ plan.changes | map(attribute='path') | join(', ') }}", {"plan.changes.path"}, set()),
    ("{{ plan.changes | selectattr('done') | tojson }}", {"plan.changes"}, set()),
    ("{% if plan.done and not plan.late %}x{% else %}{{ plan.why }}{% endif %}", {"plan.why"}, {"plan.done", "plan.late"}),
    ("{{ plan.why if plan.late else '' }}", {"plan.why"}, {"plan.late"}),
    ("{{ plan.state == 'late' }}", set(), {"plan.state"}),
    ("{{ plan.title ~ ': ' ~ owner }}", {"plan.title", "owner"}, set()),
    ("{{ by_owner[owner].what }}", {"by_owner.what", "owner"}, set()),
    ("{% for one in plan.changes if one.late %}{{ loop.index }}{% endfor %}", {"loop.index"}, {"plan.changes.late"}),
])
def test_what_is_printed(template: str, printed: set[str], asked: set[str]) -> None:
    found = printed_paths(template)
    assert found is not None
    assert ({".".join(path) for path in found.whole}, {".".join(path) for path in found.asked}) == (printed, asked)


@pytest.mark.parametrize(("template", "printed"), [
    ("{% include 'a' %}", {"plan.title"}),
    ("{% for plan in plans %}{% include 'a' %}{% endfor %}", {"plans.title"}),
    ("{% include 'b' %}{% include 'a' %}", {"plan.title", "plan.why"}),
    ("{% include 'self' %}", {"plan.goal"})])
def test_what_is_included_counts_in_its_place(template: str, printed: set[str]) -> None:
    found = printed_paths(template, (("a", "{{ plan.title }}"), ("b", "{% set plan = plan.why %}{{ plan }}"),
                                     ("self", "{{ plan.goal }}{% include 'none' %}"), ("none", "")))
    assert found is not None and {".".join(path) for path in found.whole} == printed


def test_a_circle_of_includes_ends() -> None:
    assert printed_paths("{% include 'a' %}", (("a", "{% include 'b' %}"), ("b", "{{ plan }}{% include 'a' %}"))) is None


@pytest.mark.parametrize("template", ["{{ a", "{% include 'a.md.j2' %}", "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(plan) }}"])
def test_where_it_can_not_be_told(template: str) -> None:
    assert printed_paths(template) is None
