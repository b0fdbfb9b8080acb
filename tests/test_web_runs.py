"""Runs seen and steered from the page: real processes that a real server follows, starts, stops, and leaves alone."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cli_desk import SOP, environment, lay_out, sop
from patience import PATIENCE, until
from web_desk import Client, Stream, held, serving

from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.places import journal_path
from metaflow_agents.schema.event import Answered
from metaflow_agents.web.attended import LARGEST

GATED = """
sop: gated
roles: {writer: {profile: a writer}}
inputs: {letters: {type: [string], default: [a, b, c]}}
artifacts: {parts: {each: string}, book: {file: book.md}}
steps:
  write: {role: writer, needs: [letters], foreach: {in: letters, as: letter, parallel: 1}, makes: parts}
  bind: {value: "parts | values | join(' ')", needs: [parts], makes: book}
"""
GATE = '''
import asyncio, pathlib
async def answer(request):
    """Each item waits until a file of its number is there."""
    here = pathlib.Path(__file__).parent
    (here / "begun").touch()
    while not (here / f"go_{request.key.partition('[')[2].partition(']')[0]}").exists():
        await asyncio.sleep(0.01)
    return request.key
'''
ASKING = """
sop: asking
roles: {}
inputs: {topic: {type: string, default: tea}}
artifacts: {mood: {}, fine: {}, note: {file: note.md}}
steps:
  feel: {human: {choice: [good, bad]}, task: "How is the {{ topic }}?", needs: [topic], makes: mood}
  judge: {human: approve, task: Is it fine?, needs: [topic], makes: fine}
  write: {needs: [mood, fine, topic], makes: note,
          value: "topic ~ ' is ' ~ mood.choice ~ ', ' ~ fine.approved ~ ': ' ~ fine.reason"}
"""


def laid_out(folder: Path) -> Path:
    lay_out(folder)
    for name, text in {"gated.yaml": GATED, "gate.py": GATE, "asking.yaml": ASKING}.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def begun(client: Client, **body: Any) -> str:
    said = client.post("/api/runs", body)
    assert said.status == 200, said.data
    return str(said.json["run"])


def over(client: Client, run: str, state: str = "success") -> dict[str, Any]:
    until(lambda: client.row(run).get("state") not in ("running", None), f"{run} rests")
    found = client.row(run)
    assert found["state"] == state, found
    return found


def steps(stream: Stream) -> dict[str, dict[str, Any]]:
    """Step → how it stands, as a page that hears the stream knows it."""
    found: dict[str, dict[str, Any]] = {}
    for data in stream.of("run"):
        found |= data["steps"]
    return found


@pytest.mark.one_in(8, always=False)
def test_a_run_of_a_terminal_appears_and_is_followed_to_its_end(tmp_path: Path) -> None:
    laid_out(tmp_path)
    with serving(tmp_path) as client:
        rows = client.listen("/api/runs/stream")
        terminal = subprocess.Popen([*SOP, "run", "gated.yaml", "--model", "python:gate.py:answer", "--name", "it"], cwd=tmp_path,
                                    env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        until(lambda: [row for data in rows.of("runs") for row in data["rows"] if row["run"] == "it"], "it appears")
        page = client.get("/api/run?run=it").json
        assert (page["state"], page["sop"], page["models"]) == ("running", "gated", {"*": "python:gate.py:answer"})
        assert {node["id"] for node in page["graph"]["nodes"]} == {"input:letters", "step:write", "step:bind", "output:book"}
        stream = client.listen(f"/api/run/stream?run=it&after={page['seq']}")
        until(lambda: steps(stream).get("write", {}).get("items") ==
              {"of": 3, "done": 0, "failed": 0, "running": 1, "waiting": 2}, "the first item is under way")
        (tmp_path / "go_a").touch()
        until(lambda: steps(stream)["write"]["told"] == "1 of 3 items", "the first item is told")
        assert not [data for data in stream.of("run") if "touched" in data], "nobody has asked for activations"
        until(lambda: [(row["key"], row["state"]) for row in client.get("/api/run/activations?run=it").json["rows"]] ==
              [("write@1[a]~0", "done"), ("write@1[b]~0", "running")], "the time line knows both")
        assert steps(stream)["bind"] | {"told": ""} == {
            "state": "waiting", "told": "", "fired": 0, "began": None, "ended": None, "items": None, "calls": 0, "tokens": 0,
            "usd": 0.0, "estimated": False, "maker_of": [], "asks": 0}
        assert steps(stream)["bind"]["told"] == "waits for parts (write)"
        (tmp_path / "go_b").touch()
        until(lambda: steps(stream)["write"]["told"] == "2 of 3 items", "the second item is told")
        (tmp_path / "go_c").touch()
        until(lambda: stream.of("rests"), "its end is told")
        touched = {key for data in stream.of("run") for key in data.get("touched", ())}
        assert {"write@1[b]~0", "write@1[c]~0"} <= touched <= {"write@1[b]~0", "write@1[c]~0", "bind@1~0"}
        assert "touched" not in stream.of("run")[-1], "at the end any may have changed"
        assert terminal.wait(PATIENCE) == 0
        assert {name: step["state"] for name, step in steps(stream).items()} == {"write": "done", "bind": "done"}
        last = stream.of("run")[-1]
        assert last["state"] == "success" and last["can"] == {"stop": False, "resume": False, "fork": True, "answer": False}
        assert stream.events[-1][0] == "rests" and int(stream.events[-2][2]) == last["seq"]
        until(lambda: [row["state"] for data in rows.of("runs") for row in data["rows"] if row["run"] == "it"][-1] == "success",
              "the list knows it")
        now = client.get("/api/run?run=it").json
        assert now["steps"] == steps(stream) and now["seq"] == last["seq"]


@pytest.mark.one_in(8, always=False)
def test_a_page_that_comes_again_is_told_what_changed_since(tmp_path: Path) -> None:
    laid_out(tmp_path)
    with serving(tmp_path) as client:
        run = begun(client, file="gated.yaml", model="python:gate.py:answer")
        first = client.listen(f"/api/run/stream?run={run}&after=0")
        (tmp_path / "go_a").touch()
        until(lambda: steps(first).get("write", {}).get("told") == "1 of 3 items", "an item is done")
        seen = int(first.events[-1][2])
        first.close()
        (tmp_path / "go_b").touch()
        until(lambda: client.row(run)["activations"] == 2, "two items are done")
        again = client.listen(f"/api/run/stream?run={run}&after={seen}")
        until(lambda: again.of("run"), "it is told again")
        assert set(again.of("run")[0]["steps"]) == {"write"}, "and no other has changed"
        (tmp_path / "go_c").touch()
        over(client, run)


@pytest.mark.one_in(8, always=False)
def test_how_it_stood_after_each_event(tmp_path: Path) -> None:
    laid_out(tmp_path)
    assert sop(tmp_path, "run", "looped.yaml", "--topic", "t", "--model", "python:desk.py:answer", "--name", "it").returncode == 0
    with serving(tmp_path) as client:
        last = client.get("/api/run?run=it").json["seq"]
        told = [client.get(f"/api/run/at?run=it&seq={seq}").json for seq in range(1, last + 1)]
    assert [one["seq"] for one in told] == list(range(1, last + 1))
    assert [one["state"] for one in told] == ["running"] * (last - 1) + ["success"]
    seconds = [one["seconds"] for one in told]
    assert seconds == sorted(seconds) and [one["finished"] for one in told][-1] == 8
    versions = [one["versions"].get("draft", 0) for one in told]
    assert versions == sorted(versions) and versions[-1] == 2
    states = [[one["steps"][name]["state"] for one in told] for name in ("write_it", "cut_it", "extend_it")]
    assert [list(dict.fromkeys(one)) for one in states] == [["waiting", "running", "done"], ["waiting", "running", "failed"],
                                                            ["waiting", "never"]]
    assert told[-1]["steps"]["cut_it"]["told"] == "1 of 3 items failed"


@pytest.mark.one_in(8, always=False)
def test_a_run_of_the_page_outlives_the_tab_and_the_server(tmp_path: Path) -> None:
    laid_out(tmp_path)
    with serving(tmp_path, ends_runs=False) as client:
        run = begun(client, file="gated.yaml", model="python:gate.py:answer", name="kept")
        stream = client.listen("/api/run/stream?run=kept")
        until(lambda: stream.events, "it is followed")
        number = held(tmp_path, run)
        assert number is not None and number != client.process.pid
        assert os.getsid(number) != os.getsid(client.process.pid), "no terminal's Ctrl-C or hang-up reaches it"
        client.process.send_signal(signal.SIGKILL)
        client.process.wait(PATIENCE)
    assert held(tmp_path, run) == number
    for item in "abc":
        (tmp_path / f"go_{item}").touch()
    with serving(tmp_path) as client:
        over(client, run)
    made = " ".join(f"write@1[{item}]~0/turn.0" for item in "abc")
    assert (tmp_path / "workspace" / "kept" / "book.md").read_text() == f"{made}\n"
    log = (tmp_path / "workspace" / ".journals" / "kept.log").read_text()
    assert log.startswith("$ sop run ") and "kept: success" in log


@pytest.mark.one_in(8, always=False)
def test_a_killed_run_is_told_as_killed_and_goes_on_by_a_click(tmp_path: Path) -> None:
    laid_out(tmp_path)
    with serving(tmp_path) as client:
        run = begun(client, file="gated.yaml", model="python:gate.py:answer")
        stream = client.listen(f"/api/run/stream?run={run}")
        (tmp_path / "go_a").touch()
        until(lambda: steps(stream).get("write", {}).get("told") == "1 of 3 items", "an item is done")
        number = held(tmp_path, run)
        assert number is not None
        os.kill(number, signal.SIGKILL)
        until(lambda: stream.of("rests") == [{"state": "killed", "reason": ""}], "its death is told, which is no event")
        assert steps(stream)["write"]["state"] == "waiting" and stream.of("run")[-1]["can"]["resume"]
        assert client.post("/api/run/stop", {"run": run}).error == f"run `{run}` is not under way: there is nothing to stop"
        for item in "bc":
            (tmp_path / f"go_{item}").touch()
        assert client.post("/api/run/resume", {"run": run}).json == {"run": run}
        over(client, run)
        until(lambda: len(stream.of("rests")) == 2, "the stream went on with it")
        assert steps(stream)["bind"]["state"] == "done"
        assert "has succeeded" in client.post("/api/run/resume", {"run": run}).error or client.row(run)["state"] == "success"


@pytest.mark.one_in(12, always=False)
def test_stop_is_ctrl_c_in_the_terminal_of_whoever_holds_the_run(tmp_path: Path) -> None:
    laid_out(tmp_path)
    with serving(tmp_path) as client:
        run = begun(client, file="gated.yaml", model="python:gate.py:answer")
        assert client.post("/api/run/stop", {"run": run}).status == 200
        over(client, run, "interrupted")
        terminal = subprocess.Popen([*SOP, "resume", run, "--model", "python:gate.py:answer"], cwd=tmp_path, env=environment(),
                                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: held(tmp_path, run) == terminal.pid and client.row(run)["state"] == "running", "it is under way again")
        until(lambda: client.post("/api/run/stop", {"run": run}).status == 200, "it is stopped")
        assert terminal.wait(PATIENCE) == 130
        assert client.post("/api/run/stop", {"run": "nobody"}).error.startswith("no run `nobody`")


@pytest.mark.one_in(8, always=False)
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="only Linux shows who has a file open")
def test_nobody_gets_a_signal_whom_a_lock_only_names(tmp_path: Path) -> None:
    """A lock file that a killed run left, whose number another process has got meanwhile; and one that somebody wrote."""
    laid_out(tmp_path)
    assert sop(tmp_path, "run", "looped.yaml", "--topic", "t", "--model", "python:desk.py:answer", "--name", "it").returncode == 0
    lock = tmp_path / "workspace" / ".journals" / "it.db.lock"
    bystander = subprocess.Popen(["sleep", "60"])
    holding = None
    try:
        with serving(tmp_path) as client:
            lock.write_text(str(bystander.pid))
            assert "nobody holds" in client.post("/api/run/stop", {"run": "it"}).error
            holding = subprocess.Popen(["flock", str(lock), "sleep", "60"])
            until(lambda: "does not have it open" in client.post("/api/run/stop", {"run": "it"}).error, "another one holds it")
            lock.write_text(str(client.process.pid))
            assert "in this server" in client.post("/api/run/stop", {"run": "it"}).error
            assert bystander.poll() is None and holding.poll() is None and client.process.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
        if holding is not None:
            subprocess.run(["pkill", "-P", str(holding.pid)], check=False)
            holding.kill()
            holding.wait()


@pytest.mark.slow
def test_a_fork_from_a_step_goes_on_on_its_own(tmp_path: Path) -> None:
    laid_out(tmp_path)
    assert sop(tmp_path, "run", "looped.yaml", "--topic", "t", "--model", "python:desk.py:answer", "--name", "it").returncode == 0
    with serving(tmp_path) as client:
        made = client.post("/api/run/fork", {"run": "it", "at": "mend_it@1", "name": "branch"})
        assert made.json == {"run": "branch"}
        page = client.get("/api/run?run=branch").json
        assert page["forked_from"] == "it" and page["steps"]["mend_it"]["fired"] == 0 and page["can"]["resume"]
        assert client.row("branch")["forked_from"] == "it" and page["run"] == "branch"
        assert client.post("/api/run/resume", {"run": "branch", "model": "python:desk.py:stubborn"}).status == 200
        over(client, "branch", "failure")
        assert "no firing" in client.post("/api/run/fork", {"run": "it", "at": "mend_it@9"}).error
        assert client.post("/api/run/fork", {"run": "it", "at": "mend_it@1", "name": "branch"}).status == 400


@pytest.mark.one_in(8, always=False)
def test_questions_come_to_the_inbox_and_answers_to_the_run(tmp_path: Path) -> None:
    laid_out(tmp_path)
    with serving(tmp_path) as client:
        run = begun(client, file="asking.yaml", inputs={"topic": "coffee"})
        over(client, run, "waiting")
        asked = client.get("/api/inbox").json["questions"]
        assert [(one["number"], one["kind"], one["text"], one["choices"], one["given"]) for one in asked] == [
            (1, "choice", "How is the coffee?", ["good", "bad"], False), (2, "approve", "Is it fine?", [], False)]
        assert client.row(run)["questions"] == 2 and asked == client.get(f"/api/run?run={run}").json["questions"]
        assert asked[0]["ways"] == [f"sop answer {run} 1 --choice …"]
        wrong = client.post("/api/answer", {"run": run, "number": 1, "answer": {"text": "goood"}})
        assert wrong.status == 400 and "did you mean `good`" in wrong.error
        assert client.post("/api/answer", {"run": run, "number": 7, "answer": {"text": "x"}}).status == 400
        client.get("/api/inbox")                                # what was read a moment ago is no longer new enough
        assert client.post("/api/answer", {"run": run, "number": 1, "answer": {"choice": "good"}}).json == {"handed_over": False}
        assert [one["number"] for one in client.get("/api/inbox").json["questions"]] == [2]
        assert client.row(run)["questions"] == 1
        said = client.post("/api/answer", {"run": run, "number": 2, "answer": {"verdict": "yes"}, "reason": "why not"})
        assert said.status == 200, said.data
        assert client.get("/api/inbox").json["questions"] == [] and client.row(run)["state"] == "waiting"
        assert client.post("/api/run/resume", {"run": run}).status == 200
        over(client, run)
    assert (tmp_path / "workspace" / run / "note.md").read_text() == "coffee is good, true: why not\n"
    with Journal.read(journal_path(tmp_path / "workspace", run)) as journal:
        assert {event.by for _, event in journal.events(Answered)} == {"sop ui"}


@pytest.mark.one_in(12, always=False)
def test_inputs_are_what_was_typed_and_uploaded(tmp_path: Path) -> None:
    """A text that begins like an option or like the name of a file is a text; a folder comes file by file."""
    laid_out(tmp_path)
    (tmp_path / "copying.yaml").write_text(
        "sop: copying\nroles: {}\n"
        "inputs: {word: string, other: string, many: {type: [string]}, paper: {type: file}, tree: {type: folder}}\n"
        "artifacts: {out: {schema: {all: any}}}\nsteps:\n  copy_it: {needs: [word, other, many, paper, tree], makes: out, value: "
        "\"{'all': [word, other, many, paper, tree]}\"}\n")
    (tmp_path / "private.txt").write_text("not what is meant")
    long = "\n".join(f"line {number} “so”" for number in range(20_000))
    with serving(tmp_path) as client:
        paper = client.upload("notes.txt", "naïve".encode()).json["path"]
        folders = {client.upload(name, data, "b1").json["folder"] for name, data in {"a.txt": b"1", "deep/b.txt": b"2"}.items()}
        assert len(folders) == 1
        inputs = {"word": "@private.txt", "other": "--yes", "many": ["x", "--model=dry", long], "paper": paper,
                  "tree": folders.pop()}
        run = begun(client, file="copying.yaml", inputs=inputs)
        over(client, run)
    shown = sop(tmp_path, "show", run, "out").stdout
    with Journal.read(journal_path(tmp_path / "workspace", run)) as journal:
        payload = journal.state.payload("out")
        assert payload is not None
        import json

        found = json.loads(journal.blob(payload))["value"]["all"]
    assert found[:4] == ["@private.txt", "--yes", ["x", "--model=dry", long], "naïve"]
    assert found[4] == {"a.txt": "1", "deep/b.txt": "2"} and "private" in shown


@pytest.mark.one_in(8, always=False)
def test_what_a_run_prints_is_kept_within_bounds(tmp_path: Path) -> None:
    laid_out(tmp_path)
    (tmp_path / "loud.py").write_text("def answer(request):\n    print('x' * 100 * 1024)\n    return 'done'\n")
    (tmp_path / "loud.yaml").write_text(GATED.replace("sop: gated", "sop: loud"))
    letters = [f"i{number}" for number in range(40)]
    with serving(tmp_path) as client:
        run = begun(client, file="loud.yaml", inputs={"letters": letters}, model="python:loud.py:answer")
        over(client, run)
        log = tmp_path / "workspace" / ".journals" / f"{run}.log"
        until(lambda: f"{run}: success" in log.read_text(), "its end is there")
        assert log.stat().st_size <= LARGEST and log.read_text().startswith("(what stood here is cut off)\n")
        assert oct(log.stat().st_mode & 0o777) == "0o600"


@pytest.mark.one_in(12, always=False)
def test_two_that_begin_at_once_get_two_names(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    laid_out(tmp_path)
    with serving(tmp_path) as client, ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(lambda _: begun(client, file="asking.yaml"), range(2)))
        assert sorted(runs) == ["asking-1", "asking-2"]
        for run in runs:
            over(client, run, "waiting")
        assert len(client.get("/api/inbox").json["questions"]) == 4
