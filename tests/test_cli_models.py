"""What the command line says of models: none configured, which one each role has, a recording written and replayed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from scripted import write

from metaflow_agents.cli import command
from metaflow_agents.models import ways
from metaflow_agents.settings import Settings
from metaflow_agents.sop import library

SOP = """
    sop: desk
    models: {strong: 'python:mine.py:strongly'}
    roles: {ann: {profile: You write.}, bob: {profile: You judge., model: strong}, cat: {profile: You bind.}}
    artifacts: {one: {}, two: {}, three: {}, four: {}}
    steps:
      first:  {role: ann, makes: one}
      second: {role: bob, needs: [one], makes: two}
      third:  {role: cat, needs: [two], makes: three}
      fourth: {role: ann, needs: [three], makes: four, model: strong}
"""
MINE = "def answer(r):\n    return 'mine'\ndef strongly(r):\n    return 'strongly'\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, SOP, mine_py=MINE)
    return tmp_path


def sop(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    status = command(line.split())
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_no_model_is_one_message_with_the_ways_to_get_one(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = sop("run desk.yaml", capsys)
    assert (status, out) == (5, "") and not (here / "workspace").exists()
    for way in ("export OPENAI_API_KEY=…, then --model openai:NAME", "export OPENAI_BASE_URL=http://localhost:11434/v1", "Ollama",
                "vLLM", "--model manual", "--model dry", "--model python:FILE.py:function", "SOP_MODEL=openai:NAME",
                "`models: {default: …}`"):
        assert way in err, way
    assert "--demo" not in err and "Traceback" not in err and max(map(len, err.splitlines())) < 150


@pytest.mark.parametrize(("variables", "first"), [
    ({"OPENAI_API_KEY": "sk-x"}, "OPENAI_API_KEY is set, but no model is named: add `--model openai:NAME`"),
    ({"OPENAI_BASE_URL": "http://x/v1"}, "OPENAI_BASE_URL is set, but no model is named"),
    ({"OPENAI_API_KEY": "sk-x", "OPENAI_BASE_URL": "http://x/v1"}, "OPENAI_API_KEY and OPENAI_BASE_URL are set, but no model"),
])
def test_where_only_the_name_is_missing_that_is_said(variables: dict[str, str], first: str, capsys: pytest.CaptureFixture[str],
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    status, _, err = sop("run desk.yaml", capsys)
    assert status == 5 and err.startswith(f"sop: {first}") and "sk-x" not in err and "export" not in err


def test_a_recording_that_ships_is_one_of_the_ways(monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                                                   capsys: pytest.CaptureFixture[str]) -> None:
    assert "--demo" in ways.none_configured(Settings(), demo=True)
    monkeypatch.setattr(library, "_recordings", lambda: tmp_path)
    assert library.shipped_recording("desk") is None
    (tmp_path / "desk.jsonl").write_text("{}")
    assert library.shipped_recording("desk") == tmp_path / "desk.jsonl"
    assert "--demo" in sop("run desk.yaml", capsys)[2]


def test_the_start_says_which_model_each_role_has(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = sop("run desk.yaml --name one --model default=python:mine.py:answer", capsys)
    assert status == 0
    lines = [re.sub(r"^\d\d:\d\d:\d\d  ", "", line) for line in out.splitlines()]
    assert lines[:2] == ["ann, cat: python:mine.py:answer", "bob, ann in fourth: python:mine.py:strongly"]
    assert lines[2].startswith("one: begins desk.yaml with ")
    shown = sop("show one", capsys)[1]
    assert "  models   ann, cat: python:mine.py:answer\n           bob, ann in fourth: python:mine.py:strongly\n" in shown
    roles = json.loads(sop("show one --json", capsys)[1])["roles"]
    assert roles == {"ann": "python:mine.py:answer", "bob": "python:mine.py:strongly", "cat": "python:mine.py:answer",
                     "ann in fourth": "python:mine.py:strongly"}


@pytest.mark.one_in(4)
def test_a_model_for_a_role_is_its_own_and_stays_its_own_after_a_resume(
        here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It goes before the default, and after what the step or the role names. `fourth` names its own."""
    (here / "mine.py").write_text(f"{MINE}def anns(r):\n    return 'by ann'\n", encoding="utf-8")
    models = "--model default=python:mine.py:answer --model ann=python:mine.py:anns"
    status, out, _ = sop(f"run desk.yaml --name it --until second {models}", capsys)
    assert status == 0 and "ann: python:mine.py:anns" in out and "cat: python:mine.py:answer" in out, out
    assert sop("resume it", capsys)[0] == 0
    assert [sop(f"show it {name}", capsys)[1].strip() for name in ("one", "two", "three", "four")] == [
        "by ann", "strongly", "mine", "strongly"]
    shown = json.loads(sop("show it --json", capsys)[1])
    assert shown["roles"]["ann"] == "python:mine.py:anns" and shown["roles"]["ann in fourth"] == "python:mine.py:strongly"


@pytest.mark.parametrize(("line", "said"), [
    ("--model default=dry --model bob=dry", "the role `bob` asks the model `strong`: write `--model strong=…`"),
    ("--model default=dry --model cut=dry", "no step and no role asks for a model `cut`: did you mean `cat`?"),
    ("--model ann=dry", "no model is configured")])
def test_a_model_for_a_role_that_does_not_ask_for_it(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = sop(f"run desk.yaml {line}", capsys)
    assert status in (2, 5) and said in err, err


def test_no_default_is_wanted_where_every_role_has_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert sop("run desk.yaml --model ann=python:mine.py:answer --model cat=dry", capsys)[0] == 0


def test_a_model_for_a_role_of_a_sub_sop_is_its_own_and_stays_its_own_after_a_resume(
        here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So does one for a name that only the sub-SOP knows."""
    write(here, SOP, outer_yaml="""
        sop: outer
        artifacts: {got: {}, all: {}}
        steps:
          inside: {sop: desk, output: four, makes: got}
          last: {call: "mine:bound", needs: [got], makes: all}
    """, mine_py=f"{MINE}def anns(r):\n    return 'by ann'\ndef bound(got):\n    return got\n")
    models = "--model default=python:mine.py:answer --model ann=python:mine.py:anns --model strong=python:mine.py:anns"
    assert sop(f"run outer.yaml --name it --budget calls=2 {models}", capsys)[0] == 3
    status, _, err = sop("resume it --budget calls=20", capsys)
    assert status == 0, err
    assert sop("show it all", capsys)[1].strip() == "by ann"
    assert json.loads(sop("show it --json", capsys)[1])["roles"] == {
        "inside/ann": "python:mine.py:anns", "inside/bob": "python:mine.py:anns", "inside/cat": "python:mine.py:answer",
        "inside/ann in fourth": "python:mine.py:anns"}


def test_what_a_sub_sop_takes_from_elsewhere_is_nothing_for_the_sop_around_it(
        here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOP_MODEL", "python:mine.py:answer")
    write(here, SOP, outer_yaml="""
        sop: outer
        models: {default: 'python:mine.py:strongly'}
        roles: {dan: {profile: You bind.}}
        artifacts: {got: {}, all: {}}
        steps:
          inside: {sop: desk, output: three, makes: got}
          last: {role: dan, needs: [got], makes: all}
    """)
    assert sop("run outer.yaml --name it --until inside", capsys)[0] == 0
    assert sop("resume it", capsys)[0] == 0
    assert [sop(f"show it {name}", capsys)[1].strip() for name in ("got", "all")] == ["mine", "strongly"]


@pytest.mark.one_in(4)
def test_what_the_command_line_names_is_a_model_of_the_sop_that_it_speaks_of(
        here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where a role of a sub-SOP is given it, and where the sub-SOP calls another model so."""
    write(here, SOP, outer_yaml="""
        sop: outer
        models: {shared: 'python:mine.py:strongly', strong: 'python:mine.py:answer'}
        roles: {dan: {profile: You bind.}}
        artifacts: {got: {}, all: {}}
        steps:
          inside: {sop: desk, output: one, makes: got}
          last: {role: dan, needs: [got], makes: all}
        tests: {both: {model: {default: 'python:mine.py:answer', dan: shared}, expect: got == 'mine' and all == 'strongly'}}
    """)
    assert sop("test outer.yaml", capsys)[0] == 0
    for name, models in (("a", "--model default=python:mine.py:answer --model dan=shared"),
                         ("b", "--model default=shared --model ann=strong")):
        status, _, err = sop(f"run outer.yaml --name {name} --until inside {models}", capsys)
        assert status == 0, (models, err)
        status, _, err = sop(f"resume {name}", capsys)
        assert status == 0, err
        assert [sop(f"show {name} {made}", capsys)[1].strip() for made in ("got", "all")] == ["mine", "strongly"], models


def test_a_role_of_a_sub_sop_is_shown_with_the_model_that_it_has_there(
        here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its `default` and `strong` are others than those of the SOP around it."""
    inside = SOP.replace("{strong: 'python:mine.py:strongly'}", "{strong: dry, default: 'python:mine.py:answer'}")
    write(here, inside, outer_yaml="""
        sop: outer
        models: {default: dry, strong: 'python:mine.py:strongly'}
        roles: {ann: {profile: You bind., model: strong}}
        artifacts: {got: {}, all: {}}
        steps:
          inside: {sop: desk, output: four, makes: got}
          last: {role: ann, needs: [got], makes: all}
    """)
    out = sop("run outer.yaml --name it", capsys)[1]
    assert "ann: python:mine.py:strongly\n" in out and "inside/ann, inside/cat: python:mine.py:answer\n" in out, out
    assert "inside/bob, inside/ann in fourth: dry\n" in out


def test_one_model_for_everybody_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = sop("run desk.yaml --name one --model dry", capsys)
    assert out.splitlines()[0].endswith("one: begins desk.yaml with dry")
    assert "  models   dry\n" in sop("show one", capsys)[1]


@pytest.mark.one_in(4)
def test_a_recording_is_written_and_replayed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sop("run desk.yaml --name one --model default=python:mine.py:answer", capsys)
    status, out, _ = sop("export one --recording kept.jsonl --answered-by me", capsys)
    assert (status, out) == (0, "wrote kept.jsonl: 4 calls; answered from it again: --model replay:kept.jsonl\n")
    assert sop("run desk.yaml --name two --model replay:kept.jsonl", capsys)[0] == 0
    assert sop("diff one two", capsys)[1].startswith("both made the same\n")
    (here / "desk.yaml").write_text((here / "desk.yaml").read_text().replace("You judge.", "You judge well."))
    status, out, _ = sop("run desk.yaml --name three --model replay:kept.jsonl", capsys)
    assert status == 5 and "three: no model answers: stale: this prompt changed: second@1~0/turn.0" in out
    assert "\n-You are the bob: You judge.\n+You are the bob: You judge well." in out and "sop resume three" in out
    assert "stale" in sop("show three", capsys)[1] and "no model answers" in sop("runs", capsys)[1]
    assert sop("resume three --model replay:kept.jsonl,dry", capsys)[0] == 0


@pytest.mark.one_in(4)
def test_a_recording_of_runs_that_went_different_ways(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As where a command prints something else on another machine: each way is replayed to its own end."""
    sop("run desk.yaml --name one --model default=python:mine.py:answer", capsys)
    sop("run desk.yaml --name two --model default=python:mine.py:strongly", capsys)
    assert sop("export one --recording one.jsonl --answered-by me", capsys)[1].startswith("wrote one.jsonl: 4 calls")
    status, _, _ = sop("export one --also two --recording both.jsonl --answered-by me", capsys)
    calls = [json.loads(line) for line in Path("both.jsonl").read_text().splitlines()[1:]]
    assert status == 0 and 4 < len(calls) == len({(call["key"], call["prompt"]) for call in calls})
    first = {(call["key"], call["prompt"]) for call in map(json.loads, Path("one.jsonl").read_text().splitlines()[1:])}
    assert first < {(call["key"], call["prompt"]) for call in calls}
    assert sop("run desk.yaml --name three --model replay:both.jsonl", capsys)[0] == 0
    (here / "desk.yaml").write_text((here / "desk.yaml").read_text().replace("sop: desk", "sop: other"))
    sop("run desk.yaml --name four --model dry", capsys)
    status, _, err = sop("export one --also four --recording both.jsonl --answered-by me", capsys)
    assert status == 2 and "runs `one` and `four` differ in their sop" in err


def test_a_recording_names_no_folder_of_this_machine(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sop(f"run desk.yaml --name one --model default=python:{here}/mine.py:answer", capsys)
    assert sop("export one --recording kept.jsonl --answered-by me", capsys)[0] == 0
    sop(f"run desk.yaml --name two --model replay:{here}/kept.jsonl,manual:{here}/desk", capsys)
    assert sop("export two --recording again.jsonl --answered-by me", capsys)[0] == 0
    kept, again = (Path(name).read_text() for name in ("kept.jsonl", "again.jsonl"))
    assert str(here) not in kept + again
    assert '"default":"python:mine.py:answer"' in kept and '"*":"replay:kept.jsonl,manual"' in again


def test_a_recording_in_a_folder_that_is_not_there_is_told_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    sop("run desk.yaml --name one --model dry", capsys)
    status, _, err = sop("export one --recording none/kept.jsonl --answered-by me", capsys)
    assert status == 2 and "`--recording none/kept.jsonl`: the folder `none` does not exist; make it (`mkdir -p none`)" in err
