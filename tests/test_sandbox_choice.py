"""Which sandbox a run has: what is looked at before, what is told where none holds, and that it is never replaced in silence."""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sandboxes import BWRAP, by_an_ordinary_user, left_in, needs_bubblewrap, no_landlock

from metaflow_agents import resume, run
from metaflow_agents.api.run import go_on
from metaflow_agents.cli import command
from metaflow_agents.errors import RunError, UsageError
from metaflow_agents.journal.journal import Journal
from metaflow_agents.sandbox import bubblewrap, limits, probe, seccomp
from metaflow_agents.sandbox.bubblewrap import Bubblewrap
from metaflow_agents.sandbox.choice import Unchosen, choose
from metaflow_agents.sandbox.container import Container
from metaflow_agents.sandbox.install_hints import install_line, unlock_line
from metaflow_agents.sandbox.landlock import Landlock
from metaflow_agents.sandbox.limits import Watchdog
from metaflow_agents.sandbox.probe import SandboxHolding, bubblewrap_holds
from metaflow_agents.sandbox.unconfined import Unconfined
from metaflow_agents.schema.event import Resumed
from metaflow_agents.settings import Settings

HERE = {"PATH": os.environ.get("PATH", os.defpath)}
SETTINGS = Settings(command_environment=HERE)
SOP = """
sop: look
artifacts: {seen: {}, told: {}}
steps:
  look: {run: [python, -c, "import os; print(os.path.exists('/sop/work'))"], makes: seen}
  tell: {value: seen.stdout, needs: [seen], makes: told}
success: told != ''
"""


@pytest.fixture
def sop(tmp_path: Path) -> Path:
    path = tmp_path / "look.yaml"
    path.write_text(SOP)
    return path


@pytest.fixture
def holding() -> Iterator[None]:
    """What is found is forgotten before and after."""
    probe._holds.cache_clear()
    yield
    probe._holds.cache_clear()


NO_LANDLOCK, NO_CONTAINERS = (
    SandboxHolding(None, "Landlock is too old", "a new kernel"),
    SandboxHolding(None, "no docker", "install docker"),
)


def nothing_holds(monkeypatch: pytest.MonkeyPatch, *, landlock: SandboxHolding = NO_LANDLOCK,
                  container: SandboxHolding = NO_CONTAINERS) -> None:
    found = SandboxHolding(None, "bubblewrap is not installed", "apt install bubblewrap")
    monkeypatch.setattr(probe, "bubblewrap_holds", lambda _: found)
    monkeypatch.setattr(probe, "landlock_holds", lambda: landlock)
    monkeypatch.setattr(probe, "container_holds", lambda _: container)


@needs_bubblewrap
def test_it_is_bubblewrap_unless_another_is_named() -> None:
    assert isinstance(choose(None, HERE, what_for=""), Bubblewrap)
    assert isinstance(choose("bubblewrap", HERE, what_for=""), Bubblewrap)
    assert isinstance(choose("none", HERE, what_for=""), Unconfined)
    with pytest.raises(UsageError, match="there is no sandbox `bublewrap` in this version: did you mean `bubblewrap`"):
        choose("bublewrap", HERE, what_for="")


@pytest.mark.parametrize("name", ["gvisor", "firejail", "seatbelt"])
def test_what_is_not_built_is_refused_by_name(name: str) -> None:
    with pytest.raises(UsageError, match=f"the sandbox `{name}` is not built: .*; choices: bubblewrap, landlock, "):
        choose(name, HERE, what_for="")


@pytest.mark.parametrize(("name", "meant"), [("sandlock", "landlock"), ("docker", "container"), ("podman", "container")])
def test_what_is_meant_is_told_and_not_taken(name: str, meant: str) -> None:
    with pytest.raises(UsageError, match=f"there is no sandbox `{name}`: `--sandbox {meant}` runs commands by it"):
        choose(name, HERE, what_for="")


def test_the_first_that_holds_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    holding = SandboxHolding("docker", image="sha256:1")
    nothing_holds(monkeypatch, landlock=SandboxHolding("Landlock"), container=holding)
    assert isinstance(choose(None, HERE, what_for=""), Landlock)
    nothing_holds(monkeypatch, container=holding)
    chosen = choose(None, HERE, what_for="")
    assert isinstance(chosen, Container) and (chosen.program, chosen.image) == ("docker", "sha256:1")
    nothing_holds(monkeypatch)
    with pytest.raises(UsageError, match="no sandbox works here"):
        choose(None, HERE, what_for="")


@pytest.mark.one_in(8)
@pytest.mark.skipif(os.geteuid() != 0 or bool(no_landlock()), reason="root takes namespaces away; the kernel has Landlock")
def test_where_no_namespaces_can_be_made_landlock_is_taken_and_holds(tmp_path: Path) -> None:
    """An ordinary user, and with a rule that denies a program."""
    code = ("import asyncio\nfrom metaflow_agents.sandbox.choice import choose\n"
            "box = choose(None, {'PATH': '/usr/bin:/bin'}, what_for='')\n"
            "def ran(*denied): return asyncio.run(box.run(['sh', '-c', 'touch x; ls'], files={}, denied=denied)).stdout\n"
            "print(box.name, repr(ran()), repr(ran('touch')))")
    tmp_path.chmod(0o755)
    with tempfile.TemporaryDirectory(prefix="sop-ordinary-") as home:
        done = by_an_ordinary_user(["-c", code], Path(home), namespaces=False)
    assert done.stdout.split() == ["landlock", r"'x\n'", "''"], done


def test_one_that_is_named_is_never_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """What else holds is told, and not taken."""
    nothing_holds(monkeypatch, landlock=SandboxHolding("Landlock"))
    for name in ("bubblewrap", "container"):
        with pytest.raises(UsageError) as caught:
            choose(name, HERE, what_for="steps run commands")
        lines = str(caught.value).splitlines()
        assert lines[0] == f"steps run commands, and the sandbox `{name}` does not work here:" and len(lines) == 5, lines
        assert lines[3] == "  to use another: --sandbox landlock    works here"
    assert isinstance(choose("landlock", HERE, what_for=""), Landlock)


async def test_a_resume_uses_the_sandbox_of_the_journal_or_is_refused(
    sop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing_holds(monkeypatch, landlock=SandboxHolding("Landlock"))
    monkeypatch.setattr(Landlock, "run", Unconfined({"PATH": HERE["PATH"]}).run)
    await run(sop, workspace=tmp_path, name="one", until="look", settings=SETTINGS)
    with Journal.read(tmp_path / ".journals/one.db") as journal:
        assert journal.state.sandbox == "landlock"
    nothing_holds(monkeypatch, container=SandboxHolding("docker", image="sha256:1"))
    with pytest.raises(UsageError, match=r"the sandbox `landlock` does not work here:(.|\n)*--sandbox container    works here"):
        go_on("one", workspace=tmp_path, settings=SETTINGS)
    assert (await resume("one", workspace=tmp_path, sandbox="container", settings=SETTINGS)).ok
    with Journal.read(tmp_path / ".journals/one.db") as journal:
        assert [(event.sandbox, event.image) for _, event in journal.events(Resumed)] == [("container", "sha256:1")]


async def test_a_run_without_commands_has_none() -> None:
    with pytest.raises(RunError, match="would run without a sandbox"):
        await Unchosen().run(["true"], files={})


@pytest.mark.one_in(4)
@needs_bubblewrap
@pytest.mark.usefixtures("holding")
def test_a_bubblewrap_that_confines_nothing_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its place stands a program that takes its options, and does nothing with them."""
    for program in (tmp_path / "bwrap", tmp_path / "setpriv"):
        program.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n')
        program.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "_setpriv", lambda: str(tmp_path / "setpriv"))
    monkeypatch.setattr("metaflow_agents.sandbox.confined.is_first", lambda _: True)
    monkeypatch.chdir(tmp_path)
    found = bubblewrap_holds(str(tmp_path))
    assert found.program is None
    for told in ("reaches the network", "reads files", "writes files", "sees the processes", "sees the network"):
        assert told in found.why, found.why


@needs_bubblewrap
@pytest.mark.usefixtures("holding")
def test_a_bubblewrap_that_keeps_the_network_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "_APART", tuple(option for option in bubblewrap._APART if option != "--unshare-net"))
    assert "reaches the network of this machine" in bubblewrap_holds(None).why


@needs_bubblewrap
@pytest.mark.usefixtures("holding")
def test_a_bubblewrap_without_the_filter_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Bubblewrap._begin

    def unfiltered(self: Bubblewrap, *given: Any) -> list[str]:
        options = begin(self, *given)
        at = options.index("--seccomp")
        return options[:at] + options[at + 2:]

    monkeypatch.setattr(Bubblewrap, "_begin", unfiltered)
    assert "its system calls are not filtered" in bubblewrap_holds(None).why


@needs_bubblewrap
@pytest.mark.usefixtures("holding")
def test_a_bubblewrap_in_which_user_namespaces_can_be_made_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp, "_steps", lambda _: [seccomp._pass()])
    known = bubblewrap.features(BWRAP) - {"--disable-userns"}
    monkeypatch.setattr(bubblewrap, "features", lambda _: known)
    found = bubblewrap_holds(None)
    assert "it makes user namespaces of its own" in found.why
    away = {what for what, refused in found.attempts if not refused}       # what the kernel refuses by itself is not among them
    assert away > {"it keeps attributes beside files", "it asks more of the kernel than routes", "it reaches files in memory",
                   "it reaches memory of others", "it reaches many semaphores", "it reaches executable data", "it reaches clone3"}


@needs_bubblewrap
@pytest.mark.usefixtures("holding")
def test_each_refusal_has_a_name_and_doctor_lists_it(capsys: pytest.CaptureFixture[str]) -> None:
    found = bubblewrap_holds(None)
    assert len(found.attempts) > 40 and all(refused for _, refused in found.attempts)
    for name in ("AF_VSOCK", "AF_ALG", "io_uring", "userfaultfd", "keyrings", "BPF", "perf events", "tracing", "mounts"):
        assert any(name in what for what, _ in found.attempts), name
    named = [f"bubblewrap: {what}" for what, _ in found.attempts]
    assert command(["doctor", "--json"]) == 0
    listed = [one for one in json.loads(capsys.readouterr().out) if one["what"] == "refused"]
    assert [one["said"] for one in listed if "bubblewrap:" in one["said"]] == named


@needs_bubblewrap
@pytest.mark.usefixtures("holding")
def test_doctor_counts_what_is_refused_and_names_what_is_not(monkeypatch: pytest.MonkeyPatch,
                                                             capsys: pytest.CaptureFixture[str]) -> None:
    holds = bubblewrap_holds(None)
    tried = len(holds.attempts)
    told = "ok refused bubblewrap: {} of {} attempts to get out; `sop doctor --json` lists them"
    one_open = replace(holds, attempts=tuple((what, what != "it reaches clone3") for what, _ in holds.attempts))
    for found, lines in ((holds, [told.format(tried, tried)]),
                         (one_open, [told.format(tried - 1, tried), "note not refused bubblewrap: it reaches clone3"])):
        monkeypatch.setattr("metaflow_agents.sandbox.choice.looked_at", lambda name, *_, one=found: one)
        command(["doctor"])
        said = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
        assert [line for line in said if " bubblewrap: " in line] == lines


@needs_bubblewrap
@pytest.mark.usefixtures("holding")
def test_a_bubblewrap_with_the_environment_of_who_started_it_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Bubblewrap.__init__

    def unscrubbed(self: Bubblewrap, program: str, environment: Mapping[str, str], **more: Any) -> None:
        begin(self, program, environment, **more)
        self._environment = dict(environment)

    monkeypatch.setattr(Bubblewrap, "__init__", unscrubbed)
    assert "it reads the environment of who started it" in bubblewrap_holds(None).why


@pytest.mark.one_in(4)
@needs_bubblewrap
@pytest.mark.usefixtures("holding")
def test_a_bubblewrap_that_lets_processes_multiply_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as watched:
        watched.setattr(limits, "_kernel", lambda: (4, 18))         # which counts all that the user runs, so does not count
        assert bubblewrap_holds(None).program == BWRAP, "the watchdog holds them"
        probe._holds.cache_clear()
        watched.setattr(Watchdog, "look", lambda _: "")
        assert "it starts more processes than it may" in bubblewrap_holds(None).why


@pytest.mark.usefixtures("holding")
def test_on_a_machine_without_a_table_of_system_calls_none_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp, "_MACHINES", {})
    found = bubblewrap_holds(None)
    assert found.program is None and (not BWRAP or "can't be filtered" in found.why)


@needs_bubblewrap
@pytest.mark.usefixtures("holding")
def test_a_bubblewrap_that_shows_the_disk_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    laid_out = Bubblewrap._laid_out
    with tempfile.TemporaryDirectory() as folder:       # of its own: this Python may lie in a closed folder of the usual one
        Path(folder).chmod(0o755)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        monkeypatch.setattr(Bubblewrap, "_laid_out", lambda *given: [*laid_out(*given), "--bind", folder, folder])
        assert "reads files of this machine, it writes files of this machine" in bubblewrap_holds(None).why


@pytest.mark.usefixtures("holding")
def test_what_is_told_where_it_does_not_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bubblewrap_holds(str(tmp_path)) == SandboxHolding(None, "bubblewrap is not installed", install_line())
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho bwrap: setting up uid map: Permission denied >&2\nexit 1\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    found = bubblewrap_holds(str(tmp_path))
    assert found.program is None and "setting up uid map: Permission denied" in found.why and found.mend == unlock_line()
    probe._holds.cache_clear()
    monkeypatch.setattr(probe.sys, "platform", "darwin")
    assert "Linux alone, and this is darwin" in bubblewrap_holds(None).why


@pytest.mark.parametrize(("release", "line"), [
    ("ID=debian", "apt install bubblewrap"),
    ('ID=linuxmint\nID_LIKE="ubuntu debian"', "apt install bubblewrap"),
    ("# a comment\nID=fedora\n", "dnf install bubblewrap"),
    ('ID="rocky"\nID_LIKE="rhel centos fedora"', "dnf install bubblewrap"),
    ("ID=arch", "pacman -S bubblewrap"),
    ("ID=alpine", "apk add bubblewrap setpriv"),
    ('ID="opensuse-tumbleweed"\nID_LIKE="opensuse suse"', "zypper install bubblewrap"),
    ("ID=nixos", "nix-env -iA nixos.bubblewrap"),
])
def test_the_line_that_installs_it(release: str, line: str, tmp_path: Path) -> None:
    (tmp_path / "os-release").write_text(release)
    said = install_line(tmp_path / "os-release")
    assert said.removeprefix("sudo ") == line
    assert said.startswith("sudo ") == (os.geteuid() != 0 and "nix" not in line)


def test_the_line_where_the_system_is_unknown(tmp_path: Path) -> None:
    assert install_line(tmp_path / "never") == "install the package `bubblewrap` with the package manager of this system"


def test_the_line_that_opens_user_namespaces(tmp_path: Path) -> None:
    for folder in ("kernel", "user"):
        (tmp_path / folder).mkdir()
    assert "sysctl" not in unlock_line(tmp_path)
    for name, closing, line in [("kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
                                ("user/max_user_namespaces", "0", "user.max_user_namespaces=15000"),
                                ("kernel/apparmor_restrict_unprivileged_userns", "1",
                                 "kernel.apparmor_restrict_unprivileged_userns=0")]:
        (tmp_path / name).write_text(f"{closing}\n")
        assert unlock_line(tmp_path).removeprefix("sudo ") == f"sysctl -w {line}"
        (tmp_path / name).unlink()


async def test_where_none_holds_nothing_is_made(sop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                capsys: pytest.CaptureFixture[str]) -> None:
    nothing_holds(monkeypatch)
    for asked in (None, "bubblewrap"):
        with pytest.raises(UsageError) as caught:
            await run(sop, workspace=tmp_path / "runs", sandbox=asked, settings=SETTINGS)
        assert str(caught.value).splitlines() == [
            f"steps run commands (look), and {'the sandbox `bubblewrap` does not work' if asked else 'no sandbox works'} here:",
            "  bubblewrap: bubblewrap is not installed",
            "    fix:          apt install bubblewrap",
            *([] if asked else ["  landlock: Landlock is too old", "    fix:          a new kernel", "  container: no docker",
                                "    fix:          install docker"]),
            "  to do without:  --sandbox none    runs commands unconfined, on copies of the run's files"]
    monkeypatch.chdir(tmp_path)
    assert command(["run", str(sop)]) == 2
    assert "apt install bubblewrap" in capsys.readouterr().err
    assert left_in(tmp_path) == ["look.yaml"]
    result = await run(sop, workspace=tmp_path / "runs", sandbox="none", settings=SETTINGS)
    assert result["told"] == "False\n"
    assert (await run(sop, workspace=None, model="dry", settings=SETTINGS)).ok


@pytest.mark.one_in(4)
@needs_bubblewrap
async def test_the_journal_says_which_and_a_resume_keeps_to_it(
    sop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for given, kept in ((None, "bubblewrap"), ("none", "none")):
        home, settings = tmp_path / kept, replace(SETTINGS, state=tmp_path / "state")
        await run(sop, workspace=home, name="one", until="look", sandbox=given, settings=settings)
        with Journal.read(home / ".journals/one.db") as journal:
            assert journal.state.opened is not None and journal.state.opened.sandbox == journal.state.sandbox == kept
        with monkeypatch.context() as patched:
            nothing_holds(patched)
            if kept == "bubblewrap":
                with pytest.raises(UsageError, match="`bubblewrap` does not work here"):
                    go_on("one", workspace=home, settings=SETTINGS)
                result = await resume("one", workspace=home, sandbox="none", settings=SETTINGS)
            else:
                with pytest.raises(UsageError, match="`bubblewrap` does not work here"):
                    go_on("one", workspace=home, sandbox="bubblewrap", settings=SETTINGS)
                result = await resume("one", workspace=home, settings=settings)
        assert result["told"] == ("True\n" if kept == "bubblewrap" else "False\n")      # what was seen is not looked at again
        with Journal.read(home / ".journals/one.db") as journal:
            assert [event.sandbox for _, event in journal.events(Resumed)] == ["none"] and journal.state.sandbox == "none"


@needs_bubblewrap
async def test_where_it_is_gone_in_the_middle_the_run_stops(sop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bwrap"
    shutil.copy(BWRAP, program)
    monkeypatch.setattr(probe, "bubblewrap_holds", lambda _: SandboxHolding(str(program)))
    gone = Bubblewrap(str(program), {})
    program.unlink()
    monkeypatch.setattr(bubblewrap, "Bubblewrap", lambda *_: gone)
    result = await run(sop, workspace=tmp_path / "runs", name="one", settings=SETTINGS)
    assert result.outcome == "stopped" and "bubblewrap is gone" in result.reason and "sop doctor" in result.reason
    monkeypatch.undo()
    assert (await resume("one", workspace=tmp_path / "runs", settings=SETTINGS))["told"] == "True\n"


@needs_bubblewrap
def test_views_say_where_commands_ran(sop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                      capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert command(["run", str(sop), "--name", "one"]) == 0
    out = capsys.readouterr().out
    assert "begins look.yaml, commands in bubblewrap" in out and "unconfined" not in out
    assert command(["show", "one"]) == 0
    assert "sandbox  bubblewrap" in capsys.readouterr().out
    assert command(["run", str(sop), "--name", "two", "--sandbox", "none"]) == 0
    out = capsys.readouterr().out
    assert "begins look.yaml, commands unconfined" in out and "commands ran unconfined, as `--sandbox none` allows" in out
    assert command(["show", "two"]) == 0
    assert "sandbox  none: commands run unconfined" in capsys.readouterr().out
    assert command(["doctor"]) == 0
    assert "bubblewrap" in capsys.readouterr().out
