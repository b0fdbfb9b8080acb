"""`memory.summary`: what falls out of the window stands in prompts as one summary, which grows from firing to firing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, events, write
from stopping import stopped_everywhere

from metaflow_agents import check, run
from metaflow_agents.schema.event import Finished

CHAIN = """
    sop: chain
    inputs: {code: CODE}
    roles: {clerk: {profile: You keep things in mind., memory: {window: 1 turn, summary: true}}}
    artifacts: {one: {}, two: {}, three: {}, four: {}, five: {}}
    steps:
      first:  {role: clerk, needs: [code], makes: one, task: "Keep this: {{ code }}."}
      second: {role: clerk, needs: [one], makes: two, task: "Keep this: plum."}
      third:  {role: clerk, needs: [two], makes: three, task: "Keep this: pear."}
      fourth: {role: clerk, needs: [three], makes: four, task: "Keep this: fig."}
      recite: {role: clerk, needs: [four], makes: five, task: Recite what you keep.}
"""


def chain(folder: Path, code: str = "string", **changes: str) -> Path:
    text = CHAIN.replace("CODE", code)
    for old, new in changes.items():
        text = text.replace(old, new)
    return write(folder, text)


def clerk() -> Scripted:
    """Sums up by listing what is to be kept, and recites all that its prompt holds."""
    def said(request: Any) -> str:
        shown = request.messages[-1]["content"] if request.key.endswith("/summary") else \
            "\n".join(message["content"] for message in request.messages)
        found = dict.fromkeys(re.findall(r"(?:Keep this: |kept: )(\w+)", shown))
        return "\n".join(f"kept: {one}" for one in found)
    def kept(request: Any) -> str:
        return said(request) if "summary" in request.key else "I keep it"

    return Scripted(dict.fromkeys(("first", "second", "third", "fourth"), kept), recite=said)


async def test_what_fell_out_is_still_known(tmp_path: Path) -> None:
    model = clerk()
    assert (await run(chain(tmp_path), code="x4711", model=model, workspace=None))["five"].splitlines() == [
        "kept: x4711", "kept: plum", "kept: pear", "kept: fig"]
    without = await run(chain(tmp_path, **{", summary: true": ""}), code="x4711", model=clerk(), workspace=None)
    assert without["five"] == "kept: fig"
    assert model.keys == ["first@1~0/turn.0", "second@1~0/turn.0", "third@1~0/summary", "third@1~0/turn.0", "fourth@1~0/summary",
                          "fourth@1~0/turn.0", "recite@1~0/summary", "recite@1~0/turn.0"]


async def test_it_rolls_each_turn_is_summed_up_once(tmp_path: Path) -> None:
    model = clerk()
    await run(chain(tmp_path), code="x4711", model=model, workspace=None)
    for key, summed, so_far in (("third", "x4711", ""), ("fourth", "plum", "kept: x4711"), ("recite", "pear", "kept: plum")):
        told = model.last_said(f"{key}@1~0/summary")
        assert re.findall(r"Keep this: (\w+)", told) == [summed]
        assert ("<summary_so_far>" in told) == bool(so_far) and so_far in told
    told = model.said("recite@1~0/turn.0")
    assert told.index("in your own summary") < told.index("Keep this: fig") and "Keep this: pear" not in told


@pytest.mark.one_in(4)
async def test_stopped_at_every_call_it_sums_up_the_same(tmp_path: Path) -> None:
    whole = await stopped_everywhere(chain(tmp_path), clerk, tmp_path, code="x4711")
    assert "x4711" in whole.result["five"]


async def test_branches_that_come_together_lose_nothing(tmp_path: Path) -> None:
    """Two branches sum up apart; who reads both builds on one of them, and sums up what only the other one saw."""
    text = """
        sop: branches
        inputs: {code: string}
        roles: {clerk: {profile: You keep things in mind., memory: {window: 1 turn, summary: true}}}
        artifacts: {a: {}, b: {}, c: {}, d: {}, e: {}, f: {}, whole: {}}
        steps:
          a: {role: clerk, needs: [code], makes: a, task: "Keep this: {{ code }}."}
          b: {role: clerk, needs: [a], makes: b, task: "Keep this: plum."}
          c: {role: clerk, needs: [b], makes: c, task: "Keep this: pear."}
          d: {role: clerk, needs: [code], makes: d, task: "Keep this: fig."}
          e: {role: clerk, needs: [d], makes: e, task: "Keep this: nut."}
          f: {role: clerk, needs: [e], makes: f, task: "Keep this: date."}
          recite: {role: clerk, needs: [c, f], makes: whole, task: Recite what you keep.}
    """
    path = write(tmp_path, re.sub(r"\b([a-f]): \{role", r"step_\1: {role", text))
    said = clerk().answers["recite"]
    model = Scripted({f"step_{one}": lambda request: said(request) if "summary" in request.key else "yes" for one in "abcdef"},
                     recite=said)
    result = await run(path, code="x4711", model=model, workspace=None)
    assert set(result["whole"].split()) == {"kept:", "x4711", "plum", "pear", "fig", "nut", "date"}
    told = model.last_said("recite@1~0/summary")
    assert "<summary_so_far>" in told and 3 <= len(re.findall("Keep this", told)) < 5


async def test_untrusted_words_stay_untrusted_in_a_summary(tmp_path: Path) -> None:
    path = chain(tmp_path, "{type: string, trusted: false}",
                 **{"needs: [one]": "needs: [two_of]", "artifacts: {": "artifacts: {two_of: {}, "})
    text = path.read_text().replace("steps:", "steps:\n  clean: {value: \"'x'\", needs: [one], makes: two_of, trusts: [one]}")
    path.write_text(text)
    await run(path, code="x4711", model=clerk(), workspace=tmp_path, name="r")
    labels = {event.activation: event for event in events(tmp_path, "r", Finished)}
    (summary,) = labels["recite@1~0"].besides
    assert summary.kind == "summary" and summary.covers == 3 and "code" in summary.untrusted
    assert labels["recite@1~0"].untrusted


async def test_from_takes_over_where_what_fell_out_is_the_same(tmp_path: Path) -> None:
    path = chain(tmp_path)
    await run(path, code="x1", model=clerk(), workspace=tmp_path, name="a")
    same, other = clerk(), clerk()
    await run(path, code="x1", model=same, workspace=tmp_path, name="b", from_run="a")
    assert same.keys == []
    result = await run(path, code="x2", model=other, workspace=tmp_path, name="c", from_run="a")
    assert "recite@1~0/summary" in other.keys and "x2" in result["five"]


def test_bounds_count_a_summary_for_each_attempt(tmp_path: Path) -> None:
    with_it, without = check(chain(tmp_path)).bounds, check(chain(tmp_path, **{", summary: true": ""})).bounds
    assert with_it is not None and without is not None
    assert with_it.calls == (without.calls or 0) + 5 == 20
