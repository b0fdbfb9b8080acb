"""What changed in a run, the latest first: the commits of its files, and what sub-SOPs made anew, which lies in no file yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from metaflow_agents.schema.payload import Files, unpack
from metaflow_agents.views.ui.files import FileHistory, Told
from metaflow_agents.views.ui.index import RunIndex
from metaflow_agents.views.ui.texts import line
from metaflow_agents.views.ui.versions import OneVersion, parted, spoken_name

MOST = 100
"""Changes of one answer."""
_FILES = 12                         # of one change


class _Anew(NamedTuple):
    """A version inside of a sub-SOP, and the one before it."""

    whole: str
    number: int
    before: OneVersion
    version: OneVersion


def changes_told(index: RunIndex, history: FileHistory, ids: Mapping[int, str], blob: Callable[[str], bytes],
                 offset: int = 0) -> dict[str, Any]:
    """`{total, changes: [{id, seconds, told, key, since: [{told, query}], files: [{told, sign, query}], more, rest}]}`: `id` of a
    commit in git, by `ids` of its event; `seconds` of the run, None of what no step did; `since`: what it was made from that was
    not there when the version before was made; `query`: where the page shows it, None for what is gone; `more`: files that are
    not listed, which `rest` shows.
    """
    found: list[tuple[int, Told | _Anew]] = [(one.seq, one) for one in history.commits]
    found += [(one.version.seq, one) for one in _inside(index, blob)]
    found.sort(key=lambda pair: pair[0])
    page = found[::-1][offset:offset + MOST]
    return {"total": len(found), "changes": [
        _commit(one, index, ids) if isinstance(one, Told) else _anew(one, index, blob) for _, one in page]}


def _inside(index: RunIndex, blob: Callable[[str], bytes]) -> Iterator[_Anew]:
    """Of sub-SOPs: sets of files that differ from those before, and what a role wrote anew."""
    for whole, versions in index.versions.of.items():
        place, _ = parted(whole)
        for number, (before, version) in enumerate(pairwise(versions), 2):
            if place and version.firing and version.payload != before.payload and (
                    index.roles(version.firing) or isinstance(unpack(blob(version.payload)), Files)):
                yield _Anew(whole, number, before, version)


def _commit(one: Told, index: RunIndex, ids: Mapping[int, str]) -> dict[str, Any]:
    since, key, seconds = [], None, None
    for artifact, number in one.made:
        versions = index.versions.of.get(artifact, ())
        if 1 <= number <= len(versions):
            key, seconds = versions[number - 1].firing, round(versions[number - 1].at, 3)
            since += list(_since(index, artifact, versions[number - 2], versions[number - 1])) if number > 1 else []
    files = []
    for path, sign, artifact, number in one.paths[:_FILES]:
        before = {"a": f"{artifact}@{number - 1}"} if sign == " " and number > 1 else {}
        query = None if sign == "-" else {"tab": "files", "path": path, "version": f"{artifact}@{number}", **before}
        files.append({"told": line(path), "sign": sign, "query": query})
    return {"id": ids.get(one.seq), "seconds": seconds, "told": line(one.message.partition("\n")[0]), "key": key, "since": since,
            "files": files, "more": one.changed - len(files), "rest": {"tab": "files"}}


def _anew(one: _Anew, index: RunIndex, blob: Callable[[str], bytes]) -> dict[str, Any]:
    held, old = (unpack(blob(version.payload)) for version in (one.version, one.before))
    before, after = (each.files if isinstance(each, Files) else {} for each in (old, held))
    query = {"name": one.whole, "a": one.number - 1, "b": one.number}
    differ = [path for path in sorted({*before, *after}) if before.get(path) != after.get(path)]
    files = [{"told": line(path), "sign": "+" if path not in before else "-" if path not in after else " ",
              "query": {**query, "path": path}} for path in differ[:_FILES]]
    files = files or [{"told": "what differs", "sign": " ", "query": query}]
    firing = one.version.firing or ""
    return {"id": None, "seconds": round(one.version.at, 3), "key": firing,
            "told": f"{spoken_name(one.whole)}@{one.number} by {index.who(firing)}",
            "since": list(_since(index, one.whole, one.before, one.version)), "files": files,
            "more": max(len(differ) - _FILES, 0), "rest": query}


def _since(index: RunIndex, whole: str, before: OneVersion, version: OneVersion) -> Iterator[dict[str, Any]]:
    place, own = parted(whole)
    for name, number in version.read.items():
        read = f"{place}/{name}" if place else name
        there = index.versions.of.get(read, ())
        if name != own and 0 < number <= len(there) and there[number - 1].seq > before.seq:
            yield {"told": f"{name}@{number}", "query": {"name": read, "version": number}}
