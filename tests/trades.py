"""An example as a user runs it: a copy of its folder, the command as a process, a stand-in that can be killed at a call."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from patience import until

EXAMPLES = Path(__file__).parent.parent / "examples"
SOP = Path(sys.executable).with_name("sop")
# After so many answers it comes to rest, as long as the file `hold` lies there; else it is the stand-in itself.
HELD = '''\
import asyncio, inspect, pathlib
from desk import FUNCTION as answer
HERE, asked = pathlib.Path(__file__).parent, []

async def held(request):
    asked.append(request.key)
    if len(asked) > AT and (HERE / "hold").exists():
        (HERE / "reached").touch()
        await asyncio.sleep(600)
    given = answer(request)
    return await given if inspect.isawaitable(given) else given
'''


class Trade:
    """A copy of an example, and the commands of somebody who is in it."""

    def __init__(self, name: str, folder: Path) -> None:
        self.folder = folder / name
        shutil.copytree(EXAMPLES / name, self.folder, ignore=shutil.ignore_patterns("workspace", "state", "__pycache__"))
        self.environment = {**os.environ, "PATH": f"{SOP.parent}:{os.environ['PATH']}"}

    def sop(self, *words: str, ends: int = 0) -> str:
        """What a command prints; it has to end with this status."""
        done = subprocess.run([str(SOP), *words], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == ends, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def run(self, name: str, *words: str, function: str, killed: int | None = None, ends: int = 0) -> str:
        """A run by a function of `desk.py`; killed by SIGKILL while it waits for the answer after so many, and resumed."""
        begun = ["run", *words, "--name", name]
        if killed is None:
            return self.sop(*begun, "--model", f"python:desk.py:{function}", ends=ends)
        (self.folder / "held.py").write_text(HELD.replace("FUNCTION", function).replace("AT", str(killed)))
        (self.folder / "hold").touch()
        with (self.folder / "killed.log").open("w") as log:
            running = subprocess.Popen([str(SOP), *begun, "--model", "python:held.py:held"], cwd=self.folder,
                                       env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            until(lambda: (self.folder / "reached").exists() or running.poll() is not None, "the call at which it is killed")
            assert running.poll() is None, (self.folder / "killed.log").read_text()
        finally:
            running.kill()
            running.wait()
            (self.folder / "hold").unlink()
        return self.sop("resume", name, ends=ends)

    def value(self, run: str, artifact: str) -> Any:
        """What a run has made."""
        beside = self.folder / "workspace" / ".artifacts" / run / f"{artifact}.json"
        if beside.exists():
            return json.loads(beside.read_text(encoding="utf-8"))
        return json.loads(self.sop("show", run, artifact, "--json"))

    def asked(self, run: str) -> list[tuple[str, str]]:
        """All calls of a run: which one, and what it was sent."""
        self.sop("export", run, "--recording", f"{run}.jsonl", "--answered-by", "desk.py")
        calls = [json.loads(line) for line in (self.folder / f"{run}.jsonl").read_text(encoding="utf-8").splitlines()[1:]]
        return [(call["key"], "\n".join(str(one["content"]) for one in call["messages"])) for call in calls]

    def made(self, run: str, path: str) -> str:
        """The text of a file in a run's folder."""
        return (self.folder / "workspace" / run / path).read_text(encoding="utf-8")

    def files(self, run: str) -> dict[str, bytes]:
        """All files of a run's folder."""
        top = self.folder / "workspace" / run
        return {path.relative_to(top).as_posix(): path.read_bytes() for path in top.rglob("*")
                if path.is_file() and ".git" not in path.relative_to(top).parts[:1]}

    def holds(self, words: str) -> list[Path]:
        """Files of the whole workspace, journals too, in which these words stand."""
        return [path for path in (self.folder / "workspace").rglob("*") if path.is_file() and words.encode() in path.read_bytes()]
