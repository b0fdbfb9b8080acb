"""What a firing's results become: the next version of its artifact, laid over the latest.

A step that reads the artifact it makes revises it: its results lie over the latest version. One that does not is its
author: what its items made that are gone from its list, or failed, goes too (see docs/decisions). A reused item's part
stays as it is in the latest version, where a reviser may have bettered it.
"""

from __future__ import annotations

from collections.abc import Collection as Many
from collections.abc import Iterable, Mapping, Sequence

from metaflow_agents.schema.payload import Collection, Files, Patch


def overlaid(base: Files | None, patches: Iterable[Patch], *, patterns: Sequence[str], gone: Iterable[str] = (),
             missing: Sequence[str] | None = None) -> Files:
    """The files of the latest version without the paths that are gone, the patches applied in their order.

    `missing` are the keys of items without a result; None keeps those of the latest version.
    """
    files, patches = dict(base.files) if base is not None else {}, list(patches)
    for path in gone:
        files.pop(path, None)
    for patch in patches:
        for path in patch.deleted:
            files.pop(path, None)
        files.update(patch.written)
    if missing is None:
        missing = base.missing if base is not None else ()
    assumed = dict.fromkeys([*(base.assumed if base is not None else ()), *(word for patch in patches for word in patch.assumed)])
    return Files(patterns=tuple(patterns), files=dict(sorted(files.items())), missing=tuple(missing), assumed=tuple(assumed))


def gathered(base: Collection | None, fresh: Mapping[str, str], *, gone: Many[str], order: Sequence[str],
             missing: Sequence[str]) -> Collection:
    """The entries of the latest version without those that are gone, with the fresh ones (key → payload).

    `order` are the keys of an author's list, which come first in its order; empty for a reviser.
    """
    entries = {key: payload for key, payload in (base.items if base is not None else ()) if key not in gone}
    entries.update(fresh)
    first = [key for key in order if key in entries]
    placed = set(first)
    items = [(key, entries[key]) for key in (*first, *(key for key in entries if key not in placed))]
    return Collection(items=tuple(items), missing=tuple(missing))


def still_missing(base: Files | Collection | None, absent: Sequence[str], spoken_of: Many[str]) -> tuple[str, ...]:
    """The keys without a result: those of this firing, then those of the latest version that it says nothing of."""
    before = base.missing if base is not None else ()
    return (*absent, *(key for key in before if key not in spoken_of))
