"""The plugin door: what a stranger's distribution adds, in processes where it is installed beside ours, and where it is not."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cli_desk import SOP
from patience import PATIENCE, until
from plugged import VERSION, beside, environment, install, wheel

from metaflow_agents.api.run import start
from metaflow_agents.errors import MemoryFault, MetaflowError
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.places import journal_path
from metaflow_agents.memory.indexes import make_index
from metaflow_agents.schema.event import Decided, Observed, Resumed

DRAWN = """
sop: drawn
inputs: {word: string, log: string, hold: {type: string, default: ""}}
artifacts: {first: {}, picture: {file: picture.txt}}
steps:
  sketch: {use: draw, with: {word: "{{ word }}", log: "{{ log }}"}, needs: [word, log], makes: first}
  paint: {use: draw, with: {word: "{{ word }}", width: 2, log: "{{ log }}", hold: "{{ hold }}"}, needs: [first, word, log, hold],
          makes: picture}
"""


def sop(folder: Path, env: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*SOP, *words], cwd=folder, env=dict(env), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=PATIENCE)


def written(folder: Path, **sops: str) -> Path:
    for name, text in sops.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder


def opened(folder: Path, run: str) -> Any:
    with Journal.read(journal_path(folder / "workspace", run)) as journal:
        return journal.state.opened


def killed(folder: Path, env: Mapping[str, str], *words: str, calls: int) -> str:
    """What `sop …` printed until its process got SIGKILL, as the executor was called for the so-manieth time."""
    log, out = folder / "log", folder / "out"
    with out.open("wb") as printed, subprocess.Popen([*SOP, *words], cwd=folder, env=dict(env), stdin=subprocess.DEVNULL,
                                                     stdout=printed, stderr=printed) as process:
        until(lambda: (log.exists() and len(log.read_text().split()) == calls) or process.poll() is not None, "it is called")
        os.kill(process.pid, signal.SIGKILL)
    return out.read_text()


def killed_at_paint(folder: Path, env: Mapping[str, str]) -> None:
    """A run whose process gets SIGKILL while `paint` is under way, which waits for `hold` to go."""
    written(folder, drawn=DRAWN)
    (folder / "hold").touch()
    killed(folder, env, "run", "drawn.yaml", "--word", "cat", "--log", str(folder / "log"), "--hold", str(folder / "hold"),
           "--name", "it", calls=2)
    assert (folder / "log").read_text().split() == ["sketch@1~0", "paint@1~0"]


@pytest.mark.one_in(16, always=False)
def test_a_type_of_step_is_checked_run_killed_and_resumed(acme: Path, tmp_path: Path) -> None:
    env = beside(acme)
    killed_at_paint(tmp_path, env)
    (tmp_path / "hold").unlink()
    assert sop(tmp_path, env, "check", "drawn.yaml").returncode == 0
    done = sop(tmp_path, env, "resume", "it")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "workspace" / "it" / "picture.txt").read_text().startswith("CATCAT\nfirst: CATCATCAT\nword: cat\n")
    assert (tmp_path / "log").read_text().split() == ["sketch@1~0", "paint@1~0", "paint@1~0"]      # the sketch is not made again
    assert opened(tmp_path, "it").plugins == {"executors/draw": f"acme-sop {VERSION}"}


@pytest.mark.one_in(8, always=False)
def test_a_resume_without_the_package_is_refused_by_its_name_with_the_fix(acme: Path, tmp_path: Path) -> None:
    killed_at_paint(tmp_path, beside(acme))
    (tmp_path / "hold").unlink()
    refused = sop(tmp_path, environment(), "resume", "it")
    assert refused.returncode == 2
    assert ("run `it` uses `draw` (executors) of acme-sop 1.2, which is not installed: install acme-sop 1.2 again from where you "
            "had it (the journal does not say where: ") in refused.stderr
    assert "then `sop resume it`" in refused.stderr and "pip install" not in refused.stderr       # an index may have another's
    assert sop(tmp_path, beside(acme), "resume", "it").returncode == 0         # nothing was changed by the refusal


@pytest.mark.one_in(16, always=False)
def test_another_version_goes_on_and_says_so_once(acme: Path, tmp_path: Path) -> None:
    killed_at_paint(tmp_path, beside(acme))
    newer = tmp_path / "newer"
    install(wheel(tmp_path, "1.3"), newer)
    first = killed(tmp_path, beside(newer), "resume", "it", calls=3)
    (tmp_path / "hold").unlink()
    then = sop(tmp_path, beside(newer), "resume", "it")
    told = "acme-sop 1.3 in place of acme-sop 1.2"
    assert told in first and then.returncode == 0 and told not in then.stdout, (first, then.stdout, then.stderr)
    with Journal.read(journal_path(tmp_path / "workspace", "it")) as journal:
        assert [event.replaced for _, event in journal.events(Resumed)] == [(told,), ()]


@pytest.mark.one_in(8, always=False)
def test_an_accepted_change_does_without_the_package(acme: Path, tmp_path: Path) -> None:
    killed_at_paint(tmp_path, beside(acme))
    written(tmp_path, drawn=DRAWN.replace('use: draw, with: {word: "{{ word }}", log: "{{ log }}"}', "value: word").replace(
        'use: draw, with: {word: "{{ word }}", width: 2, log: "{{ log }}", hold: "{{ hold }}"}', "value: first"))
    assert "acme-sop" in sop(tmp_path, environment(), "resume", "it").stderr
    done = sop(tmp_path, environment(), "resume", "it", "--accept-changes")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "workspace" / "it" / "picture.txt").read_text() == f"CATCATCAT\nword: cat\nlog: {tmp_path / 'log'}\n"


@pytest.mark.one_in(8, always=False)
@pytest.mark.parametrize(("change", "code", "told"), [
    ({"use: draw, with: {word": "use: drow, with: {word"}, "unknown-plugin", "there is no type of step `drow`"),
    ({"width: 2": "wide: 2"}, "plugin-parameter", "`use: draw` takes no `wide`"),
    ({"width: 2": "width: much"}, "plugin-parameter", "width"),
    ({'with: {word: "{{ word }}", log': "with: {log"}, "plugin-parameter", "`use: draw` wants `word`"),
    ({"use: draw, with": "use: draw, args: {a: 1}, with"}, "key-misplaced", "`args` is a key of `call` steps")])
def test_what_is_wrong_with_a_step_of_a_package_is_told_at_its_place(change: dict[str, str], code: str, told: str, acme: Path,
                                                                     tmp_path: Path) -> None:
    (before, after), = change.items()
    written(tmp_path, drawn=DRAWN.replace(before, after, 1))
    found = sop(tmp_path, beside(acme), "check", "drawn.yaml")
    assert found.returncode == 2 and f"[{code}]" in found.stdout and told in found.stdout, (found.stdout, found.stderr)


@pytest.mark.one_in(4)
def test_without_the_package_the_name_is_unknown_and_the_group_is_named(tmp_path: Path) -> None:
    found = sop(written(tmp_path, drawn=DRAWN), environment(), "check", "drawn.yaml")
    assert "[unknown-plugin]" in found.stdout and "metaflow_agents.executors" in found.stdout


@pytest.mark.one_in(12, always=False)
def test_a_package_that_cant_be_loaded_is_named_and_harms_nobody_else(acme: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(acme, broken)
    for name in ("executor", "strategy"):
        (broken / "acme_sop" / f"{name}.py").write_text("import no_such_module\n")
    written(tmp_path, drawn=DRAWN, plain="sop: plain\nartifacts: {it: {}}\nsteps: {say: {value: \"'hello'\", makes: it}}\n",
            thought="sop: thought\nroles: {writer: {profile: You write.}}\nartifacts: {it: {}}\n"
                    "steps: {say: {role: writer, task: Go., strategy: twice, makes: it}}\n")
    env = beside(broken)
    for name in ("drawn", "thought"):
        found = sop(tmp_path, env, "check", f"{name}.yaml")
        assert found.returncode == 2 and "[plugin-broken]" in found.stdout, (found.stdout, found.stderr)
        assert "acme-sop 1.2" in found.stdout and "no_such_module" in found.stdout
    assert sop(tmp_path, env, "run", "plain.yaml").returncode == 0
    said = sop(tmp_path, env, "doctor", "--json")
    states = {one["said"]: one["state"] for one in json.loads(said.stdout) if one["what"] == "plugin"}
    assert any("`draw` (executors)" in text and state == "note" for text, state in states.items()), states
    assert any("`acme.words` (functions)" in text and state == "ok" for text, state in states.items())


@pytest.mark.one_in(16, always=False)
def test_a_result_of_an_earlier_run_is_taken_over_unless_its_package_changed(acme: Path, tmp_path: Path) -> None:
    written(tmp_path, drawn=DRAWN)
    log = tmp_path / "log"
    words = ["run", "drawn.yaml", "--word", "cat", "--log", str(log)]
    assert sop(tmp_path, beside(acme), *words, "--name", "a").returncode == 0
    assert sop(tmp_path, beside(acme), *words, "--name", "b", "--from", "a").returncode == 0
    assert len(log.read_text().split()) == 2
    newer = tmp_path / "newer"
    install(wheel(tmp_path, "1.3"), newer)
    assert sop(tmp_path, beside(newer), *words, "--name", "c", "--from", "b").returncode == 0
    assert len(log.read_text().split()) == 4


SHOPPING = """
sop: shopping
secrets: [SHOP_KEY]
inputs: {ware: string}
tools: {acme: {source: shop, with: {stock: {tea: 3}, key: "${SHOP_KEY}"}, effects: {order: once}}}
artifacts: {count: {schema: {ware: string, count: integer}}}
steps: {look: {tool: acme.count, inputs: {ware: ware}, needs: [ware], makes: count, parse: json}}
outputs: [count]
"""


@pytest.mark.one_in(12, always=False)
def test_a_source_of_tools_is_called_under_the_policy_and_its_words_are_untrusted(acme: Path, tmp_path: Path) -> None:
    env = {**beside(acme), "SHOP_KEY": "sesame-4711"}
    written(tmp_path, shopping=SHOPPING, denied=SHOPPING.replace("sop: shopping", "sop: denied\npolicy: {deny: ['call(acme)']}"))
    assert sop(tmp_path, env, "check", "shopping.yaml").returncode == 0
    done = sop(tmp_path, env, "run", "shopping.yaml", "--ware", "tea", "--json", "--name", "it")
    assert json.loads(done.stdout)["outputs"] == {"count": {"ware": "tea", "count": 3}}, (done.stdout, done.stderr)
    assert opened(tmp_path, "it").plugins == {"tools/shop": f"acme-sop {VERSION}"}
    with Journal.read(journal_path(tmp_path / "workspace", "it")) as journal:
        decided, = (event for _, event in journal.events(Decided))
        assert (decided.action, decided.verdict) == ("call(acme.count)", "allow")
        assert journal.state.untrusted("count") == "from acme-sop 1.2"
    failed = sop(tmp_path, env, "run", "shopping.yaml", "--ware", "coffee", "--name", "other")
    assert failed.returncode == 1 and "no coffee on the shelf of [secret SHOP_KEY]" in failed.stdout, failed.stdout
    assert "sesame-4711" not in failed.stdout + failed.stderr
    refused = sop(tmp_path, env, "run", "denied.yaml", "--ware", "tea")
    assert refused.returncode == 1 and "deny call(acme)" in refused.stdout, refused.stdout


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("before", "after", "code"), [
    ("source: shop", "source: shpo", "unknown-plugin"), ("stock: {tea: 3}, ", "", "plugin-parameter"),
    ("{tea: 3}", "{tea: many}", "plugin-parameter"), ("effects: {order: once}", "effect: once", "tool-form"),
    ("acme.count", "acme", "tool-step"), ("acme.count", "amce.count", "unknown-tool")])
def test_what_is_wrong_with_a_source_of_tools_is_told(before: str, after: str, code: str, acme: Path, tmp_path: Path) -> None:
    written(tmp_path, shopping=SHOPPING.replace(before, after))
    found = sop(tmp_path, beside(acme), "check", "shopping.yaml")
    assert found.returncode == 2 and f"[{code}]" in found.stdout, (found.stdout, found.stderr)


SAID = """
sop: said
roles: {bird: {profile: You repeat., model: bird}}
models: {bird: "parrot:Polly"}
artifacts: {first: {}, last: {file: last.txt}}
steps:
  hear: {role: bird, task: Say hello, makes: first}
  say: {role: bird, task: Say goodbye, needs: [first], strategy: twice, makes: last}
"""


@pytest.mark.one_in(12, always=False)
def test_models_and_strategies_are_checked_run_killed_and_resumed(acme: Path, tmp_path: Path) -> None:
    env = {**beside(acme), "PARROT_HOLD": str(tmp_path / "hold")}
    written(tmp_path, said=SAID)
    assert sop(tmp_path, env, "check", "said.yaml").returncode == 0
    (tmp_path / "hold").touch()
    with subprocess.Popen([*SOP, "run", "said.yaml", "--name", "it"], cwd=tmp_path, env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        until(lambda: "reserved" in log_of(tmp_path, "it") or process.poll() is not None, "a call is under way")
        os.kill(process.pid, signal.SIGKILL)
    (tmp_path / "hold").unlink()
    refused = sop(tmp_path, environment(), "resume", "it")
    assert refused.returncode == 2 and "`parrot` (models) of acme-sop 1.2, which is not installed" in refused.stderr
    done = sop(tmp_path, env, "resume", "it")
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert (tmp_path / "workspace" / "it" / "last.txt").read_text() == "parrot:Polly says answer.\n"
    assert opened(tmp_path, "it").plugins == {"models/parrot": "acme-sop 1.2", "strategies/twice": "acme-sop 1.2"}


def log_of(folder: Path, run: str) -> str:
    """The kinds of the events of a run, as far as it got."""
    if not journal_path(folder / "workspace", run).exists():
        return ""
    try:
        with Journal.read(journal_path(folder / "workspace", run)) as journal:
            return " ".join(event.kind for _, event in journal.events())
    except MetaflowError:                       # it is just being made
        return ""


@pytest.mark.one_in(4)
def test_what_is_no_model_of_a_package_is_told_with_its_forms(acme: Path, tmp_path: Path) -> None:
    written(tmp_path, said=SAID)
    env = beside(acme)
    unknown = sop(tmp_path, env, "run", "said.yaml", "--model", "parot:Polly")
    assert unknown.returncode == 2 and "parrot:NAME" in unknown.stderr
    bare = sop(tmp_path, env, "run", "said.yaml", "--model", "parrot")
    assert bare.returncode == 2 and "write `parrot:NAME`" in bare.stderr, bare.stderr
    mute = sop(tmp_path, env, "run", "said.yaml", "--model", "parrot:mute")
    assert mute.returncode == 5 and "PARROT_KEY" in mute.stderr
    written(tmp_path, tested=SAID.replace("sop: said", "sop: tested") + "tests: {flies: {model: 'parrot:Polly'}}\n")
    assert "[model-in-test]" in sop(tmp_path, env, "check", "tested.yaml").stdout


def test_an_index_is_found_by_its_name_and_held_to_its_port(acme_here: Path) -> None:
    np = pytest.importorskip("numpy")
    index, exact = (make_index(name, 2, "cosine") for name in ("by_length", "exact"))
    for one in (index, exact):
        one.add(np.array([1, 2, 3], np.int64), np.array([[1, 0], [1, 4], [3, 3]], np.float32))
    found, wanted = (one.nearest(np.array([1, 1], np.float32), 2) for one in (index, exact))
    assert [number for number, _ in found] == [number for number, _ in wanted] and len(index) == 3
    assert [value for _, value in found] == pytest.approx([value for _, value in wanted])
    index._index.nearest = lambda vector, count: [(7, 1.0)]         # type: ignore[attr-defined]
    with pytest.raises(MemoryFault, match=r"`by_length` of acme-sop 1\.2 gave 1 memories for 2"):
        index.nearest(np.array([1, 1], np.float32), 2)
    with pytest.raises(MemoryFault, match="there is no index `by_lenght`: did you mean `by_length`"):
        make_index("by_lenght", 2)


@pytest.mark.one_in(8, always=False)
def test_an_index_that_is_unknown_is_told_by_check_and_one_that_is_used_is_in_the_journal(acme: Path, tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    recalls = SAID.replace("model: bird}", "model: bird, memory: {window: 0 turns, recall: {importance: 0, embeddings: dry, "
                           "index: by_length}}}")
    written(tmp_path, known=recalls, unknown=recalls.replace("by_length", "by_lenght"))
    env = beside(acme)
    told = sop(tmp_path, env, "check", "unknown.yaml")
    assert told.returncode == 2 and "there is no index `by_lenght`" in told.stdout and "did you mean `by_length`" in told.stdout
    done = sop(tmp_path, env, "run", "known.yaml", "--name", "it")
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert opened(tmp_path, "it").plugins["memory_indexes/by_length"] == "acme-sop 1.2"


@pytest.mark.one_in(8, always=False)
def test_a_command_of_a_package(acme: Path, tmp_path: Path) -> None:
    written(tmp_path, drawn=DRAWN)
    env = beside(acme)
    done = sop(tmp_path, env, "weigh", "drawn.yaml")
    assert (done.returncode, done.stdout) == (0, "drawn.yaml weighs 2\n"), done.stderr
    assert "weigh  acme-sop 1.2" in " ".join(sop(tmp_path, env, "--help").stdout.split("\n")).replace("   ", " ")
    assert "A SOP." in sop(tmp_path, env, "weigh", "--help").stdout
    broken = sop(tmp_path, env, "weigh", "drawn.yaml", "--break-it")
    assert broken.returncode == 1 and "`sop weigh` of acme-sop 1.2 failed" in broken.stderr and "scales" in broken.stderr
    unknown = sop(tmp_path, environment(), "weigh", "drawn.yaml")
    assert unknown.returncode == 2 and "weigh" in unknown.stderr


@pytest.mark.one_in(4)
def test_what_a_package_exports_and_checks(acme: Path, tmp_path: Path) -> None:
    written(tmp_path, called="sop: called\nartifacts: {it: {}}\nsteps: {say: {call: 'acme.words:first', args: {text: one two}, "
                             "makes: it}}\n")
    env = beside(acme)
    assert json.loads(sop(tmp_path, env, "run", "called.yaml", "--name", "it", "--json").stdout)["outputs"] == {"it": "one"}
    assert opened(tmp_path, "it").plugins == {"functions/acme.words": "acme-sop 1.2"}
    assert sop(tmp_path, env, "export", "it", "--for", "acme_names", "--output", "names.jsonl").returncode == 0
    assert (tmp_path / "names.jsonl").read_text() == '{"sop":"called.yaml"}\n'
    said = {one["what"]: one for one in json.loads(sop(tmp_path, env, "doctor", "--json").stdout)}
    assert said["acme"] == {"what": "acme", "state": "ok", "said": "the drawing board is flat"}


@pytest.mark.one_in(4)
def test_a_screen_of_a_package_ends_a_run_and_a_broken_one_begins_none(acme: Path, tmp_path: Path) -> None:
    written(tmp_path, told="sop: told\ninputs: {word: string}\npolicy: {screen: [anvils]}\nartifacts: {it: {}}\n"
                           "steps: {say: {value: word, needs: [word], makes: it}}\n")
    env = beside(acme)
    done = sop(tmp_path, env, "run", "told.yaml", "--word", "a hammer", "--name", "fine")
    assert done.returncode == 0 and opened(tmp_path, "fine").plugins == {"screens/anvils": "acme-sop 1.2"}, done.stderr
    assert sop(tmp_path, env, "run", "told.yaml", "--word", "an Anvil", "--name", "it").returncode == 1
    audit = " ".join(sop(tmp_path, env, "log", "it", "--audit").stdout.split())
    assert "deny screen(input word)" in audit and "deny screen(anvils) of the SOP: an anvil" in audit
    broken = sop(tmp_path, {**env, "ANVILS_BREAK": "1"}, "run", "told.yaml", "--word", "a hammer", "--name", "never")
    assert broken.returncode == 2 and "can't run, so the run does not begin: OSError: no anvil" in broken.stderr, broken.stderr
    assert not journal_path(tmp_path / "workspace", "never").exists()
    assert "there is no screen `anvils`" in sop(tmp_path, environment(), "check", "told.yaml").stdout


@pytest.mark.one_in(4)
def test_nothing_of_a_package_is_imported_before_it_is_named(acme: Path, tmp_path: Path) -> None:
    written(tmp_path, plain="sop: plain\nartifacts: {it: {}}\nsteps: {say: {value: \"'hello'\", makes: it}}\n")
    code = ("import sys\nfrom metaflow_agents.cli import command\n"
            "print(command(['check', 'plain.yaml']), command(['run', 'plain.yaml']), command(['--help']))\n"
            "print([name for name in sys.modules if name.startswith('acme_sop')])\n")
    done = subprocess.run([SOP[0], "-c", code], cwd=tmp_path, env=beside(acme), capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout.splitlines()[-2:] == ["0 0 0", "[]"], (done.stdout, done.stderr)


@pytest.mark.one_in(4)
def test_the_core_works_without_any_package_and_imports_no_kit(tmp_path: Path) -> None:
    written(tmp_path, plain="sop: plain\nroles: {writer: {profile: You write.}}\nartifacts: {it: {}, words: {schema: integer}}\n"
                            "steps:\n  say: {role: writer, task: Go., makes: it}\n"
                            "  count: {value: it | length, needs: [it], makes: words}\ntests: {walks: {model: dry}}\n")
    code = ("import importlib.metadata as metadata\n"
            "metadata.entry_points = lambda **_: metadata.EntryPoints()\n"
            "import sys\nfrom metaflow_agents import plugins\nfrom metaflow_agents.cli import command\n"
            "assert not any(plugins.installed(group) for group in plugins.GROUPS)\n"
            "print(command(['check', 'plain.yaml']), command(['run', 'plain.yaml', '--model', 'dry', '--name', 'it']),\n"
            "      command(['test', 'plain.yaml']), command(['show', 'it']), command(['schema']))\n"
            "print([name for name in sys.modules if name.startswith('metaflow_agents.kits')])\n")
    done = subprocess.run([SOP[0], "-c", code], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout.splitlines()[-2:] == ["0 0 0 0 0", "[]"], (done.stdout[-2000:], done.stderr)


@pytest.mark.one_in(8, always=False)
def test_a_renderer_shows_a_run_and_a_broken_one_breaks_nothing(acme: Path, tmp_path: Path) -> None:
    written(tmp_path, said=SAID)
    env = beside(acme)
    shown = sop(tmp_path, env, "run", "said.yaml", "--progress", "dots", "--name", "it")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith(".\n..\nit: 2 of 2\nit: success\n"), shown.stdout
    broken = sop(tmp_path, {**env, "DOTS_BREAK": "1"}, "run", "said.yaml", "--progress", "dots", "--name", "other")
    assert broken.returncode == 0 and "`dots` failed, and plain lines go on" in broken.stderr, broken.stderr
    assert "hear@1" in broken.stdout.partition("other: success")[0], broken.stdout
    unknown = sop(tmp_path, env, "run", "said.yaml", "--progress", "dotts")
    assert unknown.returncode == 2 and "did you mean `dots`" in unknown.stderr
    assert not (tmp_path / "workspace" / "said").exists()


async def test_what_an_executor_gave_is_observed(acme_here: Path, tmp_path: Path) -> None:
    written(tmp_path, drawn=DRAWN)
    async with start(tmp_path / "drawn.yaml", word="cat", log="", workspace=None) as going:
        assert (await going.result()).ok
        assert [event.key for _, event in going.journal.events(Observed)] == ["sketch@1~0/use", "paint@1~0/use"]


@pytest.mark.one_in(8, always=False)
def test_the_package_of_the_page_is_built_and_its_sop_runs(tmp_path: Path) -> None:
    page = (Path(__file__).parent.parent / "docs" / "how-to" / "plugins.md").read_text(encoding="utf-8")
    source = tmp_path / "source"
    source.mkdir()
    for block in re.findall(r"^```\w+\n(# file: .*?)^```$", page, re.M | re.S):
        (source / block.split()[2]).write_text(block, encoding="utf-8")
    install(wheel(tmp_path, "0.1", source), tmp_path / "there")
    env = beside(tmp_path / "there")
    written(tmp_path, banner=(source / "banner.yaml").read_text(encoding="utf-8"))
    assert sop(tmp_path, env, "check", "banner.yaml").returncode == 0
    done = sop(tmp_path, env, "run", "banner.yaml", "--title", "hello", "--name", "it")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "workspace" / "it" / "banner.txt").read_text() == "#########\n# HELLO #\n#########\n"
    assert opened(tmp_path, "it").plugins == {"executors/banner": "banner-sop 0.1"}


@pytest.mark.one_in(8, always=False)
def test_a_call_of_a_packages_tool_is_killed_and_made_again_as_its_effect_says(acme: Path, tmp_path: Path) -> None:
    hold = tmp_path / "hold"
    held = SHOPPING.replace('key: "${SHOP_KEY}"', f'hold: "{hold}"').replace("secrets: [SHOP_KEY]\n", "")
    written(tmp_path, shopping=held)
    hold.touch()
    with subprocess.Popen([*SOP, "run", "shopping.yaml", "--ware", "tea", "--name", "it"], cwd=tmp_path, env=beside(acme),
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        until(lambda: (tmp_path / "hold.log").exists() or process.poll() is not None, "the tool is called")
        os.kill(process.pid, signal.SIGKILL)
    hold.unlink()
    refused = sop(tmp_path, environment(), "resume", "it")
    assert refused.returncode == 2 and "`shop` (tools) of acme-sop 1.2, which is not installed" in refused.stderr
    done = sop(tmp_path, beside(acme), "resume", "it", "--json")
    assert json.loads(done.stdout)["outputs"] == {"count": {"ware": "tea", "count": 3}}, (done.stdout, done.stderr)
    assert (tmp_path / "hold.log").read_text().split() == ["count", "count"]          # its effect is `none`


@pytest.mark.one_in(4)
def test_editors_are_told_what_is_installed(acme: Path, tmp_path: Path) -> None:
    found = json.loads(sop(tmp_path, beside(acme), "schema").stdout)["definitions"]
    assert found["Step"]["properties"]["use"]["examples"] == ["draw"]
    assert found["ToolSpec"]["properties"]["source"]["examples"] == ["shop"]
    assert found["Recall"]["properties"]["index"]["examples"] == ["hnsw", "exact", "faiss", "by_length"]
