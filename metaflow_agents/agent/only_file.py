"""The answer of a step that makes one file, where it comes without the lines that say which file it is."""

from __future__ import annotations

import re

from metaflow_agents.agent.blocks import MARKDOWN, unfenced_lines

_MARKERS = re.compile(r"(={3,} ?(end|file|edit|rename|delete|undo)\b|<{7} SEARCH|>{7} REPLACE)")
_FENCE = re.compile(r"(`{3,}+|~{3,}+)([^`]*)")
_SHOWN = 200                        # characters of what was left out


def as_block(answer: str, path: str) -> tuple[str, str] | None:
    """The answer with its text in a block for `path`, and what was done to it in words. None where it is in blocks already, or
    where it can't be told what of it is the file.

    The file is the whole text; of an answer that is one fenced block, what the fence holds. Words around one fenced block are
    left out where the block is longer than they are: in a Markdown file they never are, since it may hold such a block itself.
    """
    lines = answer.replace("\r\n", "\n").split("\n")
    if not answer.strip() or any(_MARKERS.match(line) for line in lines):
        return None
    body, _ = unfenced_lines(lines, path)
    if body is not lines:
        return _block(body, path), f"the fenced block is the text of `{path}`"
    fences = [at for at, line in enumerate(lines) if _FENCE.fullmatch(line.rstrip())]
    if not fences or _is_markdown(path):
        return _block(lines, path), f"the whole answer is the text of `{path}`"
    if len(fences) != 2:
        return None
    first, last = fences
    inside, outside = lines[first + 1:last], [*lines[:first], *lines[last + 1:]]
    left = " ".join(" ".join(outside).split())
    if len(left) >= len("\n".join(inside)):
        return None
    return _block(inside, path), f"the fenced block is the text of `{path}`; left out around it: {left[:_SHOWN]!r}" + (
        f"… ({len(left):,} characters)" if len(left) > _SHOWN else "")


def _block(lines: list[str], path: str) -> str:
    text = "\n".join(lines).strip("\n")
    return f"=== file: {path} ===\n{text}\n=== end ===\n"


def _is_markdown(path: str) -> bool:
    return path.lower().endswith(MARKDOWN)
