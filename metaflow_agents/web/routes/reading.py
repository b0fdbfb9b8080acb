"""What a run made, said and cost: read-only views, and what roles remember."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from metaflow_agents.errors import UsageError, did_you_mean
from metaflow_agents.output.history.standing import commit_ids
from metaflow_agents.settings import Settings
from metaflow_agents.views.ui.audits import audit_page
from metaflow_agents.views.ui.changes import changes_told
from metaflow_agents.views.ui.compare import compared
from metaflow_agents.views.ui.costs import costs_told
from metaflow_agents.views.ui.diffs import difference
from metaflow_agents.views.ui.log import MOST as LOG_LINES
from metaflow_agents.views.ui.log import Section, log_page
from metaflow_agents.views.ui.shown import shown_file
from metaflow_agents.views.ui.texts import line
from metaflow_agents.views.ui.timeline_page import MOST, STATES, Wanted
from metaflow_agents.views.ui.versions import artifacts_told
from metaflow_agents.views.ui.wholes import whole_text
from metaflow_agents.web.asked import Asked, get
from metaflow_agents.web.indexed import ReadRun

_REPEATED = 2_000                   # calls of a run whose prompts are compared with each other


@contextmanager
def _read(asked: Asked) -> Iterator[ReadRun]:
    with asked.run() as run, asked.site.indexes.of(run) as found:
        yield found


def activations(asked: Asked) -> dict[str, Any]:
    """A page of the time line."""
    state = asked.text("state", "")
    if state and state not in STATES:
        raise UsageError(f"`state` is `{line(state)}`: {did_you_mean(state, STATES)}")
    wanted = Wanted(asked.number("offset", 0), asked.number("limit", MOST), asked.text("step", ""), state, asked.text("q", ""))
    with _read(asked) as run:
        return run.index.lines.page(wanted, alive=run.alive)


def conversation(asked: Asked) -> dict[str, Any]:
    """What an activation was shown and said."""
    key = asked.text("key")
    with _read(asked) as run:
        rows = run.index.timeline.rows
        if key not in rows:
            raise UsageError(f"the run has no activation `{line(key)}`: {did_you_mean(line(key), list(rows)[:500])}")
        return run.conversations.of(key, asked.number("offset", 0), alive=run.alive)


def text(asked: Asked) -> dict[str, Any]:
    """The whole of a text that was cut."""
    with asked.run() as run:
        return whole_text(run.journal.blob, asked.text("digest"), asked.text("path", ""))


def image(asked: Asked) -> dict[str, Any]:
    """A picture of a prompt, by its digest; anything else is told in words."""
    digest = asked.text("digest")
    with asked.run() as run:
        return shown_file("", run.journal.blob(digest), digest)


def artifacts(asked: Asked) -> dict[str, Any]:
    """The artifacts, each with its latest versions; of the one that is named, versions from an offset on."""
    with _read(asked) as run:
        return artifacts_told(run.index.versions, run.index.program, run.index.who, name=asked.text("name", ""),
                              text=asked.text("q", ""), offset=asked.number("offset", 0))


def artifact(asked: Asked) -> dict[str, Any]:
    """Shown."""
    with _read(asked) as run:
        name = asked.text("name")
        number = asked.number("version", run.index.versions.version(name))
        return run.showing.of(name, number, asked.text("path", ""))


def diff(asked: Asked) -> dict[str, Any]:
    """How two versions of an artifact differ."""
    name, a, b = asked.text("name"), asked.number("a"), asked.number("b")
    with _read(asked) as run:
        before: tuple[Any, str | None] = run.showing.payload(name, a) if a else (run.showing.payload(name, b)[0], None)
        return {"name": name, "a": a, "b": b, **difference(before, run.showing.payload(name, b), asked.text("path", ""))}


def files(asked: Asked) -> dict[str, Any]:
    """The run's files, each with its versions."""
    with _read(asked) as run:
        return run.files().tree(run.journal, run.index.version_by)


def changes(asked: Asked) -> dict[str, Any]:
    """What changed, the latest first, from an offset on."""
    with _read(asked) as run:
        ids = commit_ids(asked.site.workspace / run.run.name, 300)
        return changes_told(run.index, run.files(), ids, run.journal.blob, asked.number("offset", 0))


def log(asked: Asked) -> dict[str, Any]:
    """Events in words: behind `after`, before `before`, or the last ones."""
    after = asked.number("after", 0) if "after" in asked.query else None
    section = Section(after, asked.number("before", 0), asked.number("limit", LOG_LINES), asked.text("kind", ""),
                      asked.text("step", ""))
    with asked.run() as run:
        return log_page(run.journal, run.program, section)


def costs(asked: Asked) -> dict[str, Any]:
    """As `sop show --costs --json`, the most expensive of each dimension; `repeated` is null in a run of very many calls."""
    with _read(asked) as run:
        found = costs_told(run.index.costs(run.journal))
        few = found["total"]["calls"] <= _REPEATED
        return {"run": run.run.name, **found, "repeated": round(run.run.told.repeated(), 4) if few else None}


def audit(asked: Asked) -> dict[str, Any]:
    """The records, the latest first, `offset` of them further back; what is wrong with them."""
    with asked.run() as run:
        return audit_page(run.journal.path, Settings.read().heads, asked.number("offset", 0))


def compare(asked: Asked) -> dict[str, Any]:
    """Two runs beside each other."""
    with asked.run("a") as one, asked.run("b") as two:
        return compared(one.told, two.told)


def compare_artifact(asked: Asked) -> dict[str, Any]:
    """How the latest versions of an artifact in two runs differ."""
    name = asked.text("name")
    with asked.run("a") as one, asked.run("b") as two:
        a, b = one.told.outline.payload(name), two.told.outline.payload(name)
        if a is None and b is None:
            raise UsageError(f"neither run has made `{line(name)}`")
        return {"name": name, "a": one.name, "b": two.name,
                **difference((one.told.values, a), (two.told.values, b), asked.text("path", ""))}


routes = [
    get("/api/run/activations", activations), get("/api/run/conversation", conversation), get("/api/run/text", text),
    get("/api/run/image", image), get("/api/run/artifacts", artifacts), get("/api/run/artifact", artifact),
    get("/api/run/diff", diff), get("/api/run/files", files), get("/api/run/changes", changes),
    get("/api/run/log", log), get("/api/run/costs", costs),
    get("/api/run/audit", audit), get("/api/compare", compare), get("/api/compare/artifact", compare_artifact)]
