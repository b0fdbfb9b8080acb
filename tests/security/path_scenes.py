"""What the cases of `paths.yaml` do. Each scene gets a folder with `w/OUT`, that nobody may touch, and says what came of it."""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from scripted import Scripted, events
from test_agent_tools import Script, calls

from metaflow_agents import run
from metaflow_agents.cli.entry_point import command
from metaflow_agents.errors import JournalError, MetaflowError, RunError, UsageError
from metaflow_agents.journal.audit import Head, Heads
from metaflow_agents.output.history.writing import rebuild
from metaflow_agents.output.workspace import PARTIAL, Workspace
from metaflow_agents.questions.answer_queue import AnswerQueue, Letter
from metaflow_agents.questions.question import Answer
from metaflow_agents.runtime.inputs import read_inputs
from metaflow_agents.sandbox.collecting import CollectedFiles, mark
from metaflow_agents.schema.event import Done, RunOpened
from metaflow_agents.sop.load import load_sop

SWAPS = 1000
SECRET = "the user's own"
PLAIN = """
sop: filing
policy: {preset: danger-full-access}
inputs: {topic: string}
roles: {worker: {profile: a worker, tools: [read, write, edit, list, search, run]}}
artifacts: {source: {files: "src/**"}}
steps: {work: {role: worker, needs: [topic], makes: source}}
"""
FIRST = "=== file: src/a.py ===\na = 1\n=== end ===\n"


@dataclass(frozen=True)
class Case:
    folder: Path
    row: dict[str, Any]

    @property
    def home(self) -> Path:
        return self.folder / "w"

    @property
    def outside(self) -> Path:
        return self.home / "OUT"

    @property
    def run(self) -> Path:
        return self.home / "r"

    @property
    def path(self) -> str:
        written: str = self.row["path"]
        written = written.replace("LONG", "x" * 300).replace("DEEP", "d/" * 600 + "x")
        return str(self.outside) + written.removeprefix("/OUT") if written.startswith("/OUT") else written

    def sop(self, text: str = PLAIN, **files: str) -> Path:
        for name, content in files.items():
            (self.folder / name).write_text(content)
        (self.folder / "sop.yaml").write_text(text)
        return self.folder / "sop.yaml"

    def begin(self, model: Any, text: str = PLAIN, **more: Any) -> Awaitable[Any]:
        return run(self.sop(text), **{"topic": "x", "name": "r", "workspace": self.home, "model": model, **more})


Scene = Callable[[Case], Awaitable[str]]
SCENES: dict[str, Scene] = {}


def scene(function: Scene) -> Scene:
    SCENES[function.__name__] = function
    return function


def cli(*words: str) -> tuple[int, str]:
    """A command in this process: its status, and all that it said."""
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        status = command(words)
    return status, said.getvalue()


@contextmanager
def swapping(place: Path, other: Path) -> Iterator[Callable[[], bool]]:
    """A folder (or file) is swapped for a link and back, so many times; the value says whether that still goes on."""
    link, aside, left = place.with_name("link"), place.with_name("aside"), threading.Event()
    link.symlink_to(other)

    def swap() -> None:
        for _ in range(SWAPS):
            with suppress(OSError):
                os.rename(place, aside)
                os.rename(link, place)
                os.rename(place, link)
                os.rename(aside, place)
        left.set()

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield lambda: not left.is_set()
    finally:
        thread.join()


# -- what a role writes


def asked(tool: str, path: str) -> dict[str, Any]:
    return {"write": {"path": path, "text": "x = 1\n"}, "edit": {"path": path, "search": "a", "replace": "b"},
            "read": {"path": path}, "list": {"pattern": path}, "search": {"expression": "user", "pattern": path}}[tool]


@scene
async def tool(case: Case) -> str:
    name = case.row["tool"]
    model = Script(calls((name, asked(name, case.path))), FIRST)
    result = await case.begin(model)
    (done,) = events(case.home, "r", Done)
    assert result.ok, result.reason
    assert SECRET not in model.results(1)[0]
    if done.error:
        assert set(result["source"]) == {"src/a.py"}
        return "refused"
    assert case.path in result["source"] and (case.run / case.path).is_file()
    return "harmless"


@scene
async def tool_pair(case: Case) -> str:
    first, second = case.row["paths"]
    result = await case.begin(Script(calls(("write", asked("write", first)), ("write", asked("write", second))), "done"))
    assert set(result["source"]) == {first, second} and len(list((case.run / "src").iterdir())) == 2
    return "harmless"


async def answered(case: Case, bad: str) -> str:
    model = Script(bad, FIRST)
    result = await case.begin(model)
    assert result.ok and set(result["source"]) == {"src/a.py"} and len(model.sent) == 2
    return "refused"


@scene
async def block(case: Case) -> str:
    return await answered(case, f"=== file: {case.path} ===\nx = 1\n=== end ===\n")


@scene
async def block_rename(case: Case) -> str:
    return await answered(case, f"{FIRST}=== rename: src/a.py -> {case.path} ===\n")


@scene
async def command_(case: Case) -> str:
    words = case.path.replace("OUT", str(case.outside))
    model = Script(calls(("write", {"path": "src/a.py", "text": "a = 1\n"})),
                   calls(("run", {"command": ["bash", "-c", words]})), calls(("read", {"path": "src/a.py"})), FIRST)
    result = await case.begin(model)
    assert result.ok and set(result["source"]) == {"src/a.py"}, result
    said = model.results(2)[-1]
    assert "not kept" in said, said
    assert all(path.is_file() and not path.is_symlink() for path in (case.run / "src").rglob("*"))
    return "left" if "it is a" in said else "refused"


SCENES["command"] = SCENES.pop("command_")


@scene
async def parsed(case: Case) -> str:
    (case.outside / "secret.json").write_text(json.dumps({"secret": SECRET}))
    words = json.dumps(["bash", "-c", case.path.replace("OUT", str(case.outside))])
    text = ("sop: s\nartifacts: {r: {schema: {secret: string}}}\n"
            f"steps: {{w: {{run: {words}, parse: json r.json, makes: r}}}}\n")
    result = await run(case.sop(text), name="r", workspace=case.home, sandbox="none")
    (case.outside / "secret.json").unlink()
    assert not result.ok and SECRET not in result.reason and "r.json" in result.reason
    return "refused"


def block_of(path: str) -> str:
    return f"=== file: {path} ===\nx\n=== end ===\n"


@scene
async def item_key(case: Case) -> str:
    text = PLAIN.replace('files: "src/**"}', 'files: "src/**"}, plan: {schema: {paths: [string]}}').replace(
        "steps: {work: {role: worker, needs: [topic], makes: source}}", """steps:
  think: {role: worker, needs: [topic], makes: plan}
  work: {role: worker, needs: [plan], foreach: {in: plan.paths, as: one}, makes: {source: "{{ one }}"}}
""")
    answers = {"think": [{"paths": [case.path]}, {"paths": ["src/a.py"]}],
               "work": lambda request: block_of(case.path if case.path in str(request.messages) else "src/a.py")}
    model = Scripted(answers)
    result = await case.begin(model, text)
    thought = sum(step == "think" for step in model.steps)
    assert result.ok, result.reason
    assert set(result["source"]) == {"src/a.py"} if thought == 2 else set(result["source"]) == {case.path}
    return "refused" if thought == 2 else "harmless"


# -- the run's folder


@scene
async def planted_in_run(case: Case) -> str:
    place, _, target = case.path.partition(" -> ")
    (case.run / place).parent.mkdir(parents=True, exist_ok=True)
    (case.run / place).symlink_to(target.replace("OUT", str(case.outside)))
    workspace = Workspace(case.run)
    with suppress(RunError):
        await workspace.apply({"src/a.py": b"x"})
    with suppress(RunError):
        await workspace.apply({}, ["src/secret.txt"])
    await workspace.reconcile({"src/b.py": sha256(b"y").hexdigest()}, lambda _: told(b"y"))
    assert (case.run / "src/b.py").read_bytes() == b"y" and not (case.run / place).is_symlink()
    return "left"


async def told(data: bytes) -> bytes:
    return data


@scene
async def planted_partial(case: Case) -> str:
    case.run.mkdir()
    (case.run / (PARTIAL + sha256(b"a.py").hexdigest()[:16])).symlink_to(case.outside / "secret.txt")
    with suppress(RunError):
        await Workspace(case.run).apply({"a.py": b"x"})
    await Workspace(case.run).reconcile({"a.py": sha256(b"x").hexdigest()}, lambda _: told(b"x"))
    return "left"


async def refused(work: Awaitable[Any], *words: str) -> str:
    try:
        result = await work
    except MetaflowError as error:
        assert all(word in str(error) for word in words), error
        return "refused"
    assert not result.ok and all(word in result.reason for word in words), result
    return "refused"


@scene
async def run_folder_link(case: Case) -> str:
    case.run.symlink_to(case.outside)
    (case.home / "filing-1").symlink_to(case.outside)
    assert (await case.begin(Script(FIRST), name=None)).name == "filing-2", "nobody chose the name: another one is taken"
    return await refused(case.begin(Script(FIRST)), "r")


@scene
async def run_folder_taken(case: Case) -> str:
    case.run.mkdir()
    (case.run / case.path).write_text("mine")
    found = await refused(case.begin(Script(FIRST)), "r", "another name")
    assert (case.run / case.path).read_text() == "mine"
    return found


@scene
async def git_link(case: Case) -> str:
    assert (await case.begin(Script(FIRST))).ok
    os.rename(case.run / ".git", case.folder / "old")
    (case.run / ".git").symlink_to(case.outside)
    return not_rebuilt(case)


@scene
async def git_inner_link(case: Case) -> str:
    assert (await case.begin(Script(FIRST))).ok
    for part in ("refs", "objects"):
        os.rename(case.run / ".git" / part, case.folder / part)
        (case.run / ".git" / part).symlink_to(case.outside)
        not_rebuilt(case)
        (case.run / ".git" / part).unlink()
    return "refused"


def not_rebuilt(case: Case) -> str:
    try:
        rebuild(case.home / ".journals" / "r.db", case.run)
    except RunError:
        return "refused"
    return "written"


@scene
async def workspace_link(case: Case) -> str:
    (case.folder / "real").mkdir()
    (case.folder / "linked").symlink_to("real")
    result = await case.begin(Script(FIRST), workspace=case.folder / "linked")
    assert result.ok and (case.folder / "real" / "r" / "src" / "a.py").is_file()
    return "harmless"


@scene
async def race_workspace(case: Case) -> str:
    workspace, number = Workspace(case.run), 0
    (case.run / "src").mkdir(parents=True)
    with swapping(case.run / "src", case.outside) as going:
        while going():
            number += 1
            with suppress(RunError):
                await workspace.apply({f"src/{number}.py": b"x"}, ["src/secret.txt", f"src/{number - 1}.py"])
    assert number > 1
    return "left"


@scene
async def race_reconcile(case: Case) -> str:
    (case.run / "src").mkdir(parents=True)
    with swapping(case.run / "src", case.outside) as going:
        while going():
            with suppress(RunError):
                await Workspace(case.run).reconcile({"src/a.py": sha256(b"x").hexdigest()}, lambda _: told(b"x"))
    return "left"


@scene
async def race_collect(case: Case) -> str:
    (case.run / "src").mkdir(parents=True)
    (case.run / "src" / "secret.txt").write_text("theirs")
    (case.run / "a.txt").write_text("theirs")
    given = {"src/secret.txt": b"theirs", "a.txt": b"theirs"}
    marks = {path: mark((case.run / path).stat()) for path in given}
    (case.folder / "aside").mkdir()
    with swapping(case.run / "src", case.outside) as going, swapping_file(case) as also:
        while going() or also():
            found = CollectedFiles(given, marks, 0).look(case.run)
            assert all(SECRET.encode() not in data for data in found.written.values()), found
    return "left"


@contextmanager
def swapping_file(case: Case) -> Iterator[Callable[[], bool]]:
    """`a.txt` in the run's folder; what it is swapped with lies elsewhere."""
    place, link, aside, over = case.run / "a.txt", case.folder / "aside" / "l", case.folder / "aside" / "a", threading.Event()
    link.symlink_to(case.outside / "secret.txt")

    def swap() -> None:
        for _ in range(SWAPS):
            os.rename(place, aside)
            os.rename(link, place)
            os.rename(place, link)
            os.rename(aside, place)
        over.set()

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield lambda: not over.is_set()
    finally:
        thread.join()


# -- inputs


FOLDER = """
sop: s
inputs: {d: folder}
artifacts: {n: {schema: integer}}
steps: {w: {value: "d | length", needs: [d], makes: n}}
"""


def blobs_of(case: Case) -> bytes:
    program = load_sop(case.sop(FOLDER)).program
    return b"".join(read_inputs(program, {"d": str(case.folder / "d")}).blobs.values())


@scene
async def input_folder(case: Case) -> str:
    place, _, target = case.path.partition(" -> ")
    (case.folder / "d").mkdir()
    (case.folder / "d" / "plain.txt").write_text("plain")
    (case.folder / "d" / place).symlink_to(target.replace("OUT", str(case.outside)))
    found = blobs_of(case)
    assert b"plain" in found and SECRET.encode() not in found
    return "left"


@scene
async def input_pipe(case: Case) -> str:
    (case.folder / "d").mkdir()
    os.mkfifo(case.folder / "d" / "p")
    assert b"p" in blobs_of(case)
    return "left"


@scene
async def race_input(case: Case) -> str:
    inner = case.folder / "d" / "inner"
    inner.mkdir(parents=True)
    (inner / "secret.txt").write_text("theirs")
    with swapping(inner, case.outside) as going:
        while going():
            with suppress(UsageError):
                assert SECRET.encode() not in blobs_of(case)
    return "left"


@scene
async def input_device(case: Case) -> str:
    program = load_sop(case.sop(FOLDER.replace("folder", "file"))).program
    try:
        read_inputs(program, {"d": case.path})
    except UsageError as error:
        assert "/dev/zero" in str(error)
        return "refused"
    return "read"


# -- names


@scene
async def run_name(case: Case) -> str:
    before = set(case.folder.rglob("*"))
    found = await refused(case.begin(Script(FIRST), name=case.path), "name")
    assert set(case.folder.rglob("*")) - before <= {case.folder / "sop.yaml"}
    return found


@scene
async def run_name_read(case: Case) -> str:
    (case.outside / "secret.db").write_text("x")
    home = ("--workspace", str(case.home))
    for words in (("show", case.path), ("log", case.path), ("log", case.path, "--audit"), ("diff", case.path, case.path),
                  ("resume", case.path), ("fork", case.path), ("history", case.path), ("answer", case.path, "1", "yes"),
                  ("export", case.path, "--recording", str(case.folder / "r.jsonl"), "--answered-by", "x")):
        status, said = cli(*words, *home)
        assert status == 2 and "can't be a run's name" in said, (words, status, said)
    (case.outside / "secret.db").unlink()
    return "refused"


# -- other files of a run


@scene
async def export_link(case: Case) -> str:
    assert (await case.begin(Script(FIRST))).ok
    exported = case.folder / "r.jsonl"
    for name in ("r.jsonl", ".r.jsonl.part"):
        (case.folder / name).symlink_to(case.outside / "secret.txt")
    status, said = cli("export", "r", "--recording", str(exported), "--answered-by", "x", "--workspace", str(case.home))
    assert status == 0 and exported.is_file() and not exported.is_symlink(), said
    return "left"


def letter(key: str) -> Letter:
    return Letter(key=key, question="q", answer=Answer(verdict="yes"))


@scene
async def mailbox_link(case: Case) -> str:
    box = AnswerQueue(case.folder / "r.db")
    if case.row["path"] == "part":
        for key in "ab":
            box.put(letter(key))
        box.path.with_name(f"{box.path.name}.part").symlink_to(case.outside / "secret.txt")
        box.drop([letter("a")])
        assert [one.key for one in box.letters()] == ["b"] and not box.path.is_symlink()
        return "left"
    box.path.symlink_to(case.outside / "secret.txt")
    for work in (lambda: box.put(letter("a")), box.letters, lambda: box.drop([])):
        try:
            work()
        except JournalError as error:
            assert str(box.path) in str(error)
        else:
            return "followed"
    return "refused"


@scene
async def mailbox_pipe(case: Case) -> str:
    box = AnswerQueue(case.folder / "r.db")
    os.mkfifo(box.path)
    try:
        box.put(letter("a"))
    except JournalError:
        return "refused"
    return "written"


def head_of(case: Case) -> tuple[Heads, RunOpened, Path, Path]:
    heads, journal = Heads(case.folder / "heads"), case.folder / "r.db"
    opened = RunOpened(run="r", sop="s", compiled="c", sources={}, entry="e", at=1.0)
    heads.write(opened, journal, Head(1, "a"))
    (place,) = (case.folder / "heads").iterdir()
    return heads, opened, journal, place


@scene
async def head_link(case: Case) -> str:
    heads, opened, journal, place = head_of(case)
    place.with_suffix(f".{os.getpid()}.part").symlink_to(case.outside / "secret.txt")
    heads.write(opened, journal, Head(2, "b"))
    assert heads.read(opened, journal) == Head(2, "b") and not place.is_symlink()
    return "left"


@scene
async def head_pipe(case: Case) -> str:
    heads, opened, journal, place = head_of(case)
    place.unlink()
    os.mkfifo(place)
    try:
        heads.read(opened, journal)
    except JournalError:
        return "refused"
    return "read"


@scene
async def lock_link(case: Case) -> str:
    assert (await case.begin(Script(FIRST), until="work")).ok
    lock = case.home / ".journals" / "r.db.lock"
    lock.symlink_to(case.outside / "secret.txt")
    status, said = cli("resume", "r", "--workspace", str(case.home))
    assert status == 1 and "r.db.lock" in said, said
    return "left"


@scene
async def journal_pipe(case: Case) -> str:
    (case.home / ".journals").mkdir()
    os.mkfifo(case.home / ".journals" / "p.db")
    for words in (("show", "p"), ("log", "p"), ("resume", "p"), ("fork", "p"), ("history", "p")):
        status, said = cli(*words, "--workspace", str(case.home))
        assert status == 2 and "no run" in said, said
    status, said = cli("runs", "--workspace", str(case.home))
    assert "Traceback" not in said
    return "refused"


@scene
async def journal_new_link(case: Case) -> str:
    (case.home / ".journals").mkdir()
    for ending in (".new", ".new-journal"):
        (case.home / ".journals" / f"r.db{ending}").symlink_to(case.outside / "secret.txt")
    assert (await case.begin(Script(FIRST))).ok
    return "left"


@scene
async def journals_link(case: Case) -> str:
    (case.folder / "theirs").mkdir()
    (case.home / ".journals").symlink_to(case.folder / "theirs")
    assert (await case.begin(Script(FIRST))).ok
    assert {path.name for path in (case.folder / "theirs").iterdir()} == {"r.db"}
    return "harmless"
