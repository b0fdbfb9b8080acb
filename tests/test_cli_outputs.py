"""What the commands print, in one process: reports, drawings, runs, minutes, differences, and the errors of people."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_desk import LOOPED, lay_out

from metaflow_agents.api.scaffold import TEMPLATES
from metaflow_agents.cli import command
from metaflow_agents.kits.company.probing import browser_path

Say = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with SOPs and three runs: `one`, `two` of another topic, and `capped`, which stopped at a cap."""
    folder = lay_out(tmp_path_factory.mktemp("outputs"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "stdin", io.StringIO())
        patch.setattr(sys, "stdout", io.StringIO())
        run = ["run", "looped.yaml", "--model", "python:desk.py:answer"]
        assert command([*run, "--topic", "tea", "--name", "one"]) == 0
        assert command([*run, "--topic", "rice", "--name", "two"]) == 0
        assert command([*run, "--topic", "tea", "--name", "capped", "--budget", "calls=2"]) == 3
    return folder


@pytest.fixture
def say(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """Carries out a command in the home folder: status, stdout, stderr."""
    monkeypatch.chdir(home)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.delenv("SOP_MODEL", raising=False)

    def carried_out(*words: str) -> tuple[int, str, str]:
        status = command(words)
        seen = capsys.readouterr()
        return status, seen.out, seen.err
    return carried_out


# -- check

@pytest.mark.one_in(4)
def test_check_tells_problems_by_place_and_ends_with_2(say: Say, home: Path) -> None:
    (home / "wrong.yaml").write_text(LOOPED.replace("needs: [draft, topic]", "needs: [drafd, topic]").replace("retries", "x"))
    status, out, _ = say("check", "wrong.yaml")
    assert status == 2
    line = LOOPED.splitlines().index(next(text for text in LOOPED.splitlines() if "print_it" in text)) + 1
    assert re.search(rf"^wrong\.yaml:{line}:\d+\n  error .*drafd.*\n +fix: did you mean `draft`\?", out, re.MULTILINE)
    assert out.splitlines()[-1].startswith("wrong.yaml: ") and "error" in out.splitlines()[-1]


@pytest.mark.one_in(4)
def test_check_ends_with_bounds_and_a_verdict(say: Say) -> None:
    status, out, err = say("check", "looped.yaml")
    assert (status, err) == (0, "")
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if re.match(r"\w+_it ", line)}
    assert rows["judge_it"][0] == "3" and rows["mend_it"][0] == "2" and rows["bind_it"][-1] == "-"
    assert re.search(r"^looped\.yaml: ok.*model calls?", out.splitlines()[-1])


@pytest.mark.one_in(4)
def test_check_of_several_files_goes_on_after_one_that_is_not_there(say: Say) -> None:
    status, out, err = say("check", "looped.yaml", "nowhere.yaml", "slow.yaml")
    assert status == 2 and "looped.yaml: ok" in out and "slow.yaml: ok" in out and err.count("\n") == 1
    status, out, _ = say("check", "--json", "looped.yaml", "slow.yaml")
    assert [report["file"] for report in json.loads(out)] == ["looped.yaml", "slow.yaml"] and status == 0
    assert json.loads(say("check", "--json", "looped.yaml")[1])["ok"] is True


# -- graph, schema, new, test

def test_graph_draws_stages_loops_and_who_feeds_whom(say: Say) -> None:
    _, out, _ = say("graph", "looped.yaml")
    assert "7 steps" in out and "1 loop" in out
    assert re.search(r"judge_it ↻ role critic\n +draft → verdict\n +feeds mend_it, cut_it", out)
    assert re.search(r"cut_it role writer for each item in \['one'", out) and "draft (seen)" in out
    assert "↻ loop: judge_it → mend_it → judge_it; mend_it fires 2 times at most" in out


def test_mermaid_has_artifacts_on_its_edges_and_frames_around_loops(say: Say) -> None:
    _, out, _ = say("graph", "looped.yaml", "--mermaid")
    lines = [line.strip() for line in out.splitlines()]
    assert lines[0] == "flowchart TD"
    assert 'step_write_it -->|"draft"| step_judge_it' in lines and 'input_topic -->|"topic, word_count"|' not in out
    assert 'step_write_it -.->|"draft"| step_mend_it' in lines
    assert 'subgraph loop1["loop, mend_it: 2 rounds"]' in lines and lines.count("end") == 1
    assert not any(re.match(r"end\b.", line) for line in lines), "a step called `end` would cut the drawing short"


def test_graph_of_an_invalid_file_tells_its_problems(say: Say, home: Path) -> None:
    (home / "broken.yaml").write_text("sop: it\nsteps: [")
    status, out, err = say("graph", "broken.yaml")
    assert (status, out) == (2, "") and "broken.yaml:2" in err


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("name", "template"), [
    ("tea_round", "pipeline"), ("x", "review-loop"), ("end", "fan-out"), ("t", "tools"), ("asked", "human-approval")])
def test_what_new_writes_passes_check_and_test_and_a_run(name: str, template: str, say: Say, home: Path) -> None:
    chosen = () if template == TEMPLATES[0] else ("--template", template)
    status, out, _ = say("new", name, *chosen)
    assert status == 0 and out.startswith(f"wrote {name}/{name}.yaml\n")
    status, out, err = say("check", f"{name}/{name}.yaml")
    assert status == 0 and "warning" not in out, out + err
    status, out, err = say("test", f"{name}/{name}.yaml")
    assert (status, err) == (0, "") and len(re.findall("^ok ", out, re.MULTILINE)) >= 2
    model = f"python:{name}_model.py:answer" if template == "tools" else "dry"
    assert say("run", f"{name}/{name}.yaml", "--model", model, "--topic", "tea")[0] == 0
    assert say("new", name, *chosen)[0] == 2, "nothing is overwritten"
    written = [path for path in (home / name).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert not [path for path in written if re.search("__(NAME|PLACE)__", f"{path}\n{path.read_text()}")]


def test_every_template_is_tried() -> None:
    folders = {path.name for path in (Path(__file__).parent.parent / "metaflow_agents/api/scaffolds").iterdir()}
    assert set(TEMPLATES) == folders == {"pipeline", "review-loop", "fan-out", "tools", "human-approval"}


@pytest.mark.one_in(4)
def test_new_writes_the_line_for_editors_and_the_schemas_that_it_names(say: Say, home: Path) -> None:
    assert say("new", "edited", "--folder", "edited")[0] == 0
    for path in [*(home / "edited").glob("*.yaml"), *(home / "edited/roles").glob("*.yaml")]:
        named = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", path.read_text().splitlines()[0])
        kind = "role" if path.parent.name == "roles" else "sop"
        assert named and (path.parent / named[1]).resolve() == home / "edited" / f"{kind}.schema.json"
    assert (home / "edited/sop.schema.json").read_text() == say("schema")[1]
    (home / "edited/sop.schema.json").write_text("mine")
    assert say("new", "second", "--folder", "edited")[0] == 0
    assert (home / "edited/sop.schema.json").read_text() == "mine", "a second SOP beside it keeps the schemas that are there"
    assert "did you mean `review-loop`" in say("new", "third", "--template", "reviewloop")[2] and not (home / "third").exists()


def test_new_overwrites_nothing_and_writes_nothing_then(say: Say, home: Path) -> None:
    kept = home / "kept" / "roles" / "kept_reviewer.yaml"
    kept.parent.mkdir(parents=True)
    kept.write_text("mine")
    status, _, err = say("new", "kept")
    assert status == 2 and "kept_reviewer.yaml is there already" in err and kept.read_text() == "mine"
    assert not (home / "kept" / "kept.yaml").exists()
    assert "like `a_b`" in say("new", "a-b")[2]


TESTED = LOOPED + """
tests:
  holds: {inputs: {topic: tea}, model: dry, until: judge_it, expect: draft and not success}
  differs: {inputs: {topic: tea}, given: {verdict: {fine: true}}, model: dry, expect: success and topic == 'rice'}
  fails: {inputs: {topic: tea}, model: 'python:desk.py:broken', expect: success}
"""


def test_test_tells_why_a_case_fails_and_what_its_expression_met(say: Say, home: Path) -> None:
    (home / "tested.yaml").write_text(TESTED)
    status, out, _ = say("test", "tested.yaml")
    assert status == 1 and out.splitlines()[0].startswith("ok   holds") and out.splitlines()[-1] == "1 passed, 2 failed"
    assert re.search(r"^FAIL differs .*\n     tested\.yaml:\d+:\d+\n       expected  topic == 'rice'\n"
                     r'       found     topic is "tea"$', out, re.MULTILINE)
    assert "FAIL fails" in out and "the run was stopped" in out and "no pen" in out
    verdicts = json.loads(say("test", "tested.yaml", "--json")[1])
    assert [verdict["ok"] for verdict in verdicts] == [True, False, False]
    assert say("test", "tested.yaml", "holds")[0] == 0
    status, _, err = say("test", "tested.yaml", "hold")
    assert status == 2 and "did you mean `holds`?" in err


def test_a_cases_files_lie_beside_the_sop(say: Say, home: Path) -> None:
    there = home / "elsewhere"
    there.mkdir()
    (there / "letter.txt").write_text("dear all")
    (there / "post.yaml").write_text(
        "sop: post\ninputs: {letter: {type: file}}\nartifacts: {copy: {}}\nsteps: {copy_it: {value: letter, needs: [letter], "
        "makes: copy}}\ntests: {copies: {inputs: {letter: letter.txt}, expect: copy == 'dear all'}}\n")
    assert say("test", "elsewhere/post.yaml")[0] == 0


# -- run

def test_run_ends_with_what_was_made_what_it_cost_and_how_to_go_on(say: Say) -> None:
    status, out, err = say("run", "looped.yaml", "--model=python:desk.py:answer", "--topic=tea", "--word-count", "9",
                           "--name", "here", "--workspace", "other")
    assert (status, err) == (0, "")
    ending = out[out.index("\nhere: success"):]
    assert re.search(r"^  made +by +in other/here/$", ending, re.MULTILINE)
    assert re.search(r"^  draft@2 +mend_it@1 +draft\.md$", ending, re.MULTILINE)
    assert re.search(r"^  pages@1 +print_it@1 +pages/: 2 files$", ending, re.MULTILINE)
    assert re.search(r"^  pieces@1 +cut_it@1 +2 items, 1 missing$", ending, re.MULTILINE)
    assert re.search(r"^never fired:\n  extend_it +`when: draft == 'no'` never held$", ending, re.MULTILINE)
    assert re.search(r"^cost: 7 calls, [\d,]+ tokens, ", ending, re.MULTILINE)
    assert "sop show here ARTIFACT --workspace other" in ending and "sop log here --kind failed" in ending


def test_plain_lines_are_one_an_event_that_matters(say: Say) -> None:
    _, out, _ = say("run", "looped.yaml", "--model", "python:desk.py:answer", "--topic", "tea", "--name", "plain")
    lines = out[:out.index("\nplain: success")].splitlines()
    assert all(re.match(r"\d\d:\d\d:\d\d  \S", line) for line in lines)
    assert any(line.endswith("mend_it@1: makes draft@2 for judge_it, mend_it, cut_it, … (5 in all)") for line in lines)
    assert any("cut_it@1[two]: failed for good: " in line for line in lines) and "\x1b" not in out
    assert not any(" asks " in line for line in lines)


def test_run_json_is_one_document(say: Say) -> None:
    status, out, _ = say("run", "looped.yaml", "--model", "python:desk.py:stubborn", "--topic", "tea", "--name", "js", "--json")
    told = json.loads(out)
    assert status == told["exit_status"] == 1 and told["outcome"] == "failure"
    assert told["outputs"]["whole"] == {"title": "tea", "parts": ["the same"] * 3} and told["steps"]["judge_it"] == 3
    assert told["never"] == {"extend_it": "`when: draft == 'no'` never held"}


def test_input_options_in_all_their_spellings(say: Say, home: Path) -> None:
    (home / "topic.txt").write_text("from a file")
    told = json.loads(say("run", "--topic", "@topic.txt", "looped.yaml", "--word_count=7", "--model", "dry", "--json",
                          "--name", "spelt", "--until", "write_it")[1])
    assert told["outcome"] == "until"
    assert json.loads(say("show", "spelt", "word_count", "--json")[1]) == 7
    assert say("show", "spelt", "topic")[1] == "from a file\n"


TYPES = """
sop: types
inputs:
  level: {type: low | high, default: low}
  sure: {type: boolean, default: false}
  tags: {type: [string], default: []}
  note: {type: string | null, default: null}
  name: {type: string, default: nobody}
artifacts: {all: {schema: any}}
steps: {gather: {value: "[level, sure, tags, note, name]", needs: [level, sure, tags, note, name], makes: all}}
"""


@pytest.mark.one_in(4)
def test_inputs_of_every_type(say: Say, home: Path) -> None:
    (home / "types.yaml").write_text(TYPES)

    def gathered(*words: str) -> Any:
        return json.loads(say("run", "types.yaml", "--json", *words)[1])["outputs"]["all"]

    assert gathered() == ["low", False, [], None, "nobody"]
    assert gathered("--level", "high", "--sure", "--tags", '["a"]', "--note", "so", "--input", "name=me") == [
        "high", True, ["a"], "so", "me"]
    assert gathered("--sure=false", "--note=null")[1:4] == [False, [], None]
    for words, told in {("--level", "hihg"): 'expected "low" or "high"', ("--sure", "maybe"): "true or false, not `maybe`",
                        ("--tags", "[a"): "wants JSON", ("--input", "nme=x"): "did you mean `name`?",
                        ("--input", "name"): "write `--input NAME=VALUE`"}.items():
        status, _, err = say("run", "types.yaml", *words)
        assert status == 2 and told in err and err.count("\n") == 1, err


@pytest.mark.parametrize("words", [("run", "typo.yaml"), ("preview", "typo.yaml", "gather")])
@pytest.mark.parametrize("given", [(), ("--level", "x"), ("--levle", "x")])
def test_what_is_wrong_with_the_sop_is_told_before_its_inputs(say: Say, home: Path, words: tuple[str, ...],
                                                             given: tuple[str, ...]) -> None:
    (home / "typo.yaml").write_text(TYPES.replace("{type: low | high, default: low}", "text"))
    status, _, err = say(*words, *given)
    assert status == 2 and "typo.yaml:4:10\n  error `text` is no type" in err and "input" not in err.replace("inputs", ""), err


def test_a_place_where_an_export_can_not_go_is_told_with_what_to_do(say: Say, home: Path) -> None:
    (home / "file").write_text("")
    (home / "types.yaml").write_text(TYPES)
    assert say("run", "types.yaml")[0] == 0
    for words, told in {("--for", "episodes", "--output", "no/x.jsonl"): "`no` does not exist; make it (`mkdir -p no`)",
                        ("--recording", "no/x.jsonl", "--answered-by", "me"): "the folder `no` does not exist",
                        ("--for", "episodes", "--output", "."): "is a folder: name a file in it",
                        ("--for", "episodes", "--output", "file/x.jsonl"): "`file` is a file; name a file in a folder"}.items():
        status, _, err = say("export", "types-1", *words)
        assert status == 2 and told in err and err.count("\n") == 1, err
    assert say("export", "types-1", "--for", "episodes", "--output", "x.jsonl")[0] == 0


def test_run_help_lists_the_sops_own_inputs(say: Say, home: Path) -> None:
    (home / "types.yaml").write_text(TYPES)
    _, out, _ = say("run", "--help", "types.yaml")
    assert re.search(r"--level +low\|high +\(default: 'low'\)", out) and re.search(r"--input name= +TEXT", out)
    status, out, _ = say("run", "looped.yaml", "--help")
    assert status == 0 and "--sandbox" in out
    assert re.search(r"--topic +TEXT +What to write about \(required\)", out)
    assert re.search(r"--word-count +NUMBER +How long \(default: 20\)", out)


def test_models_for_one_name_only(say: Say, home: Path) -> None:
    (home / "named.yaml").write_text(LOOPED.replace("{profile: a critic}", "{profile: a critic, model: strict}")
                                      + "models: {strict: dry}\n")
    status, out, _ = say("run", "named.yaml", "--model", "default=dry", "--model", "strict=python:desk.py:answer",
                         "--topic", "tea", "--name", "named", "--json")
    assert status == 0 and json.loads(out)["models"] == {"default": "dry", "strict": "python:desk.py:answer"}


# -- runs, show, log, diff, fork, resume

def test_runs_tells_state_and_cost(say: Say) -> None:
    _, out, _ = say("runs")
    rows = {line.split()[0]: line for line in out.splitlines()}
    assert "success" in rows["one"] and "a cap is reached" in rows["capped"] and "looped.yaml" in rows["one"]
    told = {run["run"]: run for run in json.loads(say("runs", "--json")[1])}
    assert (told["capped"]["calls"], told["capped"]["state"]) == (2, "budget")
    shown = json.loads(say("show", "one", "--json")[1])
    for word in ("calls", "tokens", "activations"):
        assert told["one"][word] == shown[word], word
    assert told["one"]["seconds"] == pytest.approx(shown["seconds"], abs=0.01)


@pytest.mark.one_in(4)
def test_show_tells_where_everything_lies(say: Say) -> None:
    status, out, _ = say("show", "one")
    assert status == 0
    for told in ("folder   workspace/one/", "journal  workspace/.journals/one.db", "state    success", "models   python:desk.py"):
        assert told in out, told
    assert re.search(r"^  judge_it +2 firings$", out, re.MULTILINE) and re.search(r"^  cut_it +1 firing +3 items$", out, re.M)
    assert re.search(r"^  extend_it +never +`when", out, re.MULTILINE)


def test_show_renders_an_artifact_of_each_kind(say: Say) -> None:
    assert say("show", "one", "draft")[1] == "mend_it by writer\n"
    assert say("show", "one", "draft@1")[1] == "write_it by writer\n"
    assert say("show", "one", "pages")[1] == "=== pages/1.txt ===\nmend_it by writer\n=== pages/2.txt ===\ntea\n"
    assert say("show", "one", "pieces")[1] == "=== one ===\ncut_it by writer\n=== three ===\ncut_it by writer\n"
    assert json.loads(say("show", "one", "whole")[1]) == {"title": "tea", "parts": ["cut_it by writer"] * 2}
    assert json.loads(say("show", "one", "pieces", "--json")[1]) == {"one": "cut_it by writer", "three": "cut_it by writer"}


def test_the_minutes_tell_who_said_what_to_whom(say: Say) -> None:
    _, out, _ = say("log", "one")
    assert "judge_it@1/turn.0: critic asks python:desk.py:answer (at most " in out
    assert "judge_it@1: makes verdict@1 for mend_it, cut_it" in out and "no \\x1b" not in out and "\x1b" not in out
    assert "mend_it@1: starts on verdict@1, draft@1" in out
    _, out, _ = say("log", "one", "--step", "judge_it", "--kind", "fired")
    assert [line[10:] for line in out.splitlines()] == ["judge_it@1: starts on draft@1", "judge_it@2: starts on draft@2"]
    _, out, _ = say("log", "one", "--step", "judge_it", "--full")
    assert "    system\n" in out and "    answer\n      {\n        \"fine\": true\n" in out
    events = json.loads(say("log", "one", "--json")[1])
    assert events[0]["kind"] == "run_opened" and events[-1]["outcome"] == "success" and all("at" in event for event in events)
    assert json.loads(say("log", "one", "--step", "print_it", "--kind", "failed", "--json")[1]) == []


@pytest.mark.one_in(4)
def test_the_minutes_of_one_round_or_item_are_asked_for_by_its_address(say: Say) -> None:
    def told(step: str, *more: str) -> list[str]:
        return [line[10:] for line in say("log", "one", "--step", step, *more)[1].splitlines()]

    assert told("judge_it@2", "--kind", "fired") == ["judge_it@2: starts on draft@2"]
    item = told("cut_it[two]")
    assert len(item) > 2 and all(line.startswith("cut_it@1[two]") for line in item) and item == told("cut_it@1[two]")
    assert told("cut_it[two]", "--kind", "committed") == [], "it is known, and has nothing of the kind"
    for step, fix in (("cut_it[tow]", "`cut_it[tow]`: did you mean `cut_it[two]`? there is: cut_it[one], cut_it[two], "),
                      ("judge_it@3", "`judge_it@3`: did you mean `judge_it@2`? there is: judge_it@1, judge_it@2"),
                      ("judge_it[x]", "has no `judge_it[x]`: `judge_it` has no items; leave out `[…]`"),
                      ("extend_it@1", "`extend_it` of run `one` has not started: there is no `extend_it@1`"),
                      ("judge@1", "run `one` has no step `judge`: did you mean `judge_it`?"),
                      ("cut_it@1[two]~0", "names no firing: write like `STEP`"), ("@", "names no firing")):
        status, _, err = say("log", "one", "--step", step)
        assert status == 2 and fix in err and err.count("\n") == 1


def test_diff_tells_artifacts_firings_and_cost(say: Say) -> None:
    _, out, _ = say("diff", "one", "two")
    assert "-tea" in out and "+rice" in out and "  --- one:pages/pages/2.txt" in out
    assert "one:draft" not in out, "the drafts are the same"
    _, out, _ = say("diff", "one", "capped")
    assert re.search(r"^judge_it fired +2 +1$", out, re.MULTILINE) and re.search(r"^calls +7 +2$", out, re.MULTILINE)
    told = json.loads(say("diff", "one", "two", "--json")[1])
    assert set(told["artifacts"]) == {"topic", "pages", "whole"} and told["firings"] == {} and told["sop"] == []
    assert "both made the same" in say("diff", "one", "one")[1]


def test_fork_and_resume_go_on(say: Say) -> None:
    status, out, _ = say("fork", "one", "--at", "mend_it@1", "--name", "branch")
    assert status == 0 and out == "branch branches off from one before mend_it@1; continue it: sop resume branch\n"
    status, out, _ = say("resume", "branch", "--json")
    assert status == 0 and json.loads(out)["steps"]["judge_it"] == 2
    assert say("fork", "capped", "--name", "more")[0] == 0
    status, out, _ = say("resume", "more", "--budget", "calls=40")
    assert status == 0 and "run: goes on" in out and "more: success" in out
    first, *rest = out.splitlines()
    assert re.fullmatch(r"more: goes on after \d+ events, which `sop log more` tells", first)
    assert not any(" begins " in line for line in rest), "what was told before is not told again"


def test_doctor_tells_what_holds(say: Say, home: Path) -> None:
    status, out, _ = say("doctor")
    assert status == 0 and {line.split()[1] for line in out.splitlines()} - {"refused"} == {
        "python", "package", "sqlite", "libyaml", "workspace", "configuration", "model", "endpoint", "sandbox", "bubblewrap",
        "landlock", "container", "solver", "documents", "browser", "chemistry"}
    assert re.search(r"^ok +documents +pandoc \d+(\.\d+)+ and typst \d+\.\d+\.\d+$", out, re.MULTILINE)
    status, out, _ = say("doctor", "--workspace", "desk.py", "--json")
    assert status == 1 and {"what": "workspace", "state": "bad"}.items() <= json.loads(out)[4].items()


def test_doctor_tells_where_no_browser_is(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not browser_path() or re.search(f"^ok +browser +{re.escape(browser_path())}$", say("doctor")[1], re.MULTILINE)
    monkeypatch.setattr("metaflow_agents.kits.company.probing.BROWSERS", ("chromium-that-is-not-there",))
    told = next(one for one in json.loads(say("doctor", "--json")[1]) if one["what"] == "browser")
    assert told["state"] == "note" and told["said"].startswith("no chromium-that-is-not-there is installed: pages ")


def test_version(say: Say) -> None:
    assert re.fullmatch(r"metaflow-agents \d+\.\d+\.\d+\n", say("--version")[1])


# -- mistakes: one clear line, the right status

MISTAKES: dict[str, tuple[int, str]] = {
    "check nowhere.yaml": (2, "no SOP `nowhere.yaml`"),
    "check .": (2, "is a folder"),
    "check desk.py": (2, "has to end in .yaml"),
    "chekc x": (2, "check"),
    "check x --jsn": (2, "--json"),
    "run nowhere.yaml": (2, "no SOP"),
    "run --topic tea": (2, "no SOP is named"),
    "run looped.yaml --model dry": (2, "`--topic` (What to write about)"),
    "run looped.yaml --model dry --topci tea": (2, "did you mean `--topic`?"),
    "run looped.yaml --topic tea --modle dry": (2, "did you mean `--model`?"),
    "run looped.yaml --topic": (2, "`--topic` wants a value (What to write about)"),
    "run looped.yaml --topic a --topic b": (2, "given twice"),
    "run looped.yaml --topic a b": (2, "`b` is one word too many"),
    "run looped.yaml -t a": (2, "no option `-t`"),
    "run looped.yaml --topic a --word-count few": (2, "a whole number, not `few`"),
    "run looped.yaml --topic @nowhere --model dry": (2, "can't read nowhere"),
    "run looped.yaml --topic a --model drry": (2, "`drry` is no model"),
    "run looped.yaml --topic a --model dry --model x=dry": (2, "would do nothing"),
    "run looped.yaml --topic a --model x=dry --model x=dry": (2, "given twice"),
    "run looped.yaml --topic a --model python:nofile.py:f": (2, "no file `nofile.py`"),
    "run looped.yaml --topic a --model python:desk.py:anser": (2, "did you mean `answer`?"),
    "run looped.yaml --topic a --model openai:x": (5, "OPENAI_API_KEY is not set"),
    "run looped.yaml --topic a --model gpt-5": (2, "`openai:gpt-5` asks an endpoint"),
    "run looped.yaml --topic a --model manual": (2, "`manual:FOLDER` writes each prompt there"),
    "run looped.yaml --topic a --model replay:oen": (2, "did you mean `one`?"),
    "run looped.yaml --topic a --model replay:none.jsonl": (2, "there is no recording `none.jsonl`: looked for"),
    "export one": (2, "`--recording FILE.jsonl`"),
    "export one --recording x.db --answered-by me": (2, "ends in `.jsonl`"),
    "export one --recording x.jsonl": (2, "who answered?"),
    "export oen --recording x.jsonl --answered-by me": (2, "did you mean `one`?"),
    "run looped.yaml --topic a --model dry --until judge": (2, "did you mean `judge_it`?"),
    "run looped.yaml --topic a --model dry --from oen": (2, "did you mean `one`?"),
    "run looped.yaml --topic a --model dry --name one": (2, "run `one` exists already"),
    "run looped.yaml --topic a --model dry --name a/b": (2, "can't be a run's name"),
    "run looped.yaml --topic a --model dry --budget calls": (2, "write like usd=5,tokens=2M"),
    "run looped.yaml --topic a --model dry --budget call=3": (2, "did you mean `calls`?"),
    "run looped.yaml --topic a --model dry --budget calls=many": (2, "is not a count"),
    "run looped.yaml --topic a --model dry --budget calls=1,calls=2": (2, "given twice"),
    "run looped.yaml --topic a --model dry --sandbox gvisor": (2, "the sandbox `gvisor` is not built"),
    "run looped.yaml --topic a --model dry --workspace desk.py": (1, "can't make the folder"),
    "test looped.yaml": (2, "has no tests"),
    "graph looped.yaml --mermaid --json": (2, "give one"),
    "resume oen": (2, "did you mean `one`?"),
    "fork one --at judge": (2, "has no firing judge: did you mean `judge_it@2`"),
    "fork one --at judge_it@7": (2, "no firing judge_it@7"),
    "fork one --name two": (2, "exists already"),
    "show oen": (2, "did you mean `one`?"),
    "show damaged": (1, "is damaged"),
    "show one draff": (2, "did you mean `draft`?"),
    "show one draft@3": (2, "draft@1 to draft@2"),
    "show one draft@": (2, "has no version"),
    "show capped whole": (2, "has made no `whole` yet"),
    "log one --step judge": (2, "did you mean `judge_it`?"),
    "log one --kind fire": (2, "did you mean `fired`?"),
    "log damaged": (1, "is damaged"),
    "diff one": (2, "RUN2"),
    "diff one tow": (2, "did you mean `two`?"),
    "runs --workspace nowhere extra": (2, "extra"),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_told_in_one_line(line: str, say: Say, home: Path) -> None:
    (home / "workspace" / ".journals" / "damaged.db").write_bytes(b"no journal" * 400)
    try:
        status, out, err = say(*line.split())
    finally:
        (home / "workspace" / ".journals" / "damaged.db").unlink()
    expected, told = MISTAKES[line]
    assert status == expected and told in err, (status, err)
    assert err.startswith("sop: ") and err.count("\n") == 1 and "Traceback" not in err
    assert out == "" or line.startswith("run")


def test_a_damaged_journal_hides_no_other_run(say: Say, home: Path) -> None:
    (home / "workspace" / ".journals" / "harmed.db").write_bytes(b"no journal" * 400)
    try:
        status, out, _ = say("runs")
    finally:
        (home / "workspace" / ".journals" / "harmed.db").unlink()
    assert status == 0 and re.search(r"^harmed +damaged", out, re.MULTILINE) and re.search(r"^one +looped", out, re.MULTILINE)
    assert re.search(r"^harmed: .*file is not a database", out, re.MULTILINE)


def test_a_bug_is_called_one_and_its_traceback_is_there_for_who_asks(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metaflow_agents.views.listing.table", lambda *_, **__: 1 // 0)
    status, _, err = say("runs")
    assert status == 1 and "a fault of this program: " in err and "ZeroDivisionError" in err and "Traceback" not in err
    assert "PYTHONDEVMODE=1" in err and "test_cli_outputs" in err, "the place is told"


def test_problems_of_a_sop_are_told_by_run_too(say: Say, home: Path) -> None:
    (home / "wrong2.yaml").write_text(LOOPED.replace("needs: [draft, topic]", "needs: [drafd, topic]"))
    status, out, err = say("run", "wrong2.yaml", "--model", "dry", "--topic", "tea")
    assert (status, out) == (2, "") and "fix: did you mean `draft`?" in err
    assert err.splitlines()[-1].startswith("sop: the SOP has ")


@pytest.mark.parametrize(("words", "told"), [
    ("resume", "sop: Missing argument 'RUN'\n"),
    ("runs --workspace", "sop: Option '--workspace' requires an argument\n"),
    ("show --jsn", "sop: No such option: --jsn"),
    ("nowhere", "sop: No such command 'nowhere'"),
])
def test_wrong_usage_is_one_line(say: Say, words: str, told: str) -> None:
    status, out, err = say(*words.split())
    assert (status, out) == (2, "") and err.startswith(told) and err.count("\n") == 1
