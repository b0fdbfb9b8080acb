"""Folders that are given to a run: what is left out of them, and that it is said."""

from __future__ import annotations

import os
import random
import re
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from real_git import ALONE

from metaflow_agents import run_sync
from metaflow_agents.cli.entry_point import command
from metaflow_agents.errors import UsageError
from metaflow_agents.journal.journal import Journal
from metaflow_agents.runtime.inputs import read_inputs
from metaflow_agents.schema.event import RunOpened
from metaflow_agents.schema.ignored import Ignored
from metaflow_agents.schema.payload import Files, unpack
from metaflow_agents.settings import Settings
from metaflow_agents.sop.load import load_sop

SOP = "sop: given\ninputs: {code: folder}\nartifacts: {out: {}}\nsteps: {join: {value: \"'x'\", needs: [code], makes: out}}\n"
HELD = """
.env .env.production web/.env sub/.ENV prod.env .envrc .netrc .npmrc .pypirc .pgpass .htpasswd .git-credentials id_rsa
id_rsa.old sub/id_ed25519 key.pem server.key store.p12 a.pfx a.jks a.kdbx a.ppk .bash_history credentials.json x.tfstate
x.tfvars .ssh/config .ssh/known_hosts .aws/credentials .gnupg/pubring.kbx .kube/config .docker/config.json .hg/hgrc
.journals/r.db .journals/r.db-wal w/.memory/project.db .azure/x .password-store/x.gpg
""".split()
FREE = """.env.example .env.sample id_rsa.pub environment.py env/x.py keys.md monkey.py .gitignore .editorconfig src/key.py
ssh/config README.md history.txt a.pem.md""".split()


def lay(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def taken(tmp_path: Path, folder: Path, *, everything: bool = False, sop: str = SOP) -> tuple[set[str], tuple[str, ...]]:
    """The paths that are read, and those that are said to be left out."""
    lay(tmp_path, {"it/given.yaml": sop})
    found = read_inputs(load_sop(tmp_path / "it" / "given.yaml").program, {"code": folder}, everything=everything)
    payload = unpack(found.blobs[found.payloads["code"]])
    assert isinstance(payload, Files)
    return set(payload.files), found.left_out.get("code", ())


def untaken(tmp_path: Path, folder: Path, *, everything: bool = False, sop: str = SOP) -> dict[str, tuple[str, ...]]:
    """Why paths are not read, whatever is asked for → these paths."""
    lay(tmp_path, {"it/given.yaml": sop})
    return read_inputs(load_sop(tmp_path / "it" / "given.yaml").program, {"code": folder}, everything=everything).untaken["code"]


def test_keys_and_journals_stay_out_unless_asked_for(tmp_path: Path) -> None:
    folder = lay(tmp_path / "code", dict.fromkeys((*HELD, *FREE, ".git/config"), "x"))
    (folder / ".gitignore").write_text("")
    files, left_out = taken(tmp_path, folder)
    assert files == set(FREE)
    assert all(path in left_out or any(path.startswith(one) for one in left_out if one.endswith("/")) for path in HELD)
    files, left_out = taken(tmp_path, folder, everything=True)
    assert files == {*FREE, *HELD} and left_out == (), "`.git` is nobody's"


@pytest.mark.parametrize("everything", [False, True])
def test_what_exclude_names_stays_out_whatever_else_is_asked_for(tmp_path: Path, everything: bool) -> None:
    names = "a.log b.txt build/x src/build/y src/a.log src/c.py".split()
    folder = lay(tmp_path / "repository" / "code", dict.fromkeys(names, "x"))
    lay(folder, {".git/config": "", "src/.gitignore": "!a.log\n!build/\n"})
    sop = SOP.replace("code: folder", 'code: {type: folder, exclude: ["*.log", /build/, "src/.gitignore"]}')
    files, left_out = taken(tmp_path, folder, everything=everything, sop=sop)
    assert files == {"b.txt", "src/build/y", "src/c.py"}
    assert left_out == (), "`--everything` does not take it"
    assert untaken(tmp_path, folder, everything=everything, sop=sop) == {
        "`exclude` names it": ("a.log", "build/", "src/.gitignore", "src/a.log")}
    one = SOP.replace("code: folder", 'code: {type: folder, exclude: "*.py"}')
    assert untaken(tmp_path, folder, everything=everything, sop=one) == {"`exclude` names it": ("src/c.py",)}


@pytest.mark.parametrize("everything", [False, True])
def test_each_file_that_can_not_be_taken_is_told_with_its_reason(tmp_path: Path, everything: bool) -> None:
    names = ["ok.txt", "~$lock.txt", "dot.", "space ", "tab\tname.txt", "back\\slash.txt", os.fsdecode(b"caf\xe9.txt"), "x" * 249,
             "dir./inner.txt", "dir./more/inner.txt", "Halden & Co./a.txt", "git~1/x", ".git/config", "in/.git"]
    folder = lay(tmp_path / "code", dict.fromkeys(names, "x"))
    (folder / "link").symlink_to("ok.txt")
    (folder / "links").symlink_to(tmp_path)
    (folder / "dangling").symlink_to("nowhere")
    os.mkfifo(folder / "fifo")
    (folder / "run.sh").write_text("true")
    (folder / "run.sh").chmod(0o755)
    assert taken(tmp_path, folder, everything=everything) == ({"ok.txt", "run.sh"}, ())
    assert untaken(tmp_path, folder, everything=everything) == {
        "a link": ("dangling", "link", "links"),
        "a part of its path ends in a dot": ("Halden & Co./", "dir./", "dot."),
        "a part of its path ends in a space": ("space ",),
        "a part of its path is a spelling of `.git`, and `.git` belongs to git alone": ("git~1/",),
        "it holds a backslash: parts are joined by `/`": ("back\\slash.txt",),
        "it holds a control or an invisible character": ("tab\tname.txt",),
        "it starts with `~`: nothing is expanded, a path is relative to the run's repository": ("~$lock.txt",),
        "its name is not UTF-8": ("caf\\xe9.txt",),
        "no regular file": ("fifo",),
        "one of its parts is longer than 240 bytes": ("x" * 249,),
        "only its executable bit": ("run.sh",)}


def test_what_can_not_be_taken_is_told_in_the_output_and_in_the_journal(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = lay(tmp_path / "code", {"ok.txt": "x", **{f"{number:02}.": "x" for number in range(30)}})
    (folder / "link").symlink_to("ok.txt")
    lay(tmp_path, {"it/given.yaml": SOP})
    home = tmp_path / "w"
    words = ["run", str(tmp_path / "it" / "given.yaml"), "--code", str(folder), "--workspace", str(home), "--everything"]
    assert command(words) == 0
    for _ in range(2):
        said = " ".join(capsys.readouterr().out.split())
        assert "left out of `code` (a link): link" in said
        assert "left out of `code` (a part of its path ends in a dot): 00., 01., " in said and "… and 10 more" in said
        assert "takes all" not in said
        command(["show", "given-1", "--workspace", str(home)])
    with Journal.read(home / ".journals" / "given-1.db") as journal:
        assert journal.state.opened is not None and journal.state.opened.untaken["code"]["a link"] == ("link",)


def test_a_folder_in_it_that_fails_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = lay(tmp_path / "code", {"ok.txt": "x", "shut/a.txt": "x"})
    opened = os.open

    def refused(path: object, *options: object, **more: object) -> int:
        if path == "shut":
            raise PermissionError(13, "Permission denied", "shut")
        return opened(path, *options, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(UsageError, match=r"can't read .*Permission denied"):
        taken(tmp_path, folder)


def test_what_gitignore_names(tmp_path: Path) -> None:
    folder = lay(tmp_path / "code", dict.fromkeys("a.log keep.log b.txt out/x.py src/out/y.py src/a.tmp src/sub/b.tmp "
                                                  "src/sub/keep.tmp deep/private/x top.cfg sub/top.cfg".split(), "x"))
    lay(folder, {".gitignore": "# logs\n*.log\n!keep.log\nout/\n/top.cfg\ndeep/*/x\n", "src/.gitignore": "*.tmp\n",
                 "src/sub/.gitignore": "!keep.tmp\n"})
    files, left_out = taken(tmp_path, folder)
    assert files == {"keep.log", "b.txt", "src/sub/keep.tmp", "sub/top.cfg", ".gitignore", "src/.gitignore", "src/sub/.gitignore"}
    assert left_out == ("a.log", "deep/private/x", "out/", "src/a.tmp", "src/out/", "src/sub/b.tmp", "top.cfg")


def test_of_a_part_of_a_repository_the_rules_around_it_hold(tmp_path: Path) -> None:
    repository = lay(tmp_path / "repo", {".git/HEAD": "x", ".gitignore": "docs/private/\n*.bak\n", "docs/.gitignore": "draft*\n",
                                         "docs/private/a.md": "x", "docs/b.md": "x", "docs/b.bak": "x", "docs/in/draft.md": "x"})
    assert taken(tmp_path, repository / "docs") == ({".gitignore", "b.md"}, ("b.bak", "in/draft.md", "private/"))
    assert taken(tmp_path, repository / "docs" / "in") == (set(), ("draft.md",))


ALPHABET = ["a", "b", "*", "**", "?", "/", "[ab]", "[!a]", ".", "ab", "\\*", "\\a", "foo", "bar/"]


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git to compare with")
def test_it_is_what_git_says(tmp_path: Path) -> None:
    """Random rules, compared with `git ls-files --others --exclude-standard`.

    None where `**` stands beside something else than a slash: git compares what is plain before it by itself, and so takes
    `b**` for `b` and all below, against its own documentation ("regular asterisks").
    """
    seed = secrets.randbits(32)
    sys.stdout.write(f"seed {seed}\n")
    rng = random.Random(seed)
    names = ["a", "b", "ab", "foo", "bar", "*", "a.b"]
    for number in range(8):
        folder = tmp_path / str(number)
        for _ in range(14):
            path = folder.joinpath(*(rng.choice(names) for _ in range(rng.randint(1, 3))))
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("x")
            except OSError:                         # a file where a folder is wanted
                continue
        for where in ("", "a", "foo"):
            if (folder / where).is_dir():
                rules = ["!" * (rng.random() < 0.25) + "".join(rng.choices(ALPHABET, k=rng.randint(1, 4))) for _ in range(4)]
                rules = [rule for rule in rules if not re.search(r"[^/!]\*\*|\*\*[^/]|^!.*!\*\*", rule)]
                (folder / where / ".gitignore").write_text("\n".join(rules) + "\n")
        subprocess.run(["git", "init", "-q", "."], cwd=folder, env=ALONE, check=True)
        listed = subprocess.run(["git", "ls-files", "-z", "--others", "--exclude-standard"], cwd=folder, env=ALONE, check=True,
                                capture_output=True, text=True).stdout
        said = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob(".gitignore")}
        assert taken(tmp_path, folder)[0] == set(filter(None, listed.split("\0"))), (seed, said)


def test_hostile_rules_cost_little(tmp_path: Path) -> None:
    """`*a*a*…` against `aaa…` takes a regular expression for ever."""
    ignored = Ignored()
    ignored.add("*a" * 100 + "*b\n" + "/".join(["**"] * 50) + "/x\n" + "[" * 200 + "\n" + "\\" * 99 + "\n" + "!" * 99 + "\n")
    assert not ignored.leaves_out("a" * 200 + "/" + "a" * 200, folder=False)
    folder = lay(tmp_path / "many", {".gitignore": "x\n" * 2001})
    with pytest.raises(UsageError, match="more than 2,000 patterns; `--everything`"):
        taken(tmp_path, folder)
    (folder / ".gitignore").write_bytes(b"x" * ((1 << 18) + 1))
    with pytest.raises(UsageError, match=r"a \.gitignore has more than"):
        taken(tmp_path, folder)
    (folder / ".gitignore").unlink()
    os.mkfifo(folder / ".gitignore")
    assert taken(tmp_path, folder) == (set(), ())
    (folder / ".gitignore").unlink()
    (folder / ".gitignore").symlink_to("/dev/zero")
    assert taken(tmp_path, folder) == (set(), ())


def test_it_is_said_in_the_output_and_in_the_journal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = lay(tmp_path / "code", {f"{number}.key": "x" for number in range(30)} | {"a.txt": "x"})
    lay(tmp_path, {"given.yaml": SOP})
    words = ["run", str(tmp_path / "given.yaml"), "--code", str(folder), "--workspace", str(tmp_path / "w")]
    assert command(words) == 0
    said = capsys.readouterr().out
    assert "left out of `code`: 0.key, 1.key, " in said and "… and 10 more; `--everything` takes all" in " ".join(said.split())
    with Journal.read(next((tmp_path / "w").rglob("*.db"))) as journal:
        (opened,) = [event for _, event in journal.events(RunOpened)]
    assert len(opened.left_out["code"]) == 21
    assert command([*words, "--everything"]) == 0
    assert "left out" not in capsys.readouterr().out
    result = run_sync(tmp_path / "given.yaml", code=folder, everything=True, workspace=None, settings=Settings())
    assert result.ok
