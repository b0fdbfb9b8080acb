"""`sop preview`: what a step would send is what it sends in a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scripted import write

from metaflow_agents.cli import command
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.places import journal_path
from metaflow_agents.schema.event import Reserved
from metaflow_agents.schema.keys import steps_in

BOOK = """
    sop: book
    inputs: {topic: string}
    roles: {ann: {profile: You plan.}, bob: {profile: You write.}}
    artifacts: {plan: {schema: [string]}, parts: {each: string}, ok: {schema: boolean}, note: {}}
    steps:
      plan_it: {role: ann, needs: [topic], makes: plan, task: "Plan a book on {{ topic }}."}
      write_it: {role: bob, needs: [plan], foreach: {in: plan, as: part}, makes: parts, task: "Write {{ part }}."}
      judge: {value: "true", needs: [parts], makes: ok}
      mourn: {role: bob, needs: [ok], when: not ok, makes: note}
    outputs: [parts]
"""


@pytest.fixture(autouse=True)
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, BOOK)


def sop(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    status = command(line.split())
    printed = capsys.readouterr()
    return status, printed.out, printed.err


@pytest.mark.parametrize("step", ["plan_it", "write_it"])
def test_it_is_what_a_run_sends(step: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (name,) = (path.name for path in tmp_path.glob("*.yaml"))
    status, out, _ = sop(f"preview {name} {step} --topic moss --json", capsys)
    shown = {one["key"]: one["messages"] for one in json.loads(out)}
    assert status == 0 and not (tmp_path / "workspace").exists(), "nothing is left behind"
    assert sop(f"run {name} --topic moss --model dry --name one", capsys)[0] == 0
    with Journal.read(journal_path(tmp_path / "workspace", "one")) as journal:
        sent = {event.key: json.loads(journal.blob(event.request))["messages"] for _, event in journal.events(Reserved)
                if event.key.startswith(step)}
    assert shown == sent != {}
    text = sop(f"preview {name} {step} --topic moss", capsys)[1]
    assert all(f"===== {key} =====" in text and messages[-1]["content"] in text for key, messages in sent.items())


def test_what_is_given_stands_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (name,) = (path.name for path in tmp_path.glob("*.yaml"))
    out = sop(f'prompt {name} write_it --topic moss --stub plan=["roots","spores"] --json', capsys)[1]
    assert [one["key"] for one in json.loads(out)] == ["write_it@1[roots]~0/turn.0", "write_it@1[spores]~0/turn.0"]
    assert sop(f"preview {name} mourn --topic moss --stub ok=false", capsys)[0] == 0


SHELF = """
    sop: shelf
    inputs: {topic: string}
    roles: {ann: {profile: You plan.}, eve: {profile: You look it over.}}
    artifacts: {plan: {schema: [string]}, books: {each: string}, last: {}}
    steps:
      plan_it: {role: ann, needs: [topic], makes: plan}
      write: {sop: part, needs: [plan], foreach: {in: plan, as: name}, inputs: {title: name}, makes: books}
      close: {sop: part, needs: [books], inputs: {title: "'The end'"}, makes: last}
"""
PART = """
    sop: part
    inputs: {title: string, tone: {type: string, default: dry}}
    roles: {bob: {profile: You write., tools: [read]}, eve: {profile: You judge.}}
    artifacts: {text: {}, verdict: {schema: {good: {type: boolean, default: true}}}, ready: {}}
    steps:
      draft: {role: bob, needs: [title, tone], makes: text, task: "Write {{ title }} in a {{ tone }} tone."}
      judge: {role: eve, needs: [text], makes: verdict}
      mend: {role: bob, needs: [verdict], sees: [text], when: not verdict.good, makes: text, rounds: 2}
      hand_in: {value: text, needs: [text, verdict], makes: ready}
    outputs: [ready]
"""


@pytest.fixture
def shelf(tmp_path: Path) -> str:
    return write(tmp_path, SHELF, part_yaml=PART).name


@pytest.mark.parametrize("step", ["write/draft", "write/judge", "close/draft"])
def test_a_step_in_a_sub_sop_is_shown_as_a_run_sends_it(step: str, shelf: str, tmp_path: Path,
                                                        capsys: pytest.CaptureFixture[str]) -> None:
    shown = {one["key"]: one for one in json.loads(sop(f"preview {shelf} {step} --topic moss --json", capsys)[1])}
    assert sop(f"run {shelf} --topic moss --model dry --name one", capsys)[0] == 0
    with Journal.read(journal_path(tmp_path / "workspace", "one")) as journal:
        sent = {event.key: json.loads(journal.blob(event.request))["messages"] for _, event in journal.events(Reserved)
                if "/".join(steps_in(event.key)) == step}
    assert {key: one["messages"] for key, one in shown.items()} == sent != {}
    artifacts = {part["artifact"] for one in shown.values() for part in one["parts"]} - {""}
    assert artifacts == ({"text"} if step.endswith("judge") else {"title", "tone"}), "what is shown in there has its costs"


@pytest.mark.one_in(4)
def test_what_the_parent_would_pass_stands_in_it(shelf: str, capsys: pytest.CaptureFixture[str]) -> None:
    def keys(step: str, *given: str) -> list[str]:
        plan = '--stub plan=["roots","spores"]'
        status, out, err = sop(f"preview {shelf} {step} --topic moss {plan} {' '.join(given)} --json", capsys)
        assert status == 0, err
        shown = {one["key"]: one["messages"][-1]["content"] for one in json.loads(out)}
        assert all(("roots" in text) == ("[roots]" in key) for key, text in shown.items() if key.endswith("draft@1~0/turn.0"))
        return [key.removesuffix("~0/turn.0") for key in shown]

    assert keys("write/draft") == ["write@1[roots]~0/draft@1", "write@1[spores]~0/draft@1"]
    assert keys("write[spores]/draft") == keys("write@1[spores]/draft@1") == ["write@1[spores]~0/draft@1"]
    assert keys("write[roots]/mend", '--stub write/verdict={"good":false}') == ["write@1[roots]~0/mend@1"]
    assert keys("write[roots]/mend@2", '--stub write/verdict={"good":false}') == ["write@1[roots]~0/mend@2"]
    assert keys("close/mend", '--stub close/verdict={"good":false}') == ["close@1~0/mend@1"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("words", "told"), [
    ("write", "step `write` sends no prompt: it is a SOP; of its own steps there is: write/draft, write/judge, write/mend"),
    ("write/darft", "there is no step `darft` in part: did you mean `draft`"),
    ("wrote/draft", "`wrote` is no step with `sop:` of shelf: did you mean `write`"),
    ("plan_it/draft", "`plan_it` is no step with `sop:` of shelf: "),
    ("write/draft/more", "`draft` is no step with `sop:` of part: it has none"),
    ("write/hand_in", "step `hand_in` sends no prompt: it has no `role`"),
    ("write/mend", "step `write/mend` is not reached in this dry run: part does not come to it: `when: not verdict.good` "
                   "never held; `--stub write/ARTIFACT=JSON`"),
    ("write[x]/draft --stub plan=[\"roots\"]",
     "`write[x]/draft` is not reached in this dry run: did you mean `write[roots]/draft`"),
    ("plan_it[x]", "step `plan_it` has no items: leave out `[x]`"),
    ("write/draft[x]", "step `draft` has no items: leave out `[x]`"),
    ("plan_it@2", "`plan_it@2` is not reached in this dry run: did you mean `plan_it@1`? there is: plan_it@1"),
    ("write/draft@0", "`write/draft@0` names no firing: write like `STEP`"),
    ("write/draft --stub write/txt=1", "`txt` is no artifact of part: did you mean `text`"),
    ("write/draft --stub wrote/text=1", "`wrote` is no step with `sop:` of shelf"),
    ("write/draft --stub write/text=\"a\"", "`write/text`, which `draft` makes, is given"),
    ("write/draft --stub write[a]/text=1", "`write[a]` is no step with `sop:` of shelf"),
    ("write/mend --stub write/verdict={\"good\":1}", "not reached in this dry run: write@1[plan_it]~0/judge@1~0: "),
    ("close/draft --stub last=\"a\"", "`last`, which `close` makes, is given"),
])
def test_mistakes_about_steps_inside_are_told(words: str, told: str, shelf: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = sop(f"preview {shelf} {words} --topic x", capsys)
    assert status == 2 and told in err and err.count("\n") == 1 and not out, (status, err)


def test_tools_of_a_role_inside_are_those_of_its_sop(shelf: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "----- tool: read -----" in sop(f"preview {shelf} write/draft --topic x", capsys)[1]


@pytest.mark.parametrize(("words", "told"), [
    ("plan_it", "missing required option of book: `--topic`"),
    ("plan --topic x", "there is no step `plan`: did you mean `plan_it`"),
    ("judge --topic x", "step `judge` sends no prompt: it has no `role`"),
    ("mourn --topic x", "step `mourn` is not reached in this dry run: `when: not ok` never held; `--stub ARTIFACT=JSON`"),
    ("plan_it --topic x --stub plan=[]", "is not reached in this dry run: `plan`, which it makes, is given"),
    ("plan_it --topic x --stub plan", "write `--stub ARTIFACT=JSON`"),
    ("plan_it --topic x --stub plans=[]", "`plans` is no artifact of book: did you mean `plan`"),
    ("write_it --topic x --stub plan=moss", "`--stub plan=…` is no JSON"),
])
def test_mistakes_are_told(words: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (name,) = (path.name for path in tmp_path.glob("*.yaml"))
    status, _, err = sop(f"preview {name} {words}", capsys)
    assert status == 2 and told in err and err.count("\n") == 1


def test_tools_that_are_known_in_a_run_alone_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = write(tmp_path, """
        sop: desk
        tools: {convert: {python: "units:convert"}}
        mcpServers: {shop: {command: shop-mcp}}
        roles: {ann: {profile: You plan., tools: [read, convert, shop.*]}}
        artifacts: {plan: {}}
        steps: {plan_it: {role: ann, makes: plan}}
    """)
    (tmp_path / "units.py").write_text("def convert(value: float) -> float: raise SystemExit\n")
    out = sop(f"preview {name} plan_it", capsys)[1]
    assert "----- tool: read -----" in out and "not shown: convert, shop.*;" in out
