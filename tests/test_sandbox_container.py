"""The sandbox `container`, with a stand-in for the program: what it is asked for, what comes of a command, what is left."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from patience import PATIENCE, until
from sandboxes import comes, gone

from metaflow_agents.errors import RunError
from metaflow_agents.sandbox import container, probe
from metaflow_agents.sandbox.container import Container, build_line
from metaflow_agents.sandbox.engines import IMAGE, Engine
from metaflow_agents.sandbox.limits import SandboxLimits
from metaflow_agents.sandbox.profile import profile
from metaflow_agents.settings import Settings

DIGEST = "sha256:" + "5" * 64


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    program = tmp_path / "docker"
    stand_in = Path(__file__).with_name("docker_stand_in.py")
    program.write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -I {shlex.quote(str(stand_in))} \"$@\"\n")
    program.chmod(0o755)
    return Engine(None, None, (("PATH", f"{tmp_path}:{os.defpath}"), ("STAND_IN", str(tmp_path)), ("STAND_IN_IMAGES", IMAGE)))


def box(engine: Engine, **limits: int) -> Container:
    return Container(engine.found()[0], DIGEST, dict(engine.environment), limits=SandboxLimits(**limits))


def asked(tmp_path: Path, kind: str) -> list[list[str]]:
    calls = [json.loads(line) for line in (tmp_path / "asked").read_text().splitlines()]
    return [call for call in calls if call[0] == kind]


async def test_a_command_is_asked_for_with_every_wall(engine: Engine, tmp_path: Path) -> None:
    ran = await box(engine, memory=1 << 27, processes=20).run(["sh", "-c", "echo out; echo err >&2; echo new >new; exit 3"],
                                                              files={"a": b"1"}, changes=True, timeout=PATIENCE)
    assert (ran.exit_code, ran.stdout, ran.stderr) == (3, "out\n", "err\n") and ran.changes is not None
    assert ran.changes.written == {"new": b"new\n"}
    call, = asked(tmp_path, "run")
    options = call[:call.index(DIGEST)]
    pairs = set(pairwise(options))
    assert {"--rm", "--read-only", "--interactive"} <= set(options)
    assert {("--network", "none"), ("--cap-drop", "ALL"), ("--security-opt", "no-new-privileges"), ("--pull", "never"),
            ("--memory", str(1 << 27)), ("--memory-swap", str(1 << 27)), ("--pids-limit", "21"), ("--hostname", "sop")} <= pairs
    user = options[options.index("--user") + 1]
    assert not user.startswith("0:") and "0" not in user.split(":")
    mounts = [value for key, value in pairs if key == "--mount"]
    assert sorted(value.split("target=")[1] for value in mounts) == ["/sop/home", "/sop/tmp", "/sop/work"]
    temporary = options[options.index("--tmpfs") + 1]
    assert f"size={256 << 20}" in temporary and "nr_inodes=100000" in temporary
    assert not any("TERM" in value or "STAND_IN" in value for key, value in pairs if key == "--env")
    file = next(value.partition("=")[2] for key, value in pairs if key == "--security-opt" and value.startswith("seccomp="))
    assert file.endswith("seccomp.json")


async def test_what_cannot_be_started_is_told_as_everywhere(engine: Engine) -> None:
    for argv, code, said in ((["nope"], 127, "nope: command not found\n"), (["/etc"], 126, "/etc: Permission denied\n"),
                             (["sh", "-c", "kill -9 $$"], -9, "")):
        ran = await box(engine).run(argv, files={}, timeout=PATIENCE)
        assert (ran.exit_code, ran.stderr) == (code, said), argv


async def test_a_killed_run_s_container_is_removed_by_its_name(engine: Engine, tmp_path: Path) -> None:
    marker = f"56.{os.getpid()}"
    task = asyncio.create_task(box(engine).run(["sleep", marker], files={}))
    # Its words stand in the process table before the stand-in has begun.
    await asyncio.to_thread(until, lambda: list(tmp_path.glob("*.pid")), "a container")
    assert await comes(marker)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    name = asked(tmp_path, "run")[0]
    removed, = asked(tmp_path, "rm")
    assert removed == ["rm", "--force", name[name.index("--name") + 1]] and f"{container.LABEL}={os.getpid()}" in name
    ran = await box(engine).run(["sleep", marker + "7"], files={}, timeout=0.5)
    assert ran.timed_out and ran.exit_code == -9 and await gone(marker + "7")


async def test_the_scratch_interpreter_talks_through_the_program(engine: Engine) -> None:
    async with box(engine).interpreter(files={"z.py": b"q = 5"}) as python:
        told = await python.execute("import z; print('out'); z.q + 1", PATIENCE)
        assert (told.stdout, told.value, told.error) == ("out\n", "6", False), told
        assert (await python.execute("_ * 'x' + 'y' * 300_000", PATIENCE)).cut
        assert (await python.execute("_[:3]", PATIENCE)).value == "'xxx'"


async def test_a_program_that_fails_runs_nothing(engine: Engine, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho the daemon is gone >&2\nexit 125\n")
    broken.chmod(0o755)
    for program, said in ((str(broken), "the daemon is gone"), (str(tmp_path / "none"), "No such file")):
        with pytest.raises(RunError, match=f"{said}.*sop doctor"):
            await Container(program, DIGEST, {"PATH": os.defpath}).run(["true"], files={})


def test_one_that_confines_nothing_is_not_used(engine: Engine) -> None:
    """As the stand-in does."""
    found = probe.container_holds(engine)
    assert found.program is None and found.why.startswith(f"{engine.found()[0]} does not work: "), found


def test_what_is_missing_is_told_with_what_makes_it(engine: Engine, tmp_path: Path) -> None:
    settings = Settings.read({"SOP_CONTAINER": "podlady", "SOP_CONTAINER_IMAGE": "mine:1", "PATH": "/usr/bin", "SECRET": "x"})
    assert (settings.container, settings.container_image) == ("podlady", "mine:1")
    assert settings.container_environment == {"PATH": "/usr/bin"}
    none = probe.container_holds(Engine("podlady", None, engine.environment))
    assert none.program is None and "`podlady`, which SOP_CONTAINER names, is not installed" in none.why
    other = probe.container_holds(Engine(None, "mine:1", engine.environment))
    program = str(tmp_path / "docker")
    assert f"{program} has no image `mine:1`" in other.why and other.mend == f"{program} pull mine:1"
    assert f"| {program} build -t {IMAGE} -" in build_line(program, IMAGE) and "python:3." in build_line(program, IMAGE)
    down = probe.container_holds(Engine(None, None, (*engine.environment, ("STAND_IN_INFO", "1"))))
    assert down.program is None and f"{program} does not work" in down.why


def test_the_filter_names_each_call_once_and_refuses_the_rest() -> None:
    told = json.loads(profile())
    assert (told["defaultAction"], told["defaultErrnoRet"]) == ("SCMP_ACT_ERRNO", 38)
    free = [name for rule in told["syscalls"] if "args" not in rule for name in rule["names"]]
    looked_at = {name for rule in told["syscalls"] if "args" in rule for name in rule["names"]}
    assert len(free) == len(set(free)) and looked_at.isdisjoint(free) and "read" in free
    assert looked_at >= {"socket", "socketpair", "clone", "unshare", "prctl", "personality"}
    for name in ("io_uring_setup", "clone3", "memfd_create", "vmsplice"):
        assert name not in {*free, *looked_at}
    families = {rule["args"][0]["value"] for rule in told["syscalls"] if rule["names"] == ["socket"]}
    assert families == {1, 2, 10, 16}
