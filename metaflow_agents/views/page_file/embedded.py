"""What a file of one run holds in place of a server: the answers of its pages, chosen within a bound on their size.

What is looked at first comes first: the overview, the time line, what was made last. What there is no room for is left out, and
the page says so where it is asked for; a text that is cut says that it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any

from metaflow_agents.journal.run_summary import RawJournal
from metaflow_agents.output.history.standing import commit_ids
from metaflow_agents.questions.inbox import Open
from metaflow_agents.questions.question import Question
from metaflow_agents.schema.program import Program
from metaflow_agents.views.ui.asked import question_json
from metaflow_agents.views.ui.audits import audit_page
from metaflow_agents.views.ui.changes import changes_told
from metaflow_agents.views.ui.conversation import Conversations
from metaflow_agents.views.ui.costs import costs_told
from metaflow_agents.views.ui.diffs import difference
from metaflow_agents.views.ui.files import FileHistory
from metaflow_agents.views.ui.graph_layout import graph_json
from metaflow_agents.views.ui.index import RunIndex
from metaflow_agents.views.ui.log import Section, log_page
from metaflow_agents.views.ui.overview import Page, Stands
from metaflow_agents.views.ui.progress import Progress
from metaflow_agents.views.ui.shown import Showing
from metaflow_agents.views.ui.timeline_page import MOST, Wanted
from metaflow_agents.views.ui.versions import artifacts_told
from metaflow_agents.views.wording import amount

ROOM = 1_500_000
"""Characters of JSON in all."""
_SHARES = {"activations": 0.25, "artifacts": 0.1, "files": 0.1, "changes": 0.05, "log": 0.12, "audit": 0.08, "at": 0.12,
           "conversations": 0.5, "shown": 0.6, "diffs": 0.4}         # of what is left when their turn comes
_STATES = 60                        # points in time of which is told how the run stood
_ENTRIES = 40                       # files or items of one version
_REFUSED, _LEAST = 20, 1_000
_TEXTS = 120_000                    # characters of one conversation


@dataclass
class _Room:
    """How many characters are left."""

    left: int = ROOM

    def share(self, name: str) -> _Room:
        """A part of it for one kind of things."""
        return _Room(int(self.left * _SHARES[name]))

    def take(self, value: Any) -> bool:
        """Whether a value has room; then it is taken."""
        size = len(json.dumps(value, ensure_ascii=False)) + 2
        if size > self.left:
            return False
        self.left -= size
        return True

    def fill(self, values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        """As many of the values, by name, as have room, in their order; where many in a row have none, the rest is not made."""
        found: dict[str, Any] = {}
        refused = 0
        for name, value in values:
            if self.take((name, value)):
                found[name], refused = value, 0
            else:
                refused += 1
            if refused > _REFUSED or self.left < _LEAST:
                break
        return found


@dataclass
class RunFile:
    """One run, its journal open. `heads`: see `audit_page`; `workspace`: where its files lie."""

    journal: RawJournal
    program: Program
    workspace: Path
    heads: Path | None
    index: RunIndex = field(init=False)
    progress: Progress = field(init=False)
    states: list[dict[str, Any]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.index, self.progress = RunIndex(self.program), Progress()
        self._page, last = Page(self.program), self.journal.last()
        every = max(last // _STATES, 1)
        for seq, event in self.journal.events():
            self.index.take(seq, event)
            self.progress.take(seq, event)
            if seq % every == 0 or seq == last:
                self.states.append(self._stood(last))
        self._conversations = Conversations(self.index, self.journal)
        self._showing = Showing(self.index.versions, self.program, self.journal.blob, self.name)

    def _stood(self, last: int) -> dict[str, Any]:
        """How the run stands after the events so far."""
        progress = self.progress
        stands = Stands(progress.outcome or "running", progress.reason, progress.clock.latest, run=self.name)
        steps = self._page.steps(progress, stands)
        return {"at": progress.clock.latest, "last": last, **self._page.live(progress, stands), "steps": steps, "questions": [],
                "progress": self._page.done(steps), "versions": dict(progress.versions)}

    @property
    def name(self) -> str:
        """The run's."""
        return self.journal.path.stem

    def nowhere(self, text: str) -> str:
        """A text without where on this machine the SOP and the person's files lie: the file is for somebody else."""
        folder, home = str(Path(self.progress.opened.get("location", "")).parent), str(Path.home())
        if len(folder) > 1:
            text = text.replace(f"{folder}/", "")
        return text.replace(home, "~") if len(home) > 1 else text

    def data(self, command: str) -> dict[str, Any]:
        """All of it, as `file_api.js` answers from it. `command`: what shows the run whole."""
        room = _Room()
        found: dict[str, Any] = {"run": self.name, "command": command, "overview": self._overview(), "costs": self._costs()}
        room.left -= len(json.dumps(found, ensure_ascii=False))
        files, changes = self._files()
        for name, value in (("activations", self._activations(room.share("activations"))),
                            ("artifacts", self._artifacts(room.share("artifacts"))),
                            ("files", _fitting(files, "tree", room.share("files"))),
                            ("changes", _fitting(changes, "changes", room.share("changes"))),
                            ("log", _fitting(self._log(), "rows", room.share("log"), from_end=True)),
                            ("audit", _fitting(audit_page(self.journal.path, self.heads), "records", room.share("audit"))),
                            ("at", self._at(room.share("at")))):
            found[name] = value
            room.take(value)
        for name, values in (("conversations", self._said()), ("shown", self._shown(found["artifacts"], files)),
                             ("diffs", self._diffs(found["artifacts"], files))):
            found[name] = room.share(name).fill(values)
            room.take(found[name])
        found["left_out"] = list(self._left_out(found))
        told: dict[str, Any] = _without_ways(found)
        return told

    def _left_out(self, found: Mapping[str, Any]) -> Iterator[str]:
        """What there was no room for, in words."""
        rows = [row for row in self.index.timeline.rows.values() if row.state != "reused"]
        for here, of, what in ((len(found["activations"]["rows"]), len(self.index.timeline.rows), "activation"),
                               (len(found["conversations"]), len(rows), "conversation"),
                               (len(found["artifacts"]["artifacts"]), found["artifacts"]["total"], "artifact"),
                               (len(found["log"]["rows"]), self.index.seq, "line of the log")):
            if here < of:
                yield f"{amount(here, what, what.replace('line', 'lines') if ' ' in what else None)} of {of:,} are in it"

    def _overview(self) -> dict[str, Any]:
        state, reason = self.journal.standing()
        stands = Stands(state, reason, self.progress.clock.latest, run=self.name)
        asked = [question_json(Open(self.name, one.number, one.at, Question.model_validate_json(self.journal.blob(one.question)),
                                    False, one.why)) for one in self.progress.questions.values()]
        told = self._page.overview(self.progress, stands, asked)
        return {**told, "graph": graph_json(self.program.sop, self._page.graph), "file": Path(told["file"]).name, "folder": "",
                "can": {"stop": False, "resume": False, "fork": False, "answer": False}}

    def _costs(self) -> dict[str, Any]:
        return {**costs_told(self.index.costs(self.journal)), "repeated": None}

    def _activations(self, room: _Room) -> dict[str, Any]:
        page = self.index.lines.page(Wanted(), alive=False)
        room.take({**page, "rows": []})
        rows: list[dict[str, Any]] = []
        while len(rows) < page["total"]:
            more = self.index.lines.page(Wanted(offset=len(rows), limit=MOST), alive=False)["rows"]
            fitting = [row for row in more if room.take(row)]
            rows += fitting
            if len(fitting) < len(more):
                break
        return {**page, "rows": rows}

    def _artifacts(self, room: _Room) -> dict[str, Any]:
        return _fitting(artifacts_told(self.index.versions, self.program, self.index.who), "artifacts", room)

    def _files(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The tree of files, and what changed."""
        history = FileHistory()
        history.update(self.journal, self.index.seq)
        ids = commit_ids(self.workspace / self.name, 100)
        return (history.tree(self.journal, self.index.version_by),
                changes_told(self.index, history, ids, self.journal.blob))

    def _log(self) -> dict[str, Any]:
        rows: list[dict[str, Any]] = []
        before, page = 0, dict[str, Any]()
        while len(rows) < 2_000:
            page = log_page(self.journal, self.program, Section(before=before))
            rows = page["rows"] + rows
            before = page["from"]
            if before <= 1:
                break
        return {**page, "rows": rows}

    def _at(self, room: _Room) -> list[dict[str, Any]]:
        size = len(json.dumps(self.states, ensure_ascii=False))
        every = -(-size // max(room.left, 1))
        return self.states[::-1][::every][::-1]

    def _said(self) -> Iterator[tuple[str, Any]]:
        """The conversations, those that failed first; of what was taken over there is nothing to tell."""
        rows = [row for row in self.index.timeline.ordered() if row.state != "reused"]
        for row in sorted(rows, key=lambda row: (row.state != "failed", not row.calls)):
            found = self._conversations.of(row.key)
            size = len(json.dumps(found["turns"], ensure_ascii=False))
            while found["more"] is not None and size < _TEXTS:
                more = self._conversations.of(row.key, found["more"])
                found |= {"turns": found["turns"] + more["turns"], "more": more["more"]}
                size += len(json.dumps(more["turns"], ensure_ascii=False))
            if found["more"] is not None:
                found |= {"more": None, "acts": [*found["acts"], _left_out(found)]}
            yield row.key, found

    def _shown(self, artifacts: Mapping[str, Any], files: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """The latest versions, those in files first, then earlier ones. What is the same as something before says so."""
        known: dict[bytes, str] = {}
        for name, number, path in dict.fromkeys(self._wanted(artifacts, files)):
            value = _as_source(self._showing.of(name, number, path))
            key = f"{name}@{number}/{path}" if path else f"{name}@{number}"
            content = {word: one for word, one in value.items() if word not in ("name", "number", "path")}
            mark = blake2b(json.dumps(content).encode(), digest_size=16).digest()
            yield key, value if mark not in known else {"as": known[mark]}
            known.setdefault(mark, key)

    def _wanted(self, artifacts: Mapping[str, Any], files: Mapping[str, Any]) -> Iterator[tuple[str, int, str]]:
        listed = sorted(artifacts["artifacts"], key=lambda one: (one["input"], bool(one["inside"])))
        outputs = set(self.program.sop.outputs or ())
        latest = sorted(listed, key=lambda one: one["name"] not in outputs)
        for one in latest:
            yield one["name"], one["versions_total"], ""
        for file in files["tree"]:
            yield file["artifact"], file["number"], file["part"] or ""
        for one in latest:
            for path in self._parts(one["name"], one["versions_total"]):
                yield one["name"], one["versions_total"], path
        for one in latest:
            for version in one["versions"][1:]:
                yield one["name"], version["number"], ""

    def _parts(self, name: str, number: int) -> list[str]:
        entries = self._showing.of(name, number).get("entries", [])
        return [entry.get("path") or entry.get("key") for entry in entries[:_ENTRIES]]

    def _diffs(self, artifacts: Mapping[str, Any], files: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Each version beside the one before it, the latest first; of files in the tree the last change."""
        for one in artifacts["artifacts"]:
            numbers = [version["number"] for version in one["versions"]]
            pairs = [(a, b) for b, a in pairwise(numbers)] + ([(1, numbers[0])] if len(numbers) > 2 else [])
            for a, b in dict.fromkeys(pairs):
                yield f"{one['name']}@{a}..{b}", self._difference(one["name"], a, b, "")
        for file in files["tree"]:
            name, path = file["artifact"], file["part"]
            numbers = [version["number"] for version in file["versions"] if version["artifact"] == name]
            if path and len(numbers) > 1:
                yield f"{name}@{numbers[1]}..{numbers[0]}/{path}", self._difference(name, numbers[1], numbers[0], path)

    def _difference(self, name: str, a: int, b: int, path: str) -> dict[str, Any]:
        return {"name": name, "a": a, "b": b, **difference(self._showing.payload(name, a), self._showing.payload(name, b), path)}


def _fitting(value: dict[str, Any], name: str, room: _Room, *, from_end: bool = False) -> dict[str, Any]:
    """It with as many of its list `name` as have room."""
    listed = value[name][::-1] if from_end else value[name]
    found = [one for one in listed if room.take(one)]
    return {**value, name: found[::-1] if from_end else found}


def _left_out(told: Mapping[str, Any]) -> dict[str, Any]:
    turns = told["turns"]
    words = f"The first {len(turns)} of {told['total']} turns: the others are not in this file"
    return {"kind": "note", "key": told["key"], "seq": turns[-1]["seq"] + 1, "seconds": 0, "told": words, "text": {"text": ""}}


def _as_source(shown: dict[str, Any]) -> dict[str, Any]:
    """A page is shown as its source: this file's policy lets no frame in. Data is there once, as lines."""
    if "lines" in shown:
        shown = {name: one for name, one in shown.items() if name not in ("data", "data_cut")}
    if shown["kind"] != "html":
        return shown
    return {**shown, "kind": "code", "told": "A page, as its source: this file shows no page inside of it"}


def _without_ways(value: Any) -> Any:
    """The texts that are cut, without where the whole of them is: a file can't ask for it."""
    if isinstance(value, dict):
        kept = value.items() if "cut" not in value else [(name, one) for name, one in value.items() if name != "digest"]
        return {name: _without_ways(one) for name, one in kept}
    return [_without_ways(one) for one in value] if isinstance(value, list) else value
