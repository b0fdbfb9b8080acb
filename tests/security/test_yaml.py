"""Every case of `yaml.yaml`: hostile SOP files are told or harmless, soon, in little memory, and reach nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tiers

TABLE: list[dict[str, Any]] = tiers.table(Path(__file__).with_name("yaml.yaml"))
KEYS = {"id", "owasp", "what", "whole", "top", "encoding", "repeat", "files", "links", "expected", "dry"}
FRAME = """
sop: hostile
inputs: {topic: string}
roles: {worker: {profile: a worker}}
artifacts: {note: {file: note.md}}
steps: {work: {role: worker, needs: [topic], makes: note}}
"""
EVIL = """
from pathlib import Path
Path(__file__).with_name("pwned").touch()
Model = None
class Model: pass
def go(): pass
"""
MADE = {
    "BOMB": "\n".join(["a0: &a0 [x, x, x, x, x, x, x, x, x]",
                       *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12))]),
    "DOUBLING": json.dumps({"$ref": "#/$defs/d0", "$defs": {
        **{f"d{i}": {"type": "object", "properties": {one: {"$ref": f"#/$defs/d{i + 1}"} for one in "ab"}, "required": ["a", "b"]}
           for i in range(30)}, "d30": {"type": "string"}}}),
}
# What a row does to this process is heard by an audit hook (https://peps.python.org/pep-0578/), which nothing in it can take off.
PROBE = """
import asyncio, json, os, re, resource, sys, time
from pathlib import Path
import metaflow_agents.api.run, metaflow_agents.models.dry, metaflow_agents.engine.scheduler
from metaflow_agents.views.page import Page
from metaflow_agents.errors import MetaflowError
from metaflow_agents.runtime.checking import check
from metaflow_agents.views.checked import report_lines

heard = []
outside = os.path.realpath(sys.argv[1] + "/outside")
def hear(event, arguments):
    if event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "socket.connect",
                 "socket.getaddrinfo", "socket.sendto", "pickle.find_class"):
        heard.append(event)
    if event == "open" and isinstance(arguments[0], str) and os.path.realpath(arguments[0]).startswith(outside):
        heard.append("open " + arguments[0])
    if event == "import" and arguments[0].partition(".")[0] == "evil":
        heard.append("import")
sys.addaudithook(hear)

def looked(file):
    os.chdir(file.parent)
    report = check(file, start=file.parent)
    lines = report_lines(report, Page(width=100))
    return report, chr(10).join(lines)

async def walked(file):
    from metaflow_agents import run
    async with asyncio.timeout(20):
        try:
            given = {"topic": "x"} if "topic:" in file.read_text() else {}
            result = await run(file, **given, model="dry", workspace=None)
        except MetaflowError as error:
            return "refused", str(error)
    return result.outcome, result.reason

resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
for name in sys.argv[2:]:
    file = Path(sys.argv[1], name, "sop.yaml")
    heard.clear()
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 60, resource.RLIM_INFINITY))   # then a signal ends it
    report, shown = looked(file)
    ends = asyncio.run(walked(file)) if (file.parent / "dry").exists() else None
    codes = sorted({one.code for one in report.problems if one.severity == "error"})
    print(json.dumps(dict(id=name, codes=codes, heard=list(heard), shown=shown[:200_000],
        length=len(shown), ends=ends,
        megabytes=int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024)), flush=True)
"""


def filled(text: str, row: dict[str, Any]) -> str:
    for word, made in MADE.items():
        text = made if text == word else text
    for word, (part, times) in row.get("repeat", {}).items():
        text = text.replace(word, part * times)
    return text


def lay_out(home: Path) -> None:
    outside = home / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("canary-of-the-user")
    (outside / "schema.yaml").write_text("$schema: https://json-schema.org/draft/2020-12/schema\ntype: string\n"
                                         "description: canary-of-the-user\n")
    for row in TABLE:
        folder = home / row["id"]
        (folder / ".git").mkdir(parents=True)
        (folder / "evil.py").write_text(EVIL)
        text = row["whole"] if "whole" in row else f"{row['top']}\n{FRAME}"
        (folder / "sop.yaml").write_bytes(filled(text, row).encode(row.get("encoding", "utf-8")))
        for name, text in row.get("files", {}).items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(filled(text, row))
        for name, target in row.get("links", {}).items():
            (folder / name).symlink_to(target.replace("OUTSIDE", str(outside)))
        if "dry" in row:
            (folder / "dry").touch()


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    home: Path = tmp_path_factory.mktemp("yaml")
    lay_out(home)
    found: dict[str, dict[str, Any]] = {}
    while left := [row["id"] for row in TABLE if row["id"] not in found]:
        done = subprocess.run([sys.executable, "-c", PROBE, str(home), *left], capture_output=True, text=True, timeout=300,
                              check=False)
        found |= {one["id"]: one for one in map(json.loads, done.stdout.splitlines())}
        if done.returncode:             # whoever came next ended it: the others are looked at without it
            lost = next(name for name in left if name not in found)
            found[lost] = {"codes": [f"ended with {done.returncode}"], "heard": [], "shown": done.stderr[-2000:], "ends": None,
                           "length": 0, "megabytes": 0}
    for row in TABLE:
        found[row["id"]]["pwned"] = [path.name for path in (home / row["id"]).rglob("pwned")]
    return found


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row["id"])
def test_a_hostile_file_is_told_or_harmless(row: dict[str, Any], told: dict[str, dict[str, Any]]) -> None:
    one = told[row["id"]]
    if row["expected"] == "harmless":
        assert one["codes"] == [], one["shown"]
    else:
        assert set(row["expected"]) <= set(one["codes"]), one["shown"]
    assert one["heard"] == [] and one["pwned"] == []
    assert one["ends"] is None or one["ends"][0] == row["dry"], one["ends"]
    assert one["ends"] is None or one["ends"][0] == "success" or one["ends"][1], "why is told"
    assert "canary-of-the-user" not in one["shown"] and "Traceback" not in one["shown"] + str(one["ends"])
    assert all(char.isprintable() or char == "\n" for char in one["shown"]), "nothing reaches the terminal but text"
    assert one["length"] < 20_000
    assert one["megabytes"] < 400


def test_the_table_is_whole() -> None:
    assert len(TABLE) == len({row["id"] for row in TABLE}) >= 30
    assert all(row.keys() <= KEYS and row["owasp"] and row["what"] and row["expected"] for row in TABLE)
