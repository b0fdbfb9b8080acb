"""The files of a program that a failed use is most likely about, so that who fixes it need not see all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from metaflow_agents.codemap.ranking import ranked
from metaflow_agents.codemap.reading import KEPT

MOST = 24_000
"""Characters of files that are shown, of all together; the first is shown whatever its size."""


async def files_near(transcript: Mapping[str, Any], product: Mapping[str, str | bytes]) -> dict[str, list[str]]:
    """`shown`: paths in the order of the program, those that what the broken uses said names or is about; `others`: those for
    which there is no room, the likeliest first. Raises RunError where no worker starts.
    """
    said = "\n".join(one["why"] for one in transcript["broken"])
    texts = {path: text for path, text in product.items() if isinstance(text, str)}
    order = ranked(await KEPT.read({path: text.encode() for path, text in texts.items()}), said)
    left, shown, others = MOST, set[str](), list[str]()
    for path, _ in order:
        if shown and len(texts[path]) > left:
            others.append(path)
        else:
            shown.add(path)
            left -= len(texts[path])
    return {"shown": [path for path in texts if path in shown], "others": others}
