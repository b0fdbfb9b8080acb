"""The runs whose pages are open: each with the page of its program, and what of it changed since somebody was told."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from pathlib import Path
from threading import Lock
from typing import Any

from metaflow_agents.cli.told import hide_secrets
from metaflow_agents.journal.places import journal_path, never_began
from metaflow_agents.journal.run_summary import RawJournal
from metaflow_agents.questions.answer_queue import AnswerQueue
from metaflow_agents.questions.inbox import Open
from metaflow_agents.questions.question import Question
from metaflow_agents.schema.program import Program
from metaflow_agents.views.ui.asked import question_json
from metaflow_agents.views.ui.graph_layout import graph_json
from metaflow_agents.views.ui.overview import Page
from metaflow_agents.web.following import JournalFold

_FRESH = 0.2                        # seconds in which what was read is new enough for everybody
_RUNS = 16                          # runs that are held at once, the last ones that were looked at


class WatchedRun(JournalFold):
    """One run. `where`: the option that names its workspace, for the commands that a page shows."""

    def __init__(self, path: Path, where: str = "") -> None:
        super().__init__(path)
        self._where = where

    def _begin(self) -> None:
        super()._begin()
        self.version = 0                                    # counts the changes
        self._last = 0, ""                                  # event and state that were told last
        self._steps: dict[str, dict[str, Any]] = {}
        self._asked: list[dict[str, Any]] = []
        self._marks: dict[str, tuple[int, int]] = {}        # step → version and event at which it changed last
        self._questions: dict[str, Question] = {}           # digest → question
        self._compiled = ""
        self._page: Page | None = None
        self._graph: dict[str, Any] | None = None

    def read(self, journal: RawJournal) -> None:
        """The events, and what of them stands elsewhere: the program, questions."""
        super().read(journal)
        compiled = self.progress.compiled
        if compiled and compiled != self._compiled:
            program = Program.model_validate_json(journal.blob(compiled))
            for one in program.all():
                hide_secrets(one.sop.secrets)
            self._compiled, self._page, self._graph = compiled, Page(program), None
        wanted = {asked.question for asked in self.progress.questions.values()}
        self._questions = {digest: self._questions.get(digest) or Question.model_validate_json(journal.blob(digest))
                           for digest in wanted}

    def told(self) -> None:
        """Marks what changed."""
        if self._page is None:
            raise never_began(self.path.stem)
        steps, asked = self._page.steps(self.progress, self.stands), self._open_questions()
        changed = [name for name, step in steps.items() if step != self._steps.get(name)]
        last = self.progress.seq, self.stands.state
        if changed or asked != self._asked or last != self._last:
            self.version += 1
        self._last = last
        self._marks |= dict.fromkeys(changed, (self.version, self.progress.seq))
        self._steps, self._asked = steps, asked

    def _open_questions(self) -> list[dict[str, Any]]:
        if not self.progress.questions:
            return []
        letters = {(letter.key, letter.question) for letter in AnswerQueue(self.path).letters()}
        return [question_json(Open(self.path.stem, asked.number, asked.at, self._questions[asked.question],
                                   (key, asked.question) in letters, asked.why), self._where)
                for key, asked in self.progress.questions.items()]

    @property
    def program(self) -> Program:
        """What it runs, as it went on last. Raises UsageError where it has not begun."""
        with self.lock:
            return self._there().program

    def questions(self) -> list[dict[str, Any]]:
        """Those that are open, in the order in which they were asked."""
        with self.lock:
            return self._asked

    def overview(self) -> dict[str, Any]:
        """Overview, with the drawing of the graph."""
        with self.lock:
            page = self._there()
            self._graph = self._graph or graph_json(page.program.sop, page.graph)
            return {**page.overview(self.progress, self.stands, self._asked), "graph": self._graph}

    def since(self, version: int, seq: int) -> dict[str, Any]:
        """What a page is told that was told everything up to a version and an event. Version 0: it comes, or comes again."""
        with self.lock:
            page = self._there()
            changed = {name: self._steps[name] for name, (when, event) in self._marks.items()
                       if name in self._steps and (when > version if version else event >= seq)}
            return {"version": self.version, "sessions": self.progress.sessions, **page.live(self.progress, self.stands),
                    "progress": page.done(self._steps), "steps": changed, "questions": self._asked}

    def stood(self, seq: int) -> dict[str, Any]:
        """How the run stood after an event: for the slider."""
        progress, stands = self.at(seq)
        with self.lock:
            page, last = self._there(), self.progress.seq
        steps = page.steps(progress, stands)
        return {"at": progress.clock.latest, "last": last, **page.live(progress, stands), "progress": page.done(steps),
                "steps": steps, "versions": progress.versions}

    def _there(self) -> Page:
        if self._page is None:
            raise never_began(self.path.stem)
        return self._page


class Watched:
    """The runs of a workspace that somebody looks at."""

    def __init__(self, workspace: Path, where: str) -> None:
        self._workspace, self._where = workspace, where
        self._runs: OrderedDict[str, WatchedRun] = OrderedDict()
        self._lock = Lock()
        self._changed = -math.inf

    def changed(self) -> None:
        """A run was changed by this process: what was read before is not new enough."""
        self._changed = time.monotonic()

    def run(self, name: str) -> WatchedRun:
        """A run, up to date. Raises UsageError, JournalError."""
        with self._lock:
            found = self._runs.get(name) or WatchedRun(journal_path(self._workspace, name), self._where)
        found.update(max(time.monotonic() - _FRESH, self._changed))
        with self._lock:
            found = self._runs.setdefault(name, found)
            self._runs.move_to_end(name)
            while len(self._runs) > _RUNS:
                self._runs.popitem(last=False)
        return found
