"""`sop prompt`: what a step would send is what it sends in a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scripted import write

from metaflow_agents.cli import command
from metaflow_agents.journal.journal import Journal
from metaflow_agents.opening import journal_path
from metaflow_agents.schema.event import Reserved

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
    status, out, _ = sop(f"prompt {name} {step} --topic moss --json", capsys)
    shown = {one["key"]: one["messages"] for one in json.loads(out)}
    assert status == 0 and not (tmp_path / "workspace").exists(), "nothing is left behind"
    assert sop(f"run {name} --topic moss --model dry --name one", capsys)[0] == 0
    with Journal.read(journal_path(tmp_path / "workspace", "one")) as journal:
        sent = {event.key: json.loads(journal.blob(event.request))["messages"] for _, event in journal.events(Reserved)
                if event.key.startswith(step)}
    assert shown == sent != {}
    text = sop(f"prompt {name} {step} --topic moss", capsys)[1]
    assert all(f"===== {key} =====" in text and messages[-1]["content"] in text for key, messages in sent.items())


def test_what_is_given_stands_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (name,) = (path.name for path in tmp_path.glob("*.yaml"))
    out = sop(f'prompt {name} write_it --topic moss --given plan=["roots","spores"] --json', capsys)[1]
    assert [one["key"] for one in json.loads(out)] == ["write_it@1[roots]~0/turn.0", "write_it@1[spores]~0/turn.0"]
    assert sop(f"prompt {name} mourn --topic moss --given ok=false", capsys)[0] == 0


@pytest.mark.parametrize(("words", "told"), [
    ("plan_it", "book needs `--topic`"),
    ("plan --topic x", "there is no step `plan`: did you mean `plan_it`"),
    ("judge --topic x", "step `judge` sends no prompt: it has no `role`"),
    ("mourn --topic x", "step `mourn` sends nothing in this walk: `when: not ok` never held; `--given ARTIFACT=JSON`"),
    ("plan_it --topic x --given plan=[]", "sends nothing in this walk: `plan`, which it makes, is given"),
    ("plan_it --topic x --given plan", "write `--given ARTIFACT=JSON`"),
    ("plan_it --topic x --given plans=[]", "`plans` is no artifact of book: did you mean `plan`"),
    ("write_it --topic x --given plan=moss", "`--given plan=…` is no JSON"),
])
def test_mistakes_are_told(words: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (name,) = (path.name for path in tmp_path.glob("*.yaml"))
    status, _, err = sop(f"prompt {name} {words}", capsys)
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
    out = sop(f"prompt {name} plan_it", capsys)[1]
    assert "----- tool: read -----" in out and "not shown: convert, shop.*;" in out
