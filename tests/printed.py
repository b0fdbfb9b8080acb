"""Writes small PDF files, so that tests have pages with columns, hyphenated lines and ligatures whose every byte is known.

The fonts are the Times of every PDF reader. Their encoding has the ligatures fi and fl at two codes, as typesetting programs
place them, and letters of Latin-1. Text is set line by line where it is told to stand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LIGATURES = {"ﬁ": b"\x02", "ﬂ": b"\x03", "–": b"\x04", "—": b"\x05", "“": b"\x06", "”": b"\x07", "’": b"\x08", "•": b"\x0b"}
_NAMES = "2 /fi /fl /endash /emdash /quotedblleft /quotedblright /quoteright 11 /bullet"
_FONTS = {"plain": "Times-Roman", "bold": "Times-Bold", "italic": "Times-Italic"}
SOFT = "\u00ad"


@dataclass(frozen=True)
class Line:
    """A line of text: points from the left and from the bottom of an A4 page."""

    x: float
    y: float
    text: str
    size: float = 10
    font: str = "plain"


def column(text: str, x: float, top: float, letters: int = 46, size: float = 10, leading: float = 13,
           font: str = "plain") -> list[Line]:
    """Paragraphs set in lines of so many letters at most. A line is broken at a soft hyphen where that fills it better."""
    lines: list[Line] = []
    y = top
    for paragraph in text.split("\n\n"):
        for row in _wrapped(" ".join(paragraph.split()), letters):
            lines.append(Line(x, y, row, size, font))
            y -= leading
        y -= leading * 0.6
    return lines


def _wrapped(text: str, letters: int) -> Iterable[str]:
    row = ""
    for word in text.split(" "):
        whole = word.replace(SOFT, "")
        if len(row) + len(whole) + bool(row) <= letters:
            row += (" " if row else "") + whole
            continue
        cut = max((place for place, sign in enumerate(word) if sign == SOFT
                   and len(row) + len(word[:place].replace(SOFT, "")) + 2 <= letters), default=0)
        head, tail = word[:cut].replace(SOFT, ""), word[cut:].replace(SOFT, "")
        yield f"{row} {head.removesuffix('-')}-".strip() if cut else row
        row = tail
    yield row


def printed(pages: Sequence[Sequence[Line]], title: str = "") -> bytes:
    """The PDF file of these pages."""
    objects: list[bytes] = []

    def add(body: bytes) -> int:
        objects.append(body)
        return len(objects)

    encoding = add(f"<< /Type /Encoding /BaseEncoding /WinAnsiEncoding /Differences [ {_NAMES} ] >>".encode())
    fonts = {key: add(f"<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding {encoding} 0 R >>".encode())
             for key, name in _FONTS.items()}
    resources = " ".join(f"/{key} {number} 0 R" for key, number in fonts.items())
    tree = len(objects) + 2 * len(pages) + 1
    kids = []
    for page in pages:
        content = b"\n".join(b"BT /%s %g Tf %g %g Td (%s) Tj ET" % (
            line.font.encode(), line.size, line.x, line.y, _encoded(line.text)) for line in page)
        stream = add(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content))
        kids.append(add(f"<< /Type /Page /Parent {tree} 0 R /MediaBox [0 0 595 842] /Contents {stream} 0 R "
                        f"/Resources << /Font << {resources} >> >> >>".encode()))
    add(f"<< /Type /Pages /Count {len(kids)} /Kids [ {' '.join(f'{kid} 0 R' for kid in kids)} ] >>".encode())
    root = add(f"<< /Type /Catalog /Pages {tree} 0 R >>".encode())
    info = add(b"<< /Title (%s) >>" % _encoded(title))
    return _file(objects, root, info)


def _encoded(text: str) -> bytes:
    found = b"".join(LIGATURES.get(letter) or letter.encode("latin-1") for letter in text)
    return found.replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")


def _file(objects: Sequence[bytes], root: int, info: int) -> bytes:
    out = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer\n<< /Size %d /Root %d 0 R /Info %d 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, root, info, start)
    return bytes(out)


__all__ = ["LIGATURES", "SOFT", "Line", "column", "printed"]
