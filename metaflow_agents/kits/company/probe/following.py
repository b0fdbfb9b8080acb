"""The README followed, as somebody does who has just installed the product, and each command once more where it hurts."""

from __future__ import annotations

import ast
import os
import re
import shlex
import sys
import time
from functools import partial
from pathlib import Path

from metaflow_agents.kits.company.probe.desk import LARGEST, PATIENCE, ProbeDesk, ProbeRan, can_listen
from metaflow_agents.kits.company.probe.findings import Findings, crashed, end_of
from metaflow_agents.kits.company.probe.readme import Command, Readme, words
from metaflow_agents.kits.company.probe.serving import Service

_USAGE = re.compile(r"(?im)^usage: .*|unrecognized arguments|invalid choice|no such (command|option)|"
                    r"unknown (command|option|argument)")
_NO_PLACE = re.compile(r"(?i)_curses\.error|termios\.error|not a (tty|terminal)|inappropriate ioctl|needs? a (tty|terminal)|"
                       r"pygame\.error|TclError|open display|not (in )?an? .{0,20}(repository|project)")
_WAITS = re.compile(r"(?i)\bwatch|follow|ctrl-?\+?c|interactive|daemon|worker|until (you|it)")
_KEEPS = re.compile(r"\b(add|import|attach|new|save|insert|record|log|push|append|create|copy|backup|ingest|load|put)\b")
_WRITES = re.compile(r">|\s-o\b|--out|\|")
_PYTHON_FAILS = re.compile(r"(ImportError|ModuleNotFoundError|AttributeError|TypeError)\b.*")


class Following:
    """Follows one README at a desk."""

    def __init__(self, readme: Readme, desk: ProbeDesk, findings: Findings, kind: str, browse: Path | None = None) -> None:
        self._readme, self._desk, self._findings, self._kind = readme, desk, findings, kind
        self._service = Service(readme, desk, findings, kind, browse)
        self._excused = False

    def commands(self) -> None:
        """The commands in their order; each block begins where one is who has just installed it."""
        serves = self._kind in ("web", "service")
        if serves and not can_listen():
            self._findings.left_out.append("a server: nothing may listen in this sandbox")
            return
        for block in self._readme.commands():
            where, said = self._desk.folder, ""
            for command in block:
                if self._readme.is_left_out(command, where):
                    self._excused = self._excused or self._readme.is_ours(command.text)
                    continue
                if re.match(r"(export )?\w+=\S*$", command.text):
                    said += command.text + "\n"                 # what a shell keeps from one line to the next
                    continue
                full = command._replace(text=said + command.text)
                ran = self._desk.run(full.text, where)
                if self._readme.is_ours(command.text):
                    self._findings.tried.append(command.text)
                    self._findings.trying(f"`{command.text}`", partial(self._one, full, ran, where))
                where = ran.where
        for command in self._readme.spans() if serves and not self._service.seen else ():
            where = self._desk.folder
            if not self._service.seen and not self._readme.is_left_out(command, where) and (
                    ran := self._desk.run(command.text, where)).ports:
                self._service.started(command, ran, where)
        if serves and not self._service.seen and not self._excused:
            self._findings.fault("starts", "README.md", "no command of the README starts a server that listens on the loopback")

    def _one(self, command: Command, ran: ProbeRan, where: Path) -> None:
        if ran.ports:
            self._service.started(command, ran, where)
        elif self._ended_well(command, ran, where):
            self._again(command, ran, where)

    def python(self, roots: set[str]) -> None:
        """The Python that it shows, in one session; what it leaves out (a name, a file, another package) is nobody's fault."""
        before, script = "", self._desk.place / "shown.py"
        for line, text in self._readme.python():
            if not _is_python(text) or not any(one in before + text for one in roots) or self._findings.time_is_up:
                continue
            script.write_text(before + text, "utf-8")
            begun = time.monotonic()
            with self._desk.copied() as desk:
                ran = desk.run(shlex.join([sys.executable, str(script)]), desk.folder)
            last = ran.err.strip().rpartition("\n")[2]
            if ran.code is None and not ran.ports and not ran.waited:
                self._findings.fault("hangs", f"README.md:{line}", f"its Python does not end within {PATIENCE:.0f} s")
            elif ran.code and _PYTHON_FAILS.fullmatch(last) and (
                    not re.match("ImportError|ModuleNotFoundError", last) or any(one in last for one in roots)):
                self._findings.fault("readme", f"README.md:{line}", f"its Python fails: {last}")
            elif ran.code == 0 and time.monotonic() - begun < 3:
                before += text

    def _ended_well(self, command: Command, ran: ProbeRan, where: Path) -> bool:
        """Tells what is wrong with what came of a command; True where its status is 0."""
        place, said = f"README.md:{command.line}", f"`{command.text}`"
        if any(size >= LARGEST for size in self._desk.sizes().values()):
            self._findings.fault("grows", place, f"{said} writes a file of {LARGEST >> 20} MiB and more")
        elif ran.code is None:
            if not (ran.waited and (self._kind == "game" or _WAITS.search(f"{command.text}\n{self._readme.text}"))):
                self._findings.fault("hangs", place, f"{said} does not end within {PATIENCE:.0f} s, with nothing typed in")
            self._excused = self._excused or ran.waited
        elif ran.code == 0 and not crashed(ran.err):
            return True
        elif _NO_PLACE.search(ran.err + ran.out):
            self._findings.left_out.append(f"{said}: {end_of(ran.err or ran.out)}")
        elif crashed(ran.err) and (absent := self._absent(command, where)) and not any(
                path.name in line for path in absent for line in command.shown):
            self._excused = True                                # a file of the reader's, and nobody says what comes of its lack
        elif crashed(ran.err):
            self._findings.fault("waits" if "EOFError" in ran.err else "traceback", place,
                                 f"{said} shows a traceback: {end_of(ran.err)}")
        elif self._may_fail(command, ran, where) or self._goes_at_first(command):
            self._excused = True
        else:
            self._findings.fault("readme", place, f"{said} fails with {ran.code}: {end_of(ran.err or ran.out)}")
        return False

    def _may_fail(self, command: Command, ran: ProbeRan, where: Path) -> bool:
        """Whether a command may end so: the README shows what it prints, names its status, or it needs a file of the reader's,
        or a folder of theirs where it found an empty one.
        """
        said = f"{ran.out}\n{ran.err}"
        if any(len(line) > 3 and (line in said or said.strip().startswith(line)) for line in command.shown):
            return True
        absent = self._absent(command, where)
        samples = self._desk.folder / "examples"
        if ran.code in (126, 127) or _USAGE.search(said) or any(path.is_relative_to(samples) for path in absent):
            return False
        if re.search(rf"{re.escape(str(where))}(?![\w/])", said):
            return True
        return bool(absent) or ran.code in self._readme.statuses

    @staticmethod
    def _absent(command: Command, where: Path) -> list[Path]:
        """The files that a command names and that are not there."""
        named = [where / one for one in words(command.text)[1:] if re.search(r"\w\.\w{1,5}$|/", one)]
        return [path for path in named if not os.path.exists(path)]

    def _goes_at_first(self, command: Command) -> bool:
        """Whether a command ends well where none came before it: those before may have used up what it needs."""
        fresh = ProbeDesk(self._desk.place.parent / f"fresh-{len(self._findings.tried)}", *self._desk.tools)
        samples = self._desk.place / "samples"
        if samples.is_dir():
            fresh.take(samples)
        ran = fresh.run(command.text, fresh.folder)
        fresh.kill()
        return ran.code == 0

    def _again(self, command: Command, ran: ProbeRan, where: Path) -> None:
        """A command that ended well: on another terminal, on a damaged file, and several times."""
        with self._desk.copied() as desk:
            there = desk.run(command.text, desk.there(where), PYTHONIOENCODING="cp1252", PYTHONUTF8="0")
        if "UnicodeEncodeError" in there.err:
            self._findings.fault("encoding", f"README.md:{command.line}",
                                 f"`{command.text}` fails on a terminal without UTF-8: {end_of(there.err)}")
        samples = [one for one in words(command.text)[1:] if os.path.isfile(where / one)]
        if not samples or _WRITES.search(command.text):
            return
        for sample in samples:
            if not self._findings.time_is_up and (where / sample).resolve().is_relative_to(self._desk.folder):
                self._damaged(command, where, sample)
        if not _KEEPS.search(command.text):
            self._repeated(command, ran, where)

    def _repeated(self, command: Command, ran: ProbeRan, where: Path) -> None:
        """A command that reads a file, prints the same each time, and leaves more each time."""
        with self._desk.copied() as desk:
            grown = []
            for _ in range(3):
                before = desk.sizes()
                if desk.run(command.text, desk.there(where)).out != ran.out:
                    return
                after = desk.sizes()
                grown.append({path for path, size in before.items() if after.get(path, 0) > size})
        for path in set.intersection(*grown):
            self._findings.fault("grows", f"README.md:{command.line}",
                                 f"`{command.text}` prints the same each time, and `{path.name}` grows each time")

    def _damaged(self, command: Command, where: Path, sample: str) -> None:
        """A damaged record, as the last one of a file of records: it is used or told, and never dropped without a word.

        Told only where one more record that is sound changes something: else the command does not look at the end of the file.
        """
        cut = Path(sample).suffix.lower() in (".jsonl", ".ndjson")
        if not cut and Path(sample).suffix.lower() not in (".csv", ".tsv"):
            return
        data = (where / sample).read_bytes().rstrip(b"\r\n")
        last = data.rpartition(b"\n")[2].rstrip(b"\r")
        broken = last[:len(last) // 2] if cut else re.sub(rb"\d", b"x", last)
        if broken == last:
            return
        without, sound, there = (self._with_last(command, where, sample, data + one + b"\n")
                                 for one in (b"", b"\n" + last, b"\n" + broken))
        said = f"`{command.text}`, with the line `{broken.decode('utf-8', 'replace')[:120]}` at the end of `{sample}`,"
        if crashed(there[0].err):
            self._findings.fault("traceback", f"README.md:{command.line}", f"{said} shows a traceback: {end_of(there[0].err)}")
        elif _same(there, without) and not _same(sound, without):
            self._findings.fault("dropped", f"README.md:{command.line}",
                                 f"{said} prints what it prints without: the line is dropped without a word")

    def _with_last(self, command: Command, where: Path, sample: str, data: bytes) -> tuple[ProbeRan, dict[str, bytes]]:
        """What a command does where a sample holds these bytes, and the files that it leaves, but for the sample."""
        with self._desk.copied() as desk:
            path = desk.there(where) / sample
            path.write_bytes(data)
            ran = desk.run(command.text, desk.there(where))
            left = desk.contents()
            left.pop(str(path.resolve().relative_to(desk.place)), None)
            return ran, left


def _same(one: tuple[ProbeRan, dict[str, bytes]], other: tuple[ProbeRan, dict[str, bytes]]) -> bool:
    return (one[0].code, one[0].out, one[0].err, one[1]) == (other[0].code, other[0].out, other[0].err, other[1])


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True
