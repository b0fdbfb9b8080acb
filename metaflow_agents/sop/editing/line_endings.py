"""A file's text as a text field of a browser holds it, with line feeds alone, and back: untouched lines keep their bytes."""

from __future__ import annotations

from collections import Counter
from difflib import SequenceMatcher

from metaflow_agents.sop.document import LINE

BOM = b"\xef\xbb\xbf"


def in_lines(data: bytes) -> str:
    """The text of a file without its byte order mark and with a line feed for each line break. Raises UnicodeDecodeError."""
    return LINE.sub("\n", data.removeprefix(BOM).decode())


def in_its_form(before: bytes, text: str) -> bytes:
    """The bytes of a changed text, in the form of the file that it was: mark, and the break of each line that is the same.

    A new or changed line gets the break that most lines of the file have. Raises UnicodeEncodeError.
    """
    mark = BOM if before.startswith(BOM) else b""
    old = before.removeprefix(BOM).decode(errors="replace")
    breaks = LINE.findall(old)
    usual = Counter(breaks).most_common(1)[0][0] if breaks else "\n"
    new = text.split("\n")
    endings = [usual] * (len(new) - 1) + [""]
    if len(set(breaks)) > 1:
        whole = LINE.split(old)
        at = SequenceMatcher(None, whole, new, autojunk=False)
        for block in at.get_matching_blocks():
            for number in range(block.size):
                if block.a + number < len(breaks) and block.b + number < len(new) - 1:
                    endings[block.b + number] = breaks[block.a + number]
    return mark + "".join(line + ending for line, ending in zip(new, endings, strict=True)).encode()
