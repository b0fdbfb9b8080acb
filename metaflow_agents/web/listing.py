"""The runs of a workspace as rows, each made anew only when its journal has changed."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from metaflow_agents.cli.told import hide_secrets
from metaflow_agents.errors import JournalError, UsageError
from metaflow_agents.journal.places import JOURNALS
from metaflow_agents.journal.run_summary import RawJournal
from metaflow_agents.texts.strict_json import read
from metaflow_agents.views.ui.overview import seconds_of, spent_json
from metaflow_agents.web.following import JournalFold, Signature, settled, signature

_FRESH = 0.4                        # seconds in which what was read is new enough for everybody
_PROGRAMS = 256                     # programs whose names are kept


@dataclass(slots=True)
class _Listed:
    mark: Signature
    row: dict[str, Any]
    version: int
    settled: bool


class Listing:
    """`update` looks at all journals; `rows` and `since` tell of them. Any thread may call them."""

    def __init__(self, workspace: Path) -> None:
        self._journals = workspace / JOURNALS
        self._lock = Lock()
        self._looked = self._changed = -math.inf
        self.version = 0
        self._listed: dict[str, _Listed] = {}
        self._gone: OrderedDict[str, int] = OrderedDict()
        self._folds: dict[str, JournalFold] = {}                # of runs that are under way
        self._names: OrderedDict[str, str] = OrderedDict()      # digest of a program → the SOP's name

    def changed(self) -> None:
        """A run was changed by this process: what was read before is not new enough."""
        self._changed = time.monotonic()

    def update(self) -> None:
        """Looks at what changed, unless that was done a moment ago."""
        with self._lock:
            now = time.monotonic()
            if self._looked > max(now - _FRESH, self._changed):
                return
            there = {path.stem: path for path in self._journals.glob("*.db")}
            for name in [name for name in self._listed if name not in there]:
                self.version += 1
                del self._listed[name]
                self._gone[name] = self.version
                self._folds.pop(name, None)
            newest = sorted(there, key=lambda name: -self._listed[name].row["began"] if name in self._listed else 0.0)
            for name in newest:
                self._look(name, there[name])
            self._looked = now

    def _look(self, name: str, path: Path) -> None:
        mark, before = signature(path), self._listed.get(name)
        if before is not None and before.mark == mark and before.settled and before.row["state"] != "running":
            return
        row = self._row(name, path)
        if row is None:                                         # laid down a moment ago, and nothing is written yet
            return
        changed = before is None or {**before.row, "seconds": 0} != {**row, "seconds": 0}
        self.version += changed
        version = self.version if changed or before is None else before.version
        self._listed[name] = _Listed(mark, row, version, settled(mark))
        self._gone.pop(name, None)

    def _row(self, name: str, path: Path) -> dict[str, Any] | None:
        fold = self._folds.pop(name, None) or JournalFold(path, keeps=False)
        try:
            fold.update()
            progress, stands = fold.progress, fold.stands
            if not progress.seq:
                return None
            sop = self._sop(path, progress.compiled)
        except JournalError as error:
            return _row(name, state="damaged", reason=str(error))
        except UsageError:                                      # gone since
            return None
        except Exception as error:                              # a journal that no run wrote hides none of the others
            return _row(name, state="damaged", reason=f"{path} holds what no run writes ({type(error).__name__})")
        if stands.alive:
            self._folds[name] = fold
        return _row(name, sop=sop, file=progress.opened.get("location", ""), state=stands.state, reason=stands.reason,
                    began=progress.clock.began, seconds=round(seconds_of(progress, stands), 3),
                    activations=progress.activations, **spent_json(progress.total), questions=len(progress.questions),
                    forked_from=progress.forked_from(name))

    def _sop(self, path: Path, compiled: str) -> str:
        """The name of the SOP; its secrets are masked from now on."""
        if compiled not in self._names:
            with RawJournal(path) as journal:
                program = read(journal.blob(compiled))
            _hide(program)
            self._names[compiled] = program["sop"]["sop"]
            if len(self._names) > _PROGRAMS:
                self._names.popitem(last=False)
        return self._names[compiled]

    def rows(self) -> list[dict[str, Any]]:
        """All of them, the newest first."""
        self.update()
        with self._lock:
            return sorted((one.row for one in self._listed.values()), key=lambda row: -row["began"])

    def since(self, version: int) -> dict[str, Any]:
        """Rows that changed since a version, and runs that are gone since."""
        self.update()
        with self._lock:
            return {"version": self.version, "rows": [one.row for one in self._listed.values() if one.version > version],
                    "gone": [name for name, when in self._gone.items() if when > version]}


def _row(name: str, **told: Any) -> dict[str, Any]:
    """RunRow, with what is not known of a run at its default."""
    return {"run": name, "sop": "", "file": "", "state": "", "reason": "", "began": 0.0, "seconds": 0.0, "activations": 0,
            "calls": 0, "tokens": 0, "usd": 0.0, "estimated": False, "questions": 0, "forked_from": None, **told}


def _hide(program: Any) -> None:
    hide_secrets(program["sop"].get("secrets", ()))
    for inner in program.get("sops", {}).values():
        _hide(inner)
