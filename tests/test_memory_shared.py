"""`memory_of:` on a step: one memory for each name, over all roles that give it, in a run and beyond it."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import Scripted, finished, write

from metaflow_agents import check, run
from metaflow_agents.memory.store import PLACE, MemoryDatabase

DESK = """
    sop: service
    inputs: {letters: [{id: string, customer: string, secret: string}], customers: [string]}
    roles:
      clerk: {profile: You take letters., watches: [letters_taken] MEMORY}
      technician: {profile: You mend things. MEMORY}
    artifacts: {letters_taken: {each: string}, replies: {each: string}}
    steps:
      take:
        {role: clerk, needs: [letters], foreach: {in: letters, as: letter, key: letter.id}, makes: letters_taken,
         memory_of: "customer {{ letter.customer }}", task: "Secret: {{ letter.secret }}."}
      mend:
        {role: technician, needs: [letters_taken, customers], show: {letters_taken: none, customers: none},
         foreach: {in: customers, as: customer}, makes: replies, memory_of: "customer {{ customer }}", task: What is kept?}
"""
UNTRUSTED = DESK.replace("letters: [{id: string, customer: string, secret: string}]",
                         "letters: {type: [{id: string, customer: string, secret: string}], trusted: false}")
RECALLS = ", memory: {window: 1 tokens, recall: {top: 100, importance: 0, relevance: 0}}"
LETTERS = [{"id": "1", "customer": "Ada", "secret": "figs"}, {"id": "2", "customer": "Bob", "secret": "plums"},
           {"id": "3", "customer": "Ada", "secret": "pears"}]


def desk(folder: Path, memory: str = "", without: str = "\0") -> Path:
    return write(folder, DESK.replace(" MEMORY", memory).replace(without, ""))


def told(request: Any) -> str:
    """The secrets that a prompt holds."""
    said = "\n".join(str(message["content"]) for message in request.messages)
    return " ".join(sorted(set(re.findall(r"Secret: (\w+)", said))))


def serving() -> Scripted:
    return Scripted(take="It is kept.", mend=told)


async def test_roles_that_name_one_memory_share_it_and_nobody_else_does(tmp_path: Path) -> None:
    result = await run(desk(tmp_path), letters=LETTERS, customers=["Ada", "Bob", "Cy"], model=serving(), workspace=tmp_path)
    assert dict(result["replies"]) == {"Ada": "figs pears", "Bob": "plums", "Cy": ""}
    entries = {key: event.memory for key, event in finished(tmp_path, "service-1").items()}
    kept = entries["mend@1[Ada]~0"]
    assert kept is not None and (kept.role, kept.whose) == ("technician", "[customer Ada]")
    alone = await run(desk(tmp_path, without=', memory_of: "customer {{ customer }}"'), letters=LETTERS, customers=["Ada"],
                      model=serving(), workspace=tmp_path)
    assert dict(alone["replies"]) == {"Ada": ""}, "without `memory_of` the technician has but its own"


async def test_it_outlives_the_run(tmp_path: Path) -> None:
    path = desk(tmp_path, RECALLS)
    await run(path, letters=LETTERS, customers=[], model=serving(), workspace=tmp_path)
    later = await run(path, letters=[], customers=["Ada", "Bob"], model=serving(), workspace=tmp_path)
    assert dict(later["replies"]) == {"Ada": "figs pears", "Bob": "plums"}
    with closing(MemoryDatabase(tmp_path / PLACE)) as store:
        assert {one.role for one in store.listed()} == {"[customer Ada]", "[customer Bob]"}


async def test_a_letter_from_outside_stays_untrusted_for_the_other_role(tmp_path: Path) -> None:
    path = write(tmp_path, UNTRUSTED.replace(" MEMORY", RECALLS))
    await run(path, letters=LETTERS, customers=[], model=serving(), workspace=tmp_path)
    await run(path, letters=[], customers=["Ada"], model=serving(), workspace=tmp_path, name="later")
    entry = finished(tmp_path, "later")["mend@1[Ada]~0"].memory
    assert entry is not None and "letters" in entry.untrusted


async def test_a_name_that_is_none_or_too_long_fails_the_attempt(tmp_path: Path) -> None:
    for customer, wrong in ((" ", "no name"), ("x" * 300, "a name of 300 characters; it has 200 at most")):
        path = write(tmp_path, DESK.replace(" MEMORY", "").replace("customer {{ customer }}", "{{ customer }}"))
        result = await run(path, letters=[], customers=[customer], model=serving(), workspace=None)
        assert not result.ok and f"`memory_of: {{{{ customer }}}}` gave {wrong}" in (result.reason or "")


async def test_each_role_has_its_own_window_over_a_memory_that_they_share(tmp_path: Path) -> None:
    path = write(tmp_path, DESK.replace(" MEMORY", "", 1).replace(" MEMORY", ", memory: {window: 1 turn}"))
    result = await run(path, letters=LETTERS, customers=["Ada"], model=serving(), workspace=None)
    assert result["replies"]["Ada"] == "pears"


def test_insights_of_one_role_count_as_read_where_another_recalls_the_same_memory(tmp_path: Path) -> None:
    reflects = DESK.replace(" MEMORY", ", memory: {reflect: {after: 20}}", 1).replace(" MEMORY", ", memory: {recall: {}}")
    assert "reflections-unread" not in {one.code for one in check(write(tmp_path, reflects)).problems}
    apart = reflects.replace('memory_of: "customer {{ customer }}", ', "")
    assert "reflections-unread" in {one.code for one in check(write(tmp_path, apart)).problems}


CUSTOMERS = st.lists(st.text(min_size=1, max_size=6).filter(str.strip), min_size=1, max_size=4,
                     unique_by=lambda name: " ".join(name.split()))


@pytest.mark.one_in(8)
@given(customers=CUSTOMERS, letters=st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=6))
async def test_random_customers_are_told_their_own_and_nothing_else(customers: list[str],
                                                                    letters: list[tuple[int, bool]]) -> None:
    """Of two runs, by two roles: every customer's own letters, all of them, and nobody else's."""
    written = [({"id": str(place), "customer": customers[whose % len(customers)], "secret": f"secret{place}"}, late)
               for place, (whose, late) in enumerate(letters)]
    with TemporaryDirectory() as place:
        folder = Path(place)
        path = desk(folder, RECALLS)
        for late in (False, True):
            result = await run(path, letters=[one for one, when in written if when is late], customers=customers, model=serving(),
                               workspace=folder)
            assert result.ok, result.reason
        assert {name: set(reply.split()) for name, reply in result["replies"].items()} == {
            name: {one["secret"] for one, _ in written if one["customer"] == name} for name in customers}


async def test_two_roles_in_one_firing_have_each_its_own_window(tmp_path: Path) -> None:
    """Where it is worked out at run time who works: each has the window, and the parts, of its own role."""
    text = """
        sop: relay
        inputs: {topic: string}
        roles:
          short: {profile: S., memory: {window: 1 turn}}
          long: {profile: L.}
        artifacts: {one: {}, two: {}, ends: {each: string}}
        steps:
          first: {role: short, needs: [topic], makes: one, memory_of: it, task: "Secret: figs."}
          second: {role: long, needs: [one], makes: two, memory_of: it, task: "Secret: plums."}
          end:
            {role: item.who, needs: [two], foreach: {in: "[{'who': 'short'}, {'who': 'long'}]", key: item.who}, makes: ends,
             memory_of: it, task: What is kept?}
    """
    result = await run(write(tmp_path, text), topic="x", model=Scripted(first="A", second="B", end=told), workspace=tmp_path)
    assert dict(result["ends"]) == {"short": "plums", "long": "figs plums"}
    parts = {key: event.parts["memory"] for key, event in finished(tmp_path, "relay-1").items() if key.startswith("end")}
    assert len(set(parts.values())) == 2


async def test_what_a_role_watches_is_no_part_of_what_it_shares(tmp_path: Path) -> None:
    text = """
        sop: watched
        inputs: {topic: string}
        roles: {one: {profile: You write., watches: [news]}, two: {profile: You look.}}
        artifacts: {news: {}, own: {}, shared: {}}
        steps:
          look: {role: two, needs: [topic], makes: news, task: Look.}
          alone: {role: one, needs: [news], show: {news: none}, makes: own, task: What is kept?}
          share: {role: one, needs: [news], show: {news: none}, makes: shared, memory_of: it, task: What is kept?}
    """
    model = Scripted(look="Secret: figs", alone=told, share=told)
    result = await run(write(tmp_path, text), topic="x", model=model, workspace=None)
    assert (result["own"], result["shared"]) == ("figs", "")
