"""What a firing's results become: the next version of its artifact.

A step that reads the artifact it makes revises it: its results lie over the latest version. One that does not is its
author: what its items made that are gone from its list goes too (see docs/decisions).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from metaflow_agents.schema.payload import Collection, Files, Patch


def overlaid(base: Files | None, patches: Iterable[Patch], *, drop: Iterable[str] = (), patterns: Sequence[str],
             missing: Sequence[str] = ()) -> Files:
    """The files of the latest version with dropped paths gone and the patches applied, in their order."""
    files = dict(base.files) if base is not None else {}
    for path in drop:
        files.pop(path, None)
    for patch in patches:
        for path in patch.deleted:
            files.pop(path, None)
        files.update(patch.written)
    return Files(patterns=tuple(patterns), files=dict(sorted(files.items())), missing=tuple(missing))


def gathered(base: Collection | None, results: Mapping[str, str], *, missing: Sequence[str] = ()) -> Collection:
    """Key → payload in the order of the list; a reviser's results replace and extend what `base` holds."""
    if base is None:
        return Collection(items=tuple(results.items()), missing=tuple(missing))
    lost = set(missing)
    items = {**dict(base.items), **results}
    still = [key for key in base.missing if key not in results and key not in lost]
    return Collection(items=tuple((k, d) for k, d in items.items() if k not in lost), missing=(*still, *missing))
