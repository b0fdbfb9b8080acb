"""`inherits_memory:` on a `sop:` step: whether a SOP in a run is told what the run above remembers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, events, finished, write
from stopping import stopped_everywhere
from test_memory_shared import told

from metaflow_agents import check, run
from metaflow_agents.schema.event import Inner

INNER = """
    sop: inner
    inputs: {topic: string}
    roles: {writer: {profile: You write., memory: {window: 1 tokens, recall: {importance: 0, top: 50 RECALL}}}}
    artifacts: {noted: {}, known: {}}
    steps:
      note: {role: writer, needs: [topic], makes: noted, task: "Secret: inside."}
      tell: {role: writer, needs: [noted], show: {noted: none}, makes: known, task: What is kept?}
    outputs: [known]
"""
OUTER = """
    sop: outer
    inputs: {secret: string}
    roles:
      writer: {profile: You write. MEMORY}
      other: {profile: You look.}
    artifacts: {one: {}, seen: {}, beside: {}, known: {}}
    steps:
      begin: {role: writer, needs: [secret], makes: one, task: "Secret: {{ secret }}."}
      look: {role: other, needs: [one], makes: seen, task: "Secret: looks."}
      aside: {role: writer, needs: [secret], makes: beside, task: "Secret: aside."}
      enter: {sop: inner, inputs: {topic: "'x'"}, needs: [seen], makes: known INHERITS}
"""
RECALLS = ", memory: {window: 1 tokens, recall: {importance: 0, top: 50}}"


def outer(folder: Path, inherits: str = "", recall: str = "", *, memory: str = RECALLS, inner: str = INNER,
          text: str = OUTER) -> Path:
    said = f", inherits_memory: {inherits}" if inherits else ""
    return write(folder, text.replace(" INHERITS", said).replace(" MEMORY", memory), inner_yaml=inner.replace(" RECALL", recall))


def model() -> Scripted:
    return Scripted(begin="A", look="B", aside="C", note="D", tell=told)


async def known(path: Path, secret: str, **options: Any) -> str:
    result = await run(path, secret=secret, model=model(), workspace=path.parent, **options)
    assert result.ok, result.reason
    return str(result["known"])


@pytest.mark.parametrize(("inherits", "recall", "first", "second"), [
    ("", "", "inside", "aside figs inside"),
    ("true", "", "figs inside", "aside figs inside plums"),
    ("false", "", "inside", "inside"),
    ("", ", from: run", "inside", "inside"),
    ("true", ", from: run", "figs inside looks", "inside looks plums"),
    ("true", ", from: project", "figs inside looks", "aside figs inside looks plums"),
    ("false", ", from: project", "inside", "inside"),
])
async def test_a_sop_inherits_what_led_to_its_step_or_not_as_written(
        tmp_path: Path, inherits: str, recall: str, first: str, second: str) -> None:
    """What was done beside it in the run is no part of it; what the first run left is told to the second as ever."""
    path = outer(tmp_path, inherits, recall)
    assert [await known(path, "figs"), await known(path, "plums")] == [first, second]


async def test_what_a_sop_leaves_that_inherits_nothing_is_told_to_nobody(tmp_path: Path) -> None:
    await known(outer(tmp_path, "false"), "figs")
    assert "inside" not in (await known(outer(tmp_path, inner=INNER.replace("Secret: inside.", "Nothing.")), "plums")).split()


async def test_it_inherits_where_nobody_above_recalls_and_through_sops_in_sops(tmp_path: Path) -> None:
    assert await known(outer(tmp_path, "true", memory=""), "figs") == "figs inside"
    middle = """
        sop: middle
        inputs: {topic: string}
        artifacts: {known: {}}
        steps: {down: {sop: inner, inputs: {topic: topic}, needs: [topic], makes: known, inherits_memory: true}}
    """
    for through, wanted in (("true", "figs inside"), ("false", "inside")):
        folder = tmp_path / through
        folder.mkdir()
        write(folder, "", middle_yaml=middle)
        assert await known(outer(folder, through, text=OUTER.replace("sop: inner", "sop: middle")), "figs") == wanted


@pytest.mark.parametrize(("inherits", "kept"), [("true", True), ("false", False), ("", False)])
async def test_lessons_are_inherited(tmp_path: Path, inherits: str, kept: bool) -> None:
    inner = """
        sop: inner
        inputs: {topic: string}
        roles: {writer: {profile: You guess., memory: {lessons: 3}}}
        artifacts: {known: {}}
        steps: {guess: {role: writer, needs: [topic], makes: known, task: What do you know?}}
    """
    text = OUTER.replace('makes: one, task: "Secret: {{ secret }}."', 'makes: one, strategy: {reflexion: {evaluator: {assert: '
                         "\"answer == 'right'\"}, trials: 2}}")
    path = outer(tmp_path, inherits, memory=", memory: {lessons: 3}", inner=inner, text=text)
    tried = iter(["wrong", "Say right.", "right"])
    asked = Scripted(begin=lambda request: next(tried))
    assert (await run(path, secret="x", model=asked, workspace=tmp_path)).ok
    assert ("Say right." in asked.said("enter@1~0/guess@1~0/turn.0")) is kept


async def test_labels_are_inherited(tmp_path: Path) -> None:
    path = outer(tmp_path, "true", text=OUTER.replace("{secret: string}", "{secret: {type: string, trusted: false}}"))
    await known(path, "figs", name="it")
    inner = {one.event.activation: one.event.untrusted for one in events(tmp_path, "it", Inner) if one.event.kind == "finished"}
    assert inner["note@1~0"] == inner["tell@1~0"] == "the input secret", "both recall what was asked above"
    assert finished(tmp_path, "it")["enter@1~0"].untrusted == "the input secret"


async def test_an_edit_of_what_it_inherits_makes_it_run_anew(tmp_path: Path) -> None:
    """The input does not reach the SOP but by memory: `--from` sees it nevertheless."""
    for inherits, reused in (("true", False), ("false", True)):
        path = outer(tmp_path, inherits, text=OUTER.replace("Secret: {{ secret }}.", "Secret: figs.").replace(
            "needs: [secret], makes: one", "needs: [secret], show: {secret: none}, makes: one"))
        await known(path, "x", name=f"{inherits}1")
        path.write_text(path.read_text().replace("Secret: figs.", "Secret: pears."))
        await known(path, "x", name=f"{inherits}2", from_run=f"{inherits}1")
        entered = finished(tmp_path, f"{inherits}2")["enter@1~0"]
        assert (entered.reused_from is not None) is reused, entered.why


@pytest.mark.one_in(4)
async def test_stopped_at_every_call_it_inherits_the_same(tmp_path: Path) -> None:
    await stopped_everywhere(outer(tmp_path, "true"), model, tmp_path / "runs", secret="figs")


def test_it_is_told_where_there_is_nothing_to_inherit(tmp_path: Path) -> None:
    remembers = ", memory: {window: 1 tokens, recall: {importance: 0, top: 50 RECALL}}"
    path = outer(tmp_path, "true", inner=INNER.replace(remembers, ""))
    assert [one.code for one in check(path).errors] == ["memory-inherited"]
