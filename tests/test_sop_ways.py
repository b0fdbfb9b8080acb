"""By whatever way a SOP is named, it is the same SOP: of the folders that the way leads through nothing is taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from metaflow_agents import run_sync
from metaflow_agents.cli import command
from metaflow_agents.errors import SOPNotFound
from metaflow_agents.settings import Settings
from metaflow_agents.sop import library
from metaflow_agents.sop.check import check
from metaflow_agents.sop.load import load_sop

ENTRY = """\
sop: a
roles: {v: {profile: mine}, w: {profile: mine, prompt: w.md.j2}}
artifacts: {out: {file: out.md, render: t.md.j2}, more: {schema: x.schema.yaml}, last: {}}
steps:
  write: {role: v, makes: out}
  call: {call: "letters:write", needs: [out], makes: more}
  nest: {sop: inner.yaml, needs: [more], makes: last}
outputs: [more, last]
tests: {walks: {model: dry}}
"""
INNER = "sop: inner\nroles: {v: {profile: mine}}\nartifacts: {out: {}}\nsteps: {s: {role: v, makes: out}}\n"
FOREIGN = {"pyproject.toml": "", "roles/v.yaml": "goal: FOREIGN\n", "roles/w.md.j2": "FOREIGN", "sops/t.md.j2": "FOREIGN",
           "sops/x.schema.yaml": "{type: integer, $schema: FOREIGN}",
           "letters.py": "def write():\n    return 'FOREIGN'\nanswer = write\n", "sops/inner.yaml": INNER,
           "q/only.txt": ""}
OWN = {"q/a.yaml": ENTRY, "q/inner.yaml": INNER, "roles/w.md.j2": "{{ role.profile }}", "q/t.md.j2": "{{ out }}",
       "q/x.schema.yaml": "{type: string, $schema: 'https://json-schema.org/draft/2020-12/schema'}",
       "q/letters.py": "def write():\n    return 'mine'\ndef answer(request):\n    return 'x'\n"}
WAYS = ("../p/q/a.yaml", "../p/q/a", ".././p//q/a.yaml", "../y/../p/q/../q/a.yaml", "{base}/p/q/a.yaml", "{base}/y/../p/q/a.yaml",
        "link/a.yaml", "link/../q/a.yaml", "deep/link/a.yaml", "{base}/y/link/a.yaml", "file.yaml", "./file", "~/q/a.yaml",
        "~/../y/../p/q/a.yaml", "outer/a.yaml")


def put(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`p`, whose SOP it is, and `y`, the current folder, with a project's marks and links to `p`."""
    put(tmp_path / "y", FOREIGN)
    put(tmp_path / "p", OWN)
    (tmp_path / "y" / "deep").mkdir()
    for link, target in {"link": "../p/q", "deep/link": "../../p/q", "file.yaml": "../p/q/a.yaml", "outer": "deep/link"}.items():
        (tmp_path / "y" / link).symlink_to(target)
    monkeypatch.setenv("HOME", str(tmp_path / "p"))
    monkeypatch.chdir(tmp_path / "y")
    return tmp_path


@pytest.mark.parametrize("way", WAYS)
def test_the_way_to_a_sop_gives_it_nothing(base: Path, way: str) -> None:
    written = way.format(base=base)
    report, loaded, plain = check(written), load_sop(written), load_sop(base / "p" / "q" / "a.yaml", start=base)
    assert report.errors == ()
    assert loaded.program == plain.program and loaded.folder == base / "p" / "q"
    assert "FOREIGN" not in repr(loaded.program) and loaded.folders.python == [base / "p" / "q", base / "p"]
    assert report.functions == {"letters:write": str(base / "p" / "q" / "letters.py")}
    assert set(loaded.sources) >= {str(base / "p" / "q" / "a.yaml"), str(base / "p" / "roles" / "w.md.j2")}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("way", ["../p/q/a.yaml", "link/a.yaml", "file.yaml"])
def test_neither_a_run_nor_a_prompt_has_anything_of_it(base: Path, way: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_sync(way, model="python:letters.py:answer", workspace=None, settings=Settings())["more"] == "mine"
    for words in (["check", way], ["graph", way], ["preview", way, "write"], ["test", way]):
        assert command(words) == 0, words
        assert "FOREIGN" not in "".join(capsys.readouterr()), words


@pytest.mark.parametrize("inner", ["../../p/q/../q/inner.yaml", "../../y/link/inner.yaml", "{base}/y/../p/q/inner.yaml"])
def test_nor_does_a_sop_that_is_a_step(base: Path, inner: str) -> None:
    put(base / "p", {"q/a.yaml": ENTRY.replace("inner.yaml", f"'{inner.format(base=base)}'")})
    assert "FOREIGN" not in repr(load_sop("../p/q/a.yaml").program)


def test_what_a_linked_folder_of_roles_holds_lies_outside(base: Path) -> None:
    """A stranger's `roles/` that leads to my keys: each plain name in it would be a template."""
    put(base, {"keys/id_rsa": "SECRET", "theirs/q/a.yaml": "sop: a\nroles: {v: {profile: x, prompt: id_rsa}}\n"
               "artifacts: {out: {}}\nsteps: {s: {role: v, makes: out}}\n"})
    (base / "theirs" / "roles").symlink_to("../keys")
    report = check("../theirs/q/a.yaml")
    assert "SECRET" not in repr(report.program) and "file-outside" in [one.code for one in report.errors]


def test_a_home_that_nobody_has_is_told(base: Path) -> None:
    with pytest.raises(SOPNotFound, match=r"no SOP `~nobody-at-all/a\.yaml`"):
        load_sop("~nobody-at-all/a.yaml")


def test_a_folder_is_looked_at_where_it_lies(base: Path) -> None:
    """A journal of an older version has the path as it was written."""
    for written in ("../p/q", "link", "../y/../p/q"):
        assert library.Folders(Path(written)).python == [base / "p" / "q", base / "p"]
        assert library.Folders(Path(written)).own_roles == [base / "p" / "q" / "roles", base / "p" / "roles"]
        assert library.Folders(Path(written)).files[:2] == [base / "p" / "q", base / "p" / "sops"]
        assert library.project_of(Path(written)) == base / "p"
