"""Takes the pictures of the documents: the live view, the end of a run, the report as a page.

    python -m pip install pyte
    python docs/pictures/take.py            # some two minutes; wants chromium

The runs are the recorded ones that ship. So that there is something to see, their answers come from a small endpoint on
loopback at the pace of a language model, and the terminal is a real one, read by a terminal emulator.
"""

from __future__ import annotations

import asyncio
import html
import json
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from fcntl import ioctl
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
sys.path.insert(0, str(TOP / "tests"))

import pyte  # noqa: E402
from openai_faults import FAULTS, Fault  # noqa: E402
from openai_server import OpenAIServer  # noqa: E402

COLUMNS, ROWS = 118, 33
SOP = [sys.executable, "-c", "from metaflow_agents.cli import main; main()"]
COLOURS = {"default": "#d8dee9", "red": "#ff7b72", "green": "#7ee787", "brown": "#e3b341", "yellow": "#e3b341", "blue": "#79c0ff",
           "cyan": "#76e3ea", "magenta": "#d2a8ff", "white": "#d8dee9", "black": "#8b949e", "brightblack": "#8b949e"}


async def paced(server: Any, asked: Any, bill: Any, out: Any, text: str) -> None:
    """A stream at the pace of a fast model."""
    bill.tokens_out, bill.told = len(text.encode()) // 4, True
    bill.tokens_in //= 4
    out.start_stream()
    for event in server.events(asked, text, "stop", bill):
        out.event(event)
        await asyncio.sleep(0.025)
    out.done()


def recorded(name: str) -> tuple[dict[str, Any], Callable[[dict[str, Any]], str]]:
    """The header of a recording, and what answers its prompts."""
    header, *calls = [json.loads(line) for line in (TOP / "sops" / "recordings" / f"{name}.jsonl").read_text().splitlines()]
    replies = {json.dumps(call["messages"], sort_keys=True): call["reply"]["text"] for call in calls}
    return header, lambda asked: replies[json.dumps(asked["messages"], sort_keys=True)]


class Screen:
    """A command at a terminal, and what stands on it."""

    def __init__(self, folder: Path, words: list[str], environment: dict[str, str]) -> None:
        self.screen, self.height = pyte.Screen(COLUMNS, ROWS), 0        # the height of the last page, in points
        self._stream = pyte.ByteStream(self.screen)
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
            kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "SOP_MODEL")}
            os.execve(words[0], words, {**kept, "TERM": "xterm-256color", "PYTHONPATH": str(TOP), **environment})

    def until(self, seen: Callable[[str], bool], seconds: float = 300) -> bool:
        """Reads until the text on the screen is so; False where the command ended before."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if select.select([self._fd], [], [], 0.05)[0]:
                try:
                    self._stream.feed(os.read(self._fd, 65536).replace(b"\x1b[2m", b"\x1b[90m"))     # it knows no dim
                except OSError:
                    return False
            elif seen("\n".join(self.screen.display)):
                return True
        raise SystemExit("it never came to that:\n" + "\n".join(self.screen.display))

    def page(self, title: str) -> str:
        """The screen as a web page."""
        lines = []
        for row in range(ROWS):
            cells = self.screen.buffer[row]
            lines.append("".join(self._cell(cells[column]) for column in range(COLUMNS)).rstrip())
        while lines and not lines[-1]:
            lines.pop()
        self.height = 20 * len(lines) + 90
        return (f"<meta charset=utf-8><style>body{{margin:0;background:#0d1117}}"
                f"div{{font:13px 'DejaVu Sans Mono',monospace;color:#8b949e;padding:10px 18px;background:#161b22}}"
                f"pre{{font:15px/1.35 'DejaVu Sans Mono',monospace;color:{COLOURS['default']};margin:0;padding:14px 18px 18px}}"
                f"</style><div>{html.escape(title)}</div><pre>" + "\n".join(lines) + "</pre>")

    def _cell(self, cell: Any) -> str:
        text = html.escape(cell.data)
        style = "" if cell.fg == "default" else f"color:{COLOURS.get(cell.fg, '#' + cell.fg)};"
        style += "font-weight:bold;" if cell.bold else ""
        return f'<span style="{style}">{text}</span>' if style and cell.data != " " else text


def photograph(page: Path, to: Path, width: int, height: int) -> None:
    """A web page as a picture."""
    program = next(found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name)))
    subprocess.run([program, "--headless", "--no-sandbox", "--hide-scrollbars", f"--screenshot={to}",
                    f"--window-size={width},{height}", page.as_uri()], check=True, capture_output=True)


def main() -> None:
    """All pictures, into this folder."""
    FAULTS["paced"] = Fault(paced, early=False)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        header, answer = recorded("design_first")
        idea = header["inputs"]["idea"]
        typed = f'$ sop run design_first.yaml --idea "{idea}" --model openai:…'
        with OpenAIServer(answer, plan=lambda _: "paced", chunk=90).in_thread() as server:
            words = ["run", "design_first.yaml", "--idea", idea, "--model", "openai:demo", "--name", "demo"]
            seen = Screen(folder, [*SOP, *words], {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none"})
            if not seen.until(lambda text: text.count("k characters ") > 2):
                raise SystemExit("\n".join(seen.screen.display))
            for name in ("live", "end"):
                (folder / f"{name}.html").write_text(seen.page(typed))
                photograph(folder / f"{name}.html", HERE / f"{name}.png", 1120, seen.height)
                seen.until(lambda _: False)
            os.waitpid(seen.pid, 0)
        subprocess.run([*SOP, "run", "research_report.yaml", "--demo", "--name", "report"], cwd=folder, check=True,
                       env={**os.environ, "PYTHONPATH": str(TOP)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        photograph(folder / "workspace" / "report" / "report.html", HERE / "report.png", 1100, 1500)


if __name__ == "__main__":
    main()
