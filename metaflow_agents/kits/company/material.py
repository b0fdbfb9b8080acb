"""What of the files that were given with an idea stands in prompts: notes whole, of many files of one kind some beginnings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import PurePosixPath

from metaflow_agents.kits.company.steps import cut

ONE = 20_000
"""Characters of a file that are shown."""
MANY = 8
"""Files of one folder with the same ending that are still notes; more are samples, templates, articles."""
SOME = 3
"""Of many such files, how many are shown."""
OF_MANY = 2_000
"""Characters that are shown of each of them."""
ALL = 80_000
"""Characters of all of them."""


def material_read(material: Mapping[str, str | bytes] | None) -> dict[str, list[dict[str, str]] | list[str]]:
    """`shown`: path and text of each; `others`: the paths of what is no text, and of what there is no room for."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path, held in (material or {}).items():
        if isinstance(held, str):
            groups[str(PurePosixPath(path).parent), PurePosixPath(path).suffix].append(path)
    shown: list[dict[str, str]] = []
    room = ALL
    for paths in sorted(groups.values(), key=len):                          # what stands alone is written for this
        many = len(paths) > MANY
        for path in paths[:SOME] if many else paths:
            text = cut(str((material or {})[path]), OF_MANY if many else ONE)
            if len(text) <= room:
                shown.append({"path": path, "text": text})
                room -= len(text)
    told = {one["path"] for one in shown}
    return {"shown": shown, "others": [path for path in material or {} if path not in told]}
