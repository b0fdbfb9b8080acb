"""Which sandbox a run has: what is looked at before, what is told where none holds, and that it is never replaced in silence."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sandboxes import BWRAP, left_in, needs_bubblewrap

from metaflow_agents import resume, run
from metaflow_agents.cli import command
from metaflow_agents.errors import RunError, UsageError
from metaflow_agents.journal.journal import Journal
from metaflow_agents.runs import go_on
from metaflow_agents.sandbox import bubblewrap, limits, probe, seccomp
from metaflow_agents.sandbox.bubblewrap import Bubblewrap
from metaflow_agents.sandbox.choice import Unchosen, choose
from metaflow_agents.sandbox.limits import Watchdog
from metaflow_agents.sandbox.mends import install_line, unlock_line
from metaflow_agents.sandbox.probe import Holding, bubblewrap_holds
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


def nothing_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Holding(None, "bubblewrap is not installed", "apt install bubblewrap")
    monkeypatch.setattr(probe, "bubblewrap_holds", lambda _: found)


@needs_bubblewrap
def test_it_is_bubblewrap_unless_another_is_named() -> None:
    assert isinstance(choose(None, HERE, what_for=""), Bubblewrap)
    assert isinstance(choose("bubblewrap", HERE, what_for=""), Bubblewrap)
    assert isinstance(choose("none", HERE, what_for=""), Unconfined)
    with pytest.raises(UsageError, match="there is no sandbox `bublewrap` in this version: did you mean `bubblewrap`"):
        choose("bublewrap", HERE, what_for="")


@pytest.mark.parametrize("name", ["sandlock", "landlock", "docker", "podman", "gvisor", "seatbelt"])
def test_what_is_not_built_is_refused_by_name(name: str) -> None:
    with pytest.raises(UsageError, match=f"the sandbox `{name}` is not built: .*; choices: bubblewrap, none"):
        choose(name, HERE, what_for="")


async def test_a_run_without_commands_has_none() -> None:
    with pytest.raises(RunError, match="would run without a sandbox"):
        await Unchosen().run(["true"], files={})


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

    def unfiltered(self: Bubblewrap, laid_out: list[str], filtering: int) -> list[str]:
        options = begin(self, laid_out, filtering)
        at = options.index("--seccomp")
        return options[:at] + options[at + 2:]

    monkeypatch.setattr(Bubblewrap, "_begin", unfiltered)
    assert "its system calls are not filtered" in bubblewrap_holds(None).why


@needs_bubblewrap
@pytest.mark.usefixtures("holding")
def test_a_bubblewrap_in_which_user_namespaces_can_be_made_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp, "_instructions", lambda _: [seccomp._pass()])
    known = bubblewrap.features(BWRAP) - {"--disable-userns"}
    monkeypatch.setattr(bubblewrap, "features", lambda _: known)
    assert "it makes user namespaces of its own" in bubblewrap_holds(None).why


@needs_bubblewrap
@pytest.mark.usefixtures("holding")
def test_a_bubblewrap_with_the_environment_of_who_started_it_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Bubblewrap.__init__

    def unscrubbed(self: Bubblewrap, program: str, environment: Mapping[str, str], **more: Any) -> None:
        begin(self, program, environment, **more)
        self._environment = dict(environment)

    monkeypatch.setattr(Bubblewrap, "__init__", unscrubbed)
    assert "it reads the environment of who started it" in bubblewrap_holds(None).why


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
    assert bubblewrap_holds(str(tmp_path)) == Holding(None, "bubblewrap is not installed", install_line())
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
            "steps run commands (look), and no sandbox holds here: bubblewrap is not installed",
            "  to have one:    apt install bubblewrap",
            "  to do without:  --sandbox none    runs commands unconfined, on copies of the run's files"]
    monkeypatch.chdir(tmp_path)
    assert command(["run", str(sop)]) == 2
    assert "apt install bubblewrap" in capsys.readouterr().err
    assert left_in(tmp_path) == ["look.yaml"]
    result = await run(sop, workspace=tmp_path / "runs", sandbox="none", settings=SETTINGS)
    assert result["told"] == "False\n"
    assert (await run(sop, workspace=None, model="dry", settings=SETTINGS)).ok


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
                with pytest.raises(UsageError, match="no sandbox holds here"):
                    go_on("one", workspace=home, settings=SETTINGS)
                result = await resume("one", workspace=home, sandbox="none", settings=SETTINGS)
            else:
                with pytest.raises(UsageError, match="no sandbox holds here"):
                    go_on("one", workspace=home, sandbox="bubblewrap", settings=SETTINGS)
                result = await resume("one", workspace=home, settings=settings)
        assert result["told"] == ("True\n" if kept == "bubblewrap" else "False\n")      # what was seen is not looked at again
        with Journal.read(home / ".journals/one.db") as journal:
            assert [event.sandbox for _, event in journal.events(Resumed)] == ["none"] and journal.state.sandbox == "none"


@needs_bubblewrap
async def test_where_it_is_gone_in_the_middle_the_run_stops(sop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bwrap"
    shutil.copy(BWRAP, program)
    monkeypatch.setattr(probe, "bubblewrap_holds", lambda _: Holding(str(program)))
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
