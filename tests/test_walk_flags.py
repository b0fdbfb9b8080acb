"""Every command-line option and argument changes something: a walk over the commands against pairs of command lines.

Each side runs twice in a folder of its own; compared are the exit status, what is printed, the files that are left and
the journals of the runs, free of times.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
from patience import PATIENCE
from real_git import timeless as timeless_history
from sandboxes import LACKING
from walk_journal import told

from metaflow_agents.cli import command
from metaflow_agents.cli.app import app
from metaflow_agents.journal.journal import Journal
from metaflow_agents.memory.store import PLACE, MemoryDatabase

LETTERS = """
sop: letters
inputs: {topic: {type: string, default: rain}}
roles: {writer: {profile: a writer}, critic: {profile: a critic, model: strict}}
artifacts: {letter: {}, verdict: {}, stamped: {}}
models: {default: "python:desk.py:answer", strict: "python:desk.py:answer"}
steps:
  write: {role: writer, needs: [topic], makes: letter, task: "Write about {{ topic }}."}
  judge: {role: critic, needs: [letter], makes: verdict}
  stamp: {value: letter ~ verdict, needs: [letter, verdict], makes: stamped}
tests:
  walks: {model: dry, expect: success}
  fails: {model: dry, expect: letter == ''}
"""
OPEN = LETTERS.replace("{type: string, default: rain}", "string").partition("tests:")[0]
READING = OPEN.replace("sop: letters", "sop: reading").replace("topic: string", "topic: file")
CLASHING = (LETTERS.replace("inputs: {", "inputs: {until: {type: string, default: noon}, ")
            .replace("needs: [topic]", "needs: [topic, until]"))
THINKING = LETTERS.replace("{role: writer, needs: [topic],", "{role: writer, strategy: chain_of_thought, needs: [topic],")
COMMANDS = """
sop: commands
artifacts: {listing: {}, confined: {schema: boolean}}
steps:
  list_it: {run: [python, -c, "import os; print(os.path.exists('/sop/work'))"], makes: listing}
  look: {value: "listing.stdout == 'True\\n'", needs: [listing], makes: confined}
tests: {confines: {model: "python:desk.py:answer", expect: confined}}
"""
PACKAGED = """
sop: packaged
artifacts: {lock: {}}
steps:
  resolve: {tool: packages, inputs: {requirements: "['alpha']"}, makes: lock}
"""
TOOLED = LETTERS.replace("{profile: a writer}", "{profile: a writer, tools: [write]}")
DESK = """
async def answer(request):
    return f"{request.role}: {request.step}"
async def another(request):
    return "said by another"
"""
ASKING = """
sop: asking
inputs: {topic: {type: string, default: rain}}
artifacts: {approval: {}, tone: {}, told: {}}
steps:
  approve: {human: approve, needs: [topic], makes: approval, task: "Of {{ topic }}?"}
  pick: {human: {choice: [warm, cold]}, needs: [approval], makes: tone, task: Which?}
  tell: {value: tone.choice, needs: [tone], makes: told}
"""
REMEMBERING = LETTERS.replace("{profile: a writer}", "{profile: a writer, memory: {recall: {importance: 0}}}")
KEEPING = LETTERS.replace("default: rain}", "default: rain, keep: letter}")
WIDE = """
sop: wide
roles: {writer: {profile: a writer}}
artifacts: {letters: {each: string}}
models: {default: "python:desk.py:answer"}
steps: {write: {role: writer, foreach: {in: "'abcdefghijklmnopqrstu' | list"}, makes: letters}}
"""
FOLDER = """
sop: folder
inputs: {code: folder}
artifacts: {out: {}}
steps: {join: {value: "'x'", needs: [code], makes: out}}
"""
FILES = {"asking.yaml": ASKING, "folder.yaml": FOLDER, "wide.yaml": WIDE, "keys/a.key": "x",
         "letters.yaml": LETTERS, "open.yaml": OPEN, "reading.yaml": READING,
         "clashing.yaml": CLASHING, "thinking.yaml": THINKING,
         "tooled.yaml": TOOLED, "remembering.yaml": REMEMBERING, "keeping.yaml": KEEPING,
         "commands.yaml": COMMANDS, "packaged.yaml": PACKAGED, "desk.py": DESK}


@dataclass(frozen=True)
class Pair:
    """Two command lines that differ in one option or argument, after the same lines before."""

    key: str                                # `run --until`, `check FILE`
    without: str
    with_: str
    before: Sequence[str] = ()
    change: tuple[str, str, str] | None = None       # file, text, its replacement: made after `before`
    status: int = 0                         # with the option


NOBODY = "http://127.0.0.1:9"           # the port of `discard`, at which nobody listens
RUN = "run letters.yaml --name one"
OTHER = "run letters.yaml --name two --topic snow"
STOPPED = "run letters.yaml --name one --until write"
ELSEWHERE = " --workspace elsewhere"
CAPPED = "run thinking.yaml --name one --budget calls=1"        # the first of the two calls of `write` is paid

ASKED = "run asking.yaml --name one"
REMEMBERED = ["run remembering.yaml --name one", "run remembering.yaml --name two --topic snow"]
APPROVED = [ASKED, "answer one --yes", "resume one"]

PAIRS = [
    Pair("--version", "", "--version"),
    Pair("check FILE", "check", "check letters.yaml"),
    Pair("check FILE", "check letters.yaml", "check letters.yaml open.yaml"),
    Pair("check --json", "check letters.yaml", "check letters.yaml --json"),
    Pair("run FILE", "run", "run letters.yaml"),
    Pair("run FILE", "run letters.yaml", "run letters.yaml --topic snow"),
    Pair("run FILE", "run open.yaml", "run open.yaml --topic snow"),
    Pair("run --model", "run letters.yaml", "run letters.yaml --model dry"),
    Pair("run --model", "run letters.yaml", "run letters.yaml --model strict=python:desk.py:another"),
    Pair("run --model", "run letters.yaml", "run letters.yaml --model replay:one", [f"{RUN} --topic hail"], status=5),
    Pair("run --name", "run letters.yaml", "run letters.yaml --name monday"),
    Pair("run --workspace", "run letters.yaml", "run letters.yaml --workspace elsewhere"),
    Pair("run --until", "run letters.yaml", "run letters.yaml --until write"),
    Pair("run --from", "run letters.yaml", "run letters.yaml --from one", [RUN]),
    Pair("run --keep-from", "run keeping.yaml", "run keeping.yaml --keep-from none", ["run keeping.yaml"]),
    Pair("run --sandbox", "run commands.yaml", "run commands.yaml --sandbox none"),
    Pair("run --budget", "run letters.yaml", "run letters.yaml --budget calls=1", status=3),
    Pair("run --everything", "run folder.yaml --code keys", "run folder.yaml --code keys --everything"),
    Pair("run --yes", "run asking.yaml", "run asking.yaml --yes", status=4),
    Pair("run --allow", "run packaged.yaml", "run packaged.yaml --allow alpha", status=1),
    Pair("run --input", "run clashing.yaml", "run clashing.yaml --input until=night"),
    Pair("run --otel", "run letters.yaml", f"run letters.yaml --otel {NOBODY}"),
    Pair("run --otel-content", "run letters.yaml", "run letters.yaml --otel-content", status=2),    # what it adds: test_otel.py
    Pair("run --json", "run letters.yaml", "run letters.yaml --json"),
    Pair("run --help", "run letters.yaml", "run letters.yaml --help"),
    Pair("run --help", "run --help", "run letters.yaml --help"),
    Pair("preview FILE", "preview", "preview letters.yaml write"),
    Pair("preview FILE", "preview letters.yaml write", "preview clashing.yaml write"),
    Pair("preview STEP", "preview letters.yaml", "preview letters.yaml write"),
    Pair("preview STEP", "preview letters.yaml judge", "preview letters.yaml write"),
    Pair("preview --INPUT", "preview letters.yaml write", "preview letters.yaml write --topic snow"),
    Pair("preview --stub", "preview letters.yaml judge", 'preview letters.yaml judge --stub letter="Dear"'),
    Pair("preview --input", "preview clashing.yaml write", "preview clashing.yaml write --input until=night"),
    Pair("preview --json", "preview letters.yaml write", "preview letters.yaml write --json"),
    Pair("test FILE", "test", "test letters.yaml", status=1),
    Pair("test CASE", "test letters.yaml", "test letters.yaml walks"),
    Pair("test --sandbox", "test commands.yaml", "test commands.yaml --sandbox none", status=1),
    Pair("test --json", "test letters.yaml", "test letters.yaml --json", status=1),
    Pair("graph FILE", "graph", "graph letters.yaml"),
    Pair("graph --mermaid", "graph letters.yaml", "graph letters.yaml --mermaid"),
    Pair("graph --svg", "graph letters.yaml", "graph letters.yaml --svg"),
    Pair("graph --html", "graph letters.yaml", "graph letters.yaml --html graph.html"),
    Pair("graph --json", "graph letters.yaml", "graph letters.yaml --json"),
    Pair("new NAME", "new", "new town"),
    Pair("new --folder", "new town", "new town --folder deep/town"),
    Pair("new --template", "new town", "new town --template fan-out"),
    Pair("resume RUN", "resume", "resume one", [STOPPED]),
    Pair("resume --model", "resume one", "resume one --model python:desk.py:another", [STOPPED]),
    Pair("resume --sandbox", "resume one", "resume one --sandbox none", ["run commands.yaml --name one --until list_it"]),
    Pair("resume --budget", "resume one", "resume one --budget calls=1", [STOPPED], status=3),
    Pair("resume --accept-changes", "resume one", "resume one --accept-changes", [STOPPED],
         ("letters.yaml", "letter ~ verdict", "verdict ~ letter")),
    Pair("resume --retry-changed-prompts", "resume one --accept-changes --budget calls=9",
         "resume one --accept-changes --budget calls=9 --retry-changed-prompts",
         [CAPPED], ("thinking.yaml", "Write about", "Write a letter about")),
    Pair("resume --until", "resume one", "resume one --until judge", [STOPPED]),
    Pair("resume --otel", "resume one", f"resume one --otel {NOBODY}", [STOPPED]),
    Pair("resume --otel-content", "resume one", "resume one --otel-content", [STOPPED], status=2),
    Pair("resume --workspace", "resume one", "resume one --workspace elsewhere", [STOPPED + ELSEWHERE]),
    Pair("resume --json", "resume one", "resume one --json", [STOPPED]),
    Pair("resume --yes", "resume one", "resume one --yes", [ASKED], status=4),
    Pair("inbox RUN", "inbox", "inbox one", [ASKED, "run asking.yaml --name two"]),
    Pair("inbox QUESTION", "inbox one", "inbox one 1", ["run asking.yaml --name one --topic " + "rain" * 400]),
    Pair("inbox --workspace", "inbox", "inbox --workspace elsewhere", [ASKED + ELSEWHERE]),
    Pair("inbox --json", "inbox", "inbox --json", [ASKED]),
    Pair("answer RUN", "answer --yes", "answer one --yes", [ASKED]),
    Pair("answer QUESTION", "answer one 1 --choice warm", "answer one 2 --choice warm", APPROVED),
    Pair("answer QUESTION", "answer one", "answer one warm", APPROVED),
    Pair("answer --yes", "answer one", "answer one --yes", [ASKED]),
    Pair("answer --no", "answer one", "answer one --no", [ASKED]),
    Pair("answer --choice", "answer one", "answer one --choice warm", APPROVED),
    Pair("answer --reason", "answer one --no", "answer one --no --reason dull", [ASKED]),
    Pair("answer --for", "answer one --yes", "answer one --yes --for run", [ASKED], status=2),
    Pair("answer --arguments", "answer one --yes", "answer one --yes --arguments {}", [ASKED], status=2),
    Pair("answer --resume", "answer one --yes", "answer one --yes --resume", [ASKED], status=4),
    Pair("answer --workspace", "answer one --yes", "answer one --yes --workspace elsewhere", [ASKED + ELSEWHERE]),
    Pair("answer --json", "answer one --yes", "answer one --yes --json", [ASKED]),
    Pair("fork RUN", "fork", "fork one", [RUN]),
    Pair("fork --at", "fork one", "fork one --at judge@1", [RUN]),
    Pair("fork --name", "fork one", "fork one --name two", [RUN]),
    Pair("fork --workspace", "fork one", "fork one --workspace elsewhere", [RUN + ELSEWHERE]),
    Pair("fork --json", "fork one", "fork one --json", [RUN]),
    Pair("runs --workspace", "runs", "runs --workspace elsewhere", [RUN + ELSEWHERE]),
    Pair("runs --json", "runs", "runs --json", [RUN]),
    Pair("show RUN", "show", "show one", [RUN]),
    Pair("show ARTIFACT", "show one", "show one letter", [RUN]),
    Pair("show --workspace", "show one", "show one --workspace elsewhere", [RUN + ELSEWHERE]),
    Pair("show --raw", "show one letter", "show one letter --raw", [RUN]),
    Pair("show --html", "show one", "show one --html one.html", [RUN]),
    Pair("show --json", "show one", "show one --json", [RUN]),
    Pair("show --costs", "show one", "show one --costs", [RUN]),
    Pair("show --all", "show one --costs", "show one --costs --all", ["run wide.yaml --name one"]),
    Pair("log RUN", "log", "log one", [RUN]),
    Pair("log --step", "log one", "log one --step judge", [RUN]),
    Pair("log --kind", "log one", "log one --kind fired", [RUN]),
    Pair("log --full", "log one", "log one --full", [RUN]),
    Pair("log --workspace", "log one", "log one --workspace elsewhere", [RUN + ELSEWHERE]),
    Pair("log --json", "log one", "log one --json", [RUN]),
    Pair("diff RUN1", "diff", "diff one two", [RUN, OTHER]),
    Pair("diff RUN2", "diff one", "diff one two", [RUN, OTHER]),
    Pair("diff --workspace", "diff one two", "diff one two --workspace elsewhere",
         [RUN + ELSEWHERE, OTHER + ELSEWHERE]),
    Pair("diff --json", "diff one two", "diff one two --json", [RUN, OTHER]),
    Pair("history RUN", "history", "history one", [RUN]),
    Pair("history --workspace", "history one", "history one --workspace elsewhere", [RUN + ELSEWHERE]),
    Pair("history --json", "history one", "history one --json", [RUN]),
    Pair("export --for", "export one --output one.jsonl", "export one --for finetune --output one.jsonl", [RUN]),
    Pair("export --output", "export one --for finetune", "export one --for finetune --output one.jsonl", [RUN]),
    Pair("export --untrusted", "export one --for finetune --output one.jsonl",
         "export one --for finetune --output one.jsonl --untrusted", ["run reading.yaml --name one --topic desk.py"]),
    Pair("log --audit", "log one", "log one --audit", APPROVED[:2]),
    Pair("export RUN...", "export", "export one --recording one.jsonl --answered-by me", [RUN]),
    Pair("export --recording", "export one --answered-by me", "export one --recording one.jsonl --answered-by me", [RUN]),
    Pair("export --answered-by", "export one --recording one.jsonl", "export one --recording one.jsonl --answered-by me", [RUN]),
    Pair("export --also", "export one --recording one.jsonl --answered-by me",
         "export one --recording one.jsonl --answered-by me --also two", [RUN, OTHER], status=2),
    Pair("export --results", "export one --for finetune --output one.jsonl",
         "export one --for finetune --output one.jsonl --results", [RUN], status=2),     # what it adds: test_recorded_results.py
    Pair("export --otel", "export one", f"export one --otel {NOBODY}", [RUN], status=1),
    Pair("export --otel-content", "export one", "export one --otel-content", [RUN], status=2),
    Pair("export --workspace", "export one --recording one.jsonl --answered-by me",
         "export one --recording one.jsonl --answered-by me --workspace elsewhere", [RUN + ELSEWHERE]),
    Pair("mcp FILE", "mcp", "mcp letters.yaml"),
    Pair("mcp FILE", "mcp open.yaml", "mcp letters.yaml"),
    Pair("mcp --model", "mcp letters.yaml", "mcp letters.yaml --model dry"),
    Pair("mcp --workspace", "mcp letters.yaml", "mcp letters.yaml --workspace elsewhere"),
    Pair("mcp --sandbox", "mcp commands.yaml", "mcp commands.yaml --sandbox none"),
    Pair("mcp --budget", "mcp letters.yaml", "mcp letters.yaml --budget calls=1"),
    Pair("mcp --root", "mcp reading.yaml", "mcp reading.yaml --root ."),
    Pair("mcp --trust-inputs", "mcp open.yaml --model dry", "mcp open.yaml --model dry --trust-inputs"),
    Pair("policy explain FILE", "policy explain", "policy explain tooled.yaml writer"),
    Pair("policy explain FILE", "policy explain letters.yaml writer", "policy explain tooled.yaml writer"),
    Pair("policy explain WHO", "policy explain tooled.yaml", "policy explain tooled.yaml writer"),
    Pair("policy explain WHO", "policy explain tooled.yaml critic write(a.txt)",
         "policy explain tooled.yaml writer write(a.txt)"),
    Pair("policy explain ACTION", "policy explain tooled.yaml writer", "policy explain tooled.yaml writer write(a.txt)"),
    Pair("policy explain --untrusted", "policy explain tooled.yaml writer call(count)",
         "policy explain tooled.yaml writer call(count) --untrusted"),
    Pair("policy explain --json", "policy explain tooled.yaml writer", "policy explain tooled.yaml writer --json"),
    Pair("schema --role", "schema", "schema --role"),
    Pair("doctor --workspace", "doctor", "doctor --workspace desk.py", status=1),
    Pair("doctor --json", "doctor", "doctor --json"),
    Pair("memory show --role", "memory show", "memory show --role critic", REMEMBERED),
    Pair("memory show --run", "memory show", "memory show --run one", REMEMBERED),
    Pair("memory show --kind", "memory show", "memory show --kind reflection", REMEMBERED),
    Pair("memory show --limit", "memory show", "memory show --limit 1", REMEMBERED),
    Pair("memory show --workspace", "memory show", "memory show --workspace elsewhere", [REMEMBERED[0] + ELSEWHERE]),
    Pair("memory show --json", "memory show", "memory show --json", REMEMBERED),
    Pair("memory search TEXT", "memory search", "memory search snow", REMEMBERED),
    Pair("memory search --role", "memory search judge", "memory search judge --role writer", REMEMBERED),
    Pair("memory search --run", "memory search write", "memory search write --run two", REMEMBERED),
    Pair("memory search --limit", "memory search write", "memory search write --limit 1", REMEMBERED),
    Pair("memory search --workspace", "memory search rain", "memory search rain --workspace elsewhere",
         [REMEMBERED[0] + ELSEWHERE]),
    Pair("memory search --json", "memory search rain", "memory search rain --json", REMEMBERED),
    Pair("memory forget KEY...", "memory forget", "memory forget 4711", REMEMBERED, status=2),
    Pair("memory forget --role", "memory forget", "memory forget --role critic", REMEMBERED),
    Pair("memory forget --run", "memory forget", "memory forget --run one", REMEMBERED),
    Pair("memory forget --all", "memory forget", "memory forget --all", REMEMBERED),
    Pair("memory forget --workspace", "memory forget --all", "memory forget --all --workspace elsewhere",
         [REMEMBERED[0] + ELSEWHERE]),
    Pair("memory forget --json", "memory forget --all", "memory forget --all --json", REMEMBERED),
    Pair("memory add OWNER", "memory add writer rain", "memory add critic rain", REMEMBERED),
    Pair("memory add TEXT", "memory add writer rain", "memory add writer snow", REMEMBERED),
    Pair("memory add --untrusted", "memory add writer rain", "memory add writer rain --untrusted mail", REMEMBERED),
    Pair("memory add --pin", "memory add writer rain", "memory add writer rain --pin", REMEMBERED),
    Pair("memory add --new", "memory add painter rain", "memory add painter rain --new", REMEMBERED),
    Pair("memory add --workspace", "memory add writer rain", "memory add writer rain --workspace elsewhere",
         [REMEMBERED[0] + ELSEWHERE]),
    Pair("memory add --json", "memory add writer rain", "memory add writer rain --json", REMEMBERED),
    Pair("memory export OWNER...", "memory export", "memory export critic", REMEMBERED),
    Pair("memory export --run", "memory export", "memory export --run one", REMEMBERED),
    Pair("memory export --workspace", "memory export", "memory export --workspace elsewhere", [REMEMBERED[0] + ELSEWHERE]),
    Pair("memory clear OWNER...", "memory clear --all --yes", "memory clear critic --yes", REMEMBERED),
    Pair("memory clear --run", "memory clear --all --yes", "memory clear --run one --yes", REMEMBERED),
    Pair("memory clear --all", "memory clear --yes", "memory clear --yes --all", REMEMBERED),
    Pair("memory clear --yes", "memory clear --all", "memory clear --all --yes", REMEMBERED),
    Pair("memory clear --workspace", "memory clear --all --yes", "memory clear --all --yes --workspace elsewhere",
         [REMEMBERED[0] + ELSEWHERE]),
    Pair("memory clear --json", "memory clear --all --yes", "memory clear --all --yes --json", REMEMBERED),
]


def commands(of: str, one: Any) -> Iterator[tuple[str, Any]]:
    """A command and those below it, by the words before their arguments."""
    yield of, one
    for name, inner in getattr(one, "commands", {}).items():
        yield from commands(f"{of}{name} ", inner)


def keys(whole: typer.Typer) -> Iterator[str]:
    """Every option and argument of every command: `run --until`, `check FILE`."""
    for of, one in commands("", typer.main.get_command(whole)):
        for param in one.params:
            if param.param_type_name == "argument":
                yield of + re.sub(r"[\[\]]|@VERSION| .*", "", param.metavar or param.name)
            else:
                yield from (of + option for option in (*param.opts, *param.secondary_opts))


KEYS = tuple(keys(app))
SHOWN_ELSEWHERE = {"run --demo": ".ci/run", "run --dry-tools": "tests/test_examples_stockroom.py",
                   "run --progress": "tests/test_plugins.py", "resume --progress": "tests/test_plugins.py"}
"""Options whose runs are too large for a pair, and the tests that run them."""
COMMANDS_OF_SOP = tuple(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


class Caller(io.RawIOBase):
    """A client of `sop mcp` on standard input: it asks for the tools, calls each SOP, and goes when all is answered."""

    def __init__(self) -> None:
        whom = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        calls = [("tools/call", {"name": name}) for name in ("letters", "commands", "open")]
        calls += [("tools/call", {"name": "letters", "arguments": {"topic": "rain"}})]
        asked = [("initialize", whom), ("tools/list", {}), *calls]
        lines = [json.dumps({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})
                 for id_, (method, params) in enumerate(asked)]
        self._lines, self._wanted, self._answers = [f"{line}\n".encode() for line in lines], len(lines), sys.stdout.buffer

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        """The next line, once what was asked before it is answered."""
        deadline = time.monotonic() + PATIENCE
        while self._answers.getvalue().count(b'"id":') < self._wanted - len(self._lines):  # type: ignore[attr-defined]
            assert time.monotonic() < deadline, "no answer"
            time.sleep(0.005)
        line = self._lines.pop(0) if self._lines else b""
        into[:len(line)] = line
        return len(line)


def carried_out(line: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """One command line: its status and what it prints, free of times."""
    if line.startswith("mcp "):
        sys.stdin = io.TextIOWrapper(io.BufferedReader(Caller()))       # put back by `at_no_terminal`
    status = command(line.split())
    printed = capsys.readouterr()
    return {"status": status, "out": timeless(printed.out), "err": timeless(printed.err)}


def timeless(text: str) -> str:
    """A text without moments, durations, and what is derived from them."""
    text = re.sub(r"\d{4}-\d\d-\d\d|\b\d{1,2}:\d\d(:\d\d)?\b", "WHEN", text)
    text = re.sub(r'"(began|latest|at|seconds)": [\d.]+', r'"\1": 0', text)
    return re.sub(r"\d+(\.\d+)? ?(ms|s|min)\b", "A WHILE", text)


def what_is_left(folder: Path) -> dict[str, Any]:
    """Every file below a folder, journals and repositories as what they tell."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        shown = path.relative_to(folder).as_posix()
        if path.suffix == ".db" and path.parent.name == PLACE.parent.name:
            store = MemoryDatabase(path)
            found[shown] = [{**one.as_json(), "at": 0} for one in store.listed()]
            store.close()
        elif path.suffix == ".db":
            with Journal.read(path) as journal:
                found[shown] = told(journal)
        elif path.name == ".git":
            found[shown] = json.dumps(timeless_history(path.parent))
        elif ".git/" in shown:
            continue                                    # ids of commits and packs follow the times
        elif path.is_file() and "__pycache__" not in shown and not path.name.endswith((".db-wal", ".db-shm", ".lock")):
            found[shown] = timeless(path.read_text(encoding="utf-8"))
    return found


class Bench:
    """A folder that is always called the same, laid out anew for each command line; what stands before it is run once."""

    def __init__(self, folder: Path) -> None:
        self.here, self._prepared = folder / "here", folder / "prepared"

    def lay_out(self, pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
        """The SOPs, the runs that stand before, and the change that follows them."""
        kept = self._prepared / str(abs(hash(tuple(pair.before))))
        if not kept.exists():
            self._fresh()
            for name, text in FILES.items():
                (self.here / name).parent.mkdir(exist_ok=True)
                (self.here / name).write_text(text, encoding="utf-8")
            for earlier in pair.before:
                assert carried_out(earlier, capsys)["status"] in (0, 3, 4)
            shutil.copytree(self.here, kept)
        self._fresh(kept)
        if pair.change is not None:
            name, old, new = pair.change
            assert old in FILES[name]
            (self.here / name).write_text(FILES[name].replace(old, new), encoding="utf-8")

    def _fresh(self, like: Path | None = None) -> None:
        os.chdir(self.here.parent)
        shutil.rmtree(self.here, ignore_errors=True)
        if like is None:
            self.here.mkdir()
        else:
            shutil.copytree(like, self.here)
        os.chdir(self.here)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    before = Path.cwd()
    yield Bench(tmp_path_factory.mktemp("flags"))
    os.chdir(before)


def observed(pair: Pair, line: str, bench: Bench, capsys: pytest.CaptureFixture[str]) -> str:
    """One side of a pair: what the command says, and what it leaves that was not there."""
    bench.lay_out(pair, capsys)
    before = what_is_left(bench.here)
    seen = carried_out(line, capsys)
    left = {name: told for name, told in what_is_left(bench.here).items() if before.get(name) != told}
    return json.dumps({**seen, "left": left}, indent=1, ensure_ascii=False)


@pytest.fixture(autouse=True)
def at_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setenv("PIP_NO_INDEX", "1")          # no machine of the network is asked
    for name in ("SOP_MODEL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.one_in(16)
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.key}: {pair.with_}")
def test_an_option_changes_what_happens(pair: Pair, bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    if pair.key.endswith("--sandbox") and LACKING:
        pytest.skip(LACKING)
    sides = [observed(pair, line, bench, capsys) for line in (pair.without, pair.with_) * 2]
    assert json.loads(sides[1])["status"] == pair.status, sides[1]
    for first, second in ((0, 2), (1, 3)):
        assert sides[first].splitlines() == sides[second].splitlines(), "one side does not do the same twice"
    if sides[0] == sides[1]:
        raise AssertionError(f"`{pair.key}` changes nothing: both lines give\n{sides[0]}")


def test_every_option_has_a_pair() -> None:
    assert {pair.key for pair in PAIRS} | set(SHOWN_ELSEWHERE) == set(KEYS)
    for key, file in SHOWN_ELSEWHERE.items():
        assert key.split()[-1] in (Path(__file__).parent.parent / file).read_text(encoding="utf-8")


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", COMMANDS_OF_SOP)
def test_every_command_tells_its_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    seen = carried_out(f"{name} --help", capsys)
    assert seen["status"] == 0 and seen["err"] == "" and f"Usage: sop {name}" in seen["out"]


@pytest.mark.one_in(4)
def test_the_walk_tells_an_option_that_does_nothing(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AssertionError, match="changes nothing"):
        test_an_option_changes_what_happens(Pair("run --workspace", RUN, f"{RUN} --workspace workspace"), bench, capsys)


def test_the_walk_sees_options_and_arguments_of_every_command() -> None:
    other = typer.Typer()

    @other.command()
    def go(place: str, fast: bool = False) -> None: ...

    @other.command()
    def stay() -> None: ...

    assert set(keys(other)) >= {"go place", "go --fast", "go --no-fast"}
