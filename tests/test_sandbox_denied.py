"""Programs that a policy denies are not there for commands, by whatever name they are started."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from patience import PATIENCE
from sandboxes import BWRAP, needs_bubblewrap

from metaflow_agents import run
from metaflow_agents.errors import RunError
from metaflow_agents.models.port import ModelRequest, Reply, ToolCall
from metaflow_agents.sandbox import denied
from metaflow_agents.sandbox.bubblewrap import Bubblewrap
from metaflow_agents.sandbox.denied import ProcessTree, denied_places, hides
from metaflow_agents.sandbox.port import Completed

WAYS: dict[str, Mapping[str, Any]] = {
    row["id"]: row for row in yaml.safe_load((Path(__file__).parent / "security/denied.yaml").read_text(encoding="utf-8"))}
SHELL, REAL_SHELL = "/bin/sh", os.path.realpath("/bin/sh")
TOUCH = os.path.realpath(shutil.which("touch") or "touch")
PYTHONS = sorted({sys.executable, os.path.realpath(sys.executable)})


def argv(way: Mapping[str, Any]) -> list[str]:
    return ["sh", "-c", way["shell"]] if "shell" in way else list(way["argv"])


async def tried(way: Mapping[str, Any], *rules: str) -> bool:
    """Whether `touch` made its file."""
    ran = await Bubblewrap(BWRAP, {}).run(argv(way), files={}, changes=True, timeout=PATIENCE, denied=rules)
    assert ran.changes is not None and not ran.timed_out, ran
    return "x" in ran.changes.written


@pytest.mark.one_in(16, always=False)
@needs_bubblewrap
async def test_no_way_leads_to_a_denied_program() -> None:
    turns = asyncio.Semaphore(4)

    async def both(name: str) -> tuple[str, bool, bool]:
        async with turns:
            return name, await tried(WAYS[name]), await tried(WAYS[name], "touch")

    there = [name for name, way in WAYS.items() if shutil.which(way.get("needs", argv(way)[0])) is not None]
    found = await asyncio.gather(*map(both, there))
    assert [name for name, _, with_the_rule in found if with_the_rule] == []
    assert [name for name, without, _ in found if not without] == []                # each of them is a way
    assert len(found) > 30


async def inside(*words: str, rules: tuple[str, ...], **options: Any) -> Completed:
    return await Bubblewrap(BWRAP, {}).run(words, files={}, denied=rules, **options)


@pytest.mark.one_in(8, always=False)
@needs_bubblewrap
async def test_all_else_works_as_before() -> None:
    ran = await inside("bash", "-c", "ls >x; cat x; python3 -c 'print(1)'; wc -c <x; git --version", rules=("touch",))
    assert (ran.exit_code, ran.stdout.splitlines()[:3], ran.stderr) == (0, ["x", "1", "2"], ""), ran
    ran = await inside("python", "-c", "import subprocess; subprocess.run(['touch', 'x'])", rules=("touch",))
    assert "PermissionError: [Errno 13] Permission denied: 'touch'" in ran.stderr


@pytest.mark.slow
@needs_bubblewrap
async def test_names_are_meant_as_rules_mean_them() -> None:
    for rule in ("TOUCH", "to?ch", "t[o]uch", "touch.exe", TOUCH, "/*/touch"):
        assert not await tried(WAYS["perl-exec" if shutil.which("perl") else "itself"], rule), rule
    assert await tried(WAYS["itself"], "tou", "touchx", "/opt/touch")


@pytest.mark.one_in(8, always=False)
@needs_bubblewrap
async def test_a_denied_shell_starts_no_more_and_the_sandbox_does() -> None:
    """The sandbox itself begins every command by it."""
    ran = await inside("python", "-c", "import os; print(os.system('echo told'), sorted(os.listdir('/proc/self/fd'))[:3])",
                       rules=("sh", "bash", "dash", "sleep", "rm", "setpriv", "bwrap"))
    assert (ran.exit_code, ran.stdout) == (0, "32512 ['0', '1', '2']\n"), ran
    for path in (SHELL, "/sop/sh", REAL_SHELL, "/proc/1/exe"):
        ran = await inside("python", "-c", f"import os; os.execv({path!r}, ['sh', '-c', 'echo told'])", rules=("sh",))
        assert ran.exit_code == 1 and "told\n" not in ran.stdout, ran


@pytest.mark.one_in(8)
@needs_bubblewrap
async def test_denied_python_is_there_for_its_own_tool_alone(tmp_path: Path) -> None:
    look = "import os; print([path for path in %r if os.access(path, os.X_OK)])"
    ran = await inside("perl", "-e", f"print join ' ', grep {{ -x }} qw({' '.join(PYTHONS)})", rules=("python*",))
    if shutil.which("perl"):
        assert (ran.exit_code, ran.stdout) == (0, ""), ran
    async with Bubblewrap(BWRAP, {}).interpreter(files={}, denied=("python*", "touch")) as python:
        done = await python.execute(look % (PYTHONS,), PATIENCE)
        assert not done.error and done.stdout.count("python") >= 1, done
        done = await python.execute("import subprocess; subprocess.run(['touch', 'x'])", PATIENCE)
        assert "PermissionError" in done.stderr
    with pytest.raises(RunError, match="a rule denies Python to commands that may reach hosts"):
        await inside("true", rules=("python*",), proxy=tmp_path / "proxy")


@pytest.mark.one_in(4)
@needs_bubblewrap
async def test_bubblewrap_with_the_setuid_bit_cannot_do_without_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    from metaflow_agents.sandbox import bubblewrap

    monkeypatch.setattr(bubblewrap, "_has_setuid", lambda _: True)
    box = Bubblewrap(BWRAP, {})
    box.owner = None
    with pytest.raises(RunError, match="`/bin/sh` can't be denied where"):
        await box.run(["true"], files={}, denied=("sh",))


def program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_a_file_goes_with_all_its_names(tmp_path: Path) -> None:
    """Links, hard links out of reach of PATH, the same folder shown twice; not what is called so and is no program."""
    real = program(tmp_path / "lib/deep/real")
    os.link(real, tmp_path / "lib/hard")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/tool").symlink_to(real)
    (tmp_path / "bin/broken").symlink_to("nowhere")
    program(tmp_path / "bin/other")
    (tmp_path / "share").mkdir()
    (tmp_path / "share/tool").write_text("what completes its words")
    shown = (
        ProcessTree(str(tmp_path / "lib"), "/lib"),
        ProcessTree(str(tmp_path / "bin"), "/bin"),
        ProcessTree(str(tmp_path / "lib"), "/lib64"),
        ProcessTree(str(tmp_path / "share"), "/share"),
        ProcessTree(str(tmp_path / "bin/other"), "/alone"),
        ProcessTree("/nowhere", "/nowhere"),
    )
    everywhere = ("/lib/deep/real", "/lib/hard", "/lib64/deep/real", "/lib64/hard")
    assert denied_places(("tool",), shown) == denied_places(("hard", "none"), shown) == everywhere
    assert denied_places(("/bin/tool",), shown) == denied_places(("/li*/real",), shown) == everywhere
    assert denied_places(("alone",), shown) == ("/alone", "/bin/other") and denied_places(("broken", "bin"), shown) == ()
    assert denied_places(("tool",), shown, str(tmp_path / "lib/hard")) == ()
    assert hides(everywhere, str(tmp_path / "bin/tool"), shown) and not hides(everywhere, str(tmp_path / "bin/other"), shown)


def test_git_has_its_commands_beside_it(tmp_path: Path) -> None:
    for name in ("git", "git-remote-http", "gitk"):
        program(tmp_path / name)
    assert denied_places(("git",), (ProcessTree(str(tmp_path), "/bin"),)) == ("/bin/git", "/bin/git-remote-http")


def test_more_than_can_be_taken_away_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(denied, "MOST", 2)
    for name in ("a1", "a2", "a3"):
        program(tmp_path / name)
    with pytest.raises(RunError, match=r"`run\(a\* \*\)` are about 3 files, and at most 2 can be taken away"):
        denied_places(("a*",), (ProcessTree(str(tmp_path), "/bin"),))


SOP = """
sop: guarded
policy: {deny: ["run(touch *)", "run(git push *)"]}
roles:
  worker: {profile: a worker, tools: [run, python, start_role], policy: {preset: workspace, deny: ["run(chmod)"]}}
  helper: {profile: a helper, tools: [run]}
artifacts: {source: {files: "**"}}
steps:
  work: {role: worker, makes: source, task: work}
"""


class Turns:
    """A model that makes one call after the other, and keeps what it is told."""

    def __init__(self, *calls: tuple[str, Mapping[str, Any]]) -> None:
        self.calls, self.told = list(calls), list[str]()

    def __call__(self, request: ModelRequest) -> Any:
        self.told = [message["content"] for message in request.messages if message["role"] == "tool"]
        if request.role == "helper":
            words = ["make", "--eval=x:;>z; chmod 777 z && echo yes >x || echo no >x", "x"]
            return "done" if self.told else Reply(text="", calls=(ToolCall(id="h", name="run", arguments={"command": words}),))
        if not self.calls:
            return "done"
        name, arguments = self.calls.pop(0)
        return Reply(text="", calls=(ToolCall(id=f"c{len(self.calls)}", name=name, arguments=dict(arguments)),))


@pytest.mark.one_in(8, always=False)
@needs_bubblewrap
async def test_a_policy_holds_in_what_its_commands_start(tmp_path: Path) -> None:
    """What only the words of a command say is got round; the file of a program is not."""
    path = tmp_path / "guarded.yaml"
    path.write_text(SOP)
    started = ("import subprocess\nfor name in ('touch', 'chmod', 'true'):\n"
               "    try: print(subprocess.run([name, 'x']).returncode)\n"
               "    except PermissionError as error: print(error.strerror)\n")
    model = Turns(("run", {"command": ["touch", "x"]}), ("run", {"command": ["sed", "1e touch x", "/etc/passwd"]}),
                  ("run", {"command": ["find", "/etc/passwd", "-fprint", "y"]}), ("python", {"code": started}))
    result = await run(path, model=model, workspace=None)
    assert result["source"] == {"y": "/etc/passwd\n"}
    asked = model.told
    assert "`run(touch x)` is not allowed (deny run(touch *) of the SOP)" in asked[0]
    assert "touch: Permission denied" in asked[1] and "exit code 0" in asked[2]
    assert "Permission denied\nPermission denied\n0\n" in asked[3]


@pytest.mark.one_in(4)
@needs_bubblewrap
async def test_a_role_that_is_started_is_denied_what_its_starter_is(tmp_path: Path) -> None:
    path = tmp_path / "guarded.yaml"
    path.write_text(SOP)
    result = await run(path, model=Turns(("start_role", {"role": "helper", "task": "make x"})), workspace=None)
    assert result["source"] == {"x": "no\n", "z": ""}
