"""Commands taken apart: against a real shell, and the answers that a rule gets."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import examples

from metaflow_agents.policy import commands, shell
from metaflow_agents.policy.action import Action
from metaflow_agents.policy.policy import Policy
from metaflow_agents.policy.shell import Unclear, Words
from metaflow_agents.schema.tools import PolicySpec

SHELLS = [found for name in ("sh", "bash", "dash") if (found := shutil.which(name))]
PIECES = ("p ", "p", "a", "b c", " ", "  ", "'", '"', "\\", "\\\n", ";", "\n", "&&", "||", "|", "#", "X=1 ", ">f ", "2>&1 ", "2",
          "{ ", " }", "(", ")", "! ", "if p; then ", "; fi", "''", '"d"', "'e;f'", "g'h'", "\t")


def told_by(program: str, script: str, folder: Path) -> list[tuple[str, ...]]:
    """What a real shell hands to the program `p`, in any order."""
    out = folder / "out"
    out.unlink(missing_ok=True)
    subprocess.run([program, "-c", script], cwd=folder, env={"PATH": str(folder / "bin"), "OUT": str(out)},
                   capture_output=True, check=False, timeout=20)
    found = out.read_text() if out.exists() else ""
    return [tuple(line.split("\x1f")[:-1]) for line in found.split("\x1e")[:-1]]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shell")
    (folder / "bin").mkdir()
    program = folder / "bin" / "p"
    program.write_text('#!/bin/sh\n{ printf "p\\037"; for one in "$@"; do printf "%s\\037" "$one"; done; '
                       'printf "\\036"; } >> "$OUT"\n')
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize("program", SHELLS)
@given(script=st.lists(st.sampled_from(PIECES), min_size=1, max_size=12).map("".join))
@settings(max_examples=examples(200), deadline=None)
def test_no_command_of_a_real_shell_is_missed(program: str, script: str, place: Path) -> None:
    try:
        found: list[Words] = [one for whole in shell.commands(script) for one in (whole, *commands.starts(whole))]
    except Unclear:
        return                                      # never passed over: it counts as anything
    for one in told_by(program, script, place):
        assert one in found, (script, one, found)


def test_scripts_are_followed_and_not_only_given_up() -> None:
    assert shell.commands("cd docs && ls -l; X=1 Y=2 git push >log 2>&1 &") == [
        ("cd", "docs"), ("ls", "-l"), ("env", "X=1", "Y=2", "git", "push")]
    assert shell.commands("for f in *.py; do wc -l \"$f\"; done") == [("wc", "-l", None)]
    assert shell.commands("# nothing\n") == []


@pytest.mark.parametrize("script", ["echo $(ls)", "echo `ls`", "cat <<E\nE", "f() { ls; }", "case a in a) ls;; esac", "echo 'a",
                                    "ls &>x", "cat <(ls)", "echo ${a:-$(ls)}", "echo $'a'", "a=(ls)", "function f { ls; }"])
def test_what_is_not_followed_is_unclear(script: str) -> None:
    with pytest.raises(Unclear):
        shell.commands(script)


@pytest.mark.parametrize(("argv", "inner"), [
    (("env", "-u", "A", "B=c", "git", "push"), [("git", "push")]),
    (("timeout", "--signal=INT", "-k9", "5", "git", "push"), [("git", "push")]),
    (("nice", "-10", "nohup", "git", "push"), [("nohup", "git", "push"), ("git", "push")]),
    (("xargs", "-n", "1", "git"), [("git", None)]),
    (("xargs", "-I{}", "cp", "{}", "to"), [("cp", None, "to", None)]),
    (("bash", "-euo", "pipefail", "-c", "git push | cat"), [("git", "push"), ("cat",)]),
    (("bash", "script.sh", "-c"), []),
    (("env",), []),
    (("git", "-C", ".", "push"), []),
])
def test_what_a_command_starts(argv: tuple[str, ...], inner: list[Words]) -> None:
    assert commands.starts(argv) == inner


@pytest.mark.parametrize("argv", [("xargs", "--process-slot-var", "git", "rm"), ("env", "-S", "git push"),
                                  ("sudo", "git", "push"), ("find", ".", "-exec", "ls", ";"), ("sh",),
                                  ("bash", "-s"), ("timeout", "--odd", "5", "ls"),
                                  ("zsh", "-oerrexit", "-c", "ls"), ("fish", "-C", "ls")])
def test_what_can_not_be_said_exactly_is_unclear(argv: tuple[str, ...]) -> None:
    with pytest.raises(Unclear):
        commands.starts(argv)


@pytest.mark.parametrize(("argv", "unclear"), [
    (("python", "-c", "0"), True), (("python", "-W", "ignore", "-c", "0"), True), (("python", "run.py", "-c", "x"), False),
    (("python", "-m", "pytest", "-c", "x.ini"), False), (("python", "--version"), False), (("python",), True),
    (("node", "--require", "x", "-e", "0"), True), (("node", "--inspect", "x.js"), False),
    (("node", "-v"), False),
    (("perl", "-lane", "print"), True), (("awk", "{print $1}"), False),
    (("awk", 'BEGIN{system("ls")}'), True),
    (("git", "-c", "alias.x=!ls", "x"), True), (("deno", "eval", "0"), True), (("bash", "build.sh"), False),
    (("alias", "g=git"), True),
])
def test_code_in_a_command_is_unclear(argv: tuple[str, ...], unclear: bool) -> None:
    assert bool(commands.may_start(argv)[1]) is unclear


@pytest.mark.parametrize("argv", [("git", *["-x"] * 100_000, "push"), ("bash", "-c", "a;" * 40_000 + "git push"),
                                  ("find", *["-exec"] * 500, "git", "push"), ("bash", "-c", "git push #" + "x" * 200_000)])
def test_what_is_too_much_to_look_through_counts_as_denied(argv: tuple[str, ...]) -> None:
    said = Policy(PolicySpec(deny=("run(git push *)",))).decide(Action("run", "", argv))
    assert said.verdict == "deny" and "more than" in said.rule
