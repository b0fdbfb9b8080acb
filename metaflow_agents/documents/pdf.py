"""PDF to text, page by page. The file may come from anywhere: what can't be read is told, and nothing raises but Unreadable."""

from __future__ import annotations

import io
import logging
import re
import unicodedata
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

from metaflow_agents.documents.decoding import Unreadable

if TYPE_CHECKING:
    from pypdf import PdfReader

MAX_PAGES = 5000
_QUIET = logging.NullHandler()              # pypdf reports each oddity of a file to its logger; the report tells what matters
_DIGITS = re.compile(r"\d+")
_NO_TITLE = re.compile(r"untitled|microsoft word|\.(docx?|tex|indd|qxd|rtf|odt|pdf)$|^\W*$|^\(anonymous\)$|^unspecified$",
                       re.IGNORECASE)
_SCAN = "run text recognition on it first (`ocrmypdf IN OUT` does), or leave it out of the folder"


def read_pdf(data: bytes) -> tuple[dict[str, str], list[str], list[str]]:
    """(`title` and `author`, texts of the pages, notes) of a PDF file.

    Raises Unreadable: encrypted, broken, scanned, without legible fonts.
    """
    reader = _opened(data)
    pages = [_tidied(_text(reader, number)) for number in range(_count(reader))]
    if not any(page.strip() for page in pages):
        raise Unreadable(f"holds no text on its {len(pages)} page{'s' * (len(pages) != 1)}, as a scan does; {_SCAN}")
    _refuse_illegible("".join(pages))
    empty = [number for number, page in enumerate(pages, 1) if not page.strip()]
    notes = [f"no text on page{'s' * (len(empty) > 1)} {', '.join(map(str, empty))}"] if empty else []
    return {"title": _told(reader, "title"), "author": _told(reader, "author")}, _without_running_heads(pages), notes


def pdf_job(data: bytes) -> dict[str, Any]:
    """`read_pdf` for a worker: its values, or why there are none."""
    try:
        head, pages, notes = read_pdf(data)
    except Unreadable as error:
        return {"unreadable": str(error)}
    return {"head": head, "pages": pages, "notes": notes}


def _opened(data: bytes) -> PdfReader:
    from pypdf import PdfReader
    from pypdf.errors import DependencyError

    logging.getLogger("pypdf").addHandler(_QUIET)
    try:
        reader = PdfReader(io.BytesIO(data))
        locked = reader.is_encrypted and not reader.decrypt("")
    except DependencyError:
        locked = True                       # newer encryption: even without a password it needs a package of its own
    except Exception as error:              # a broken file makes the parser raise whatever its first wrong step meets
        raise _broken(error) from error
    if locked:
        raise Unreadable("is encrypted; save a copy without protection (print it to PDF, or `qpdf --decrypt IN OUT`)")
    return reader


def _count(reader: PdfReader) -> int:
    try:
        found = len(reader.pages)
    except Exception as error:              # as above
        raise _broken(error) from error
    if found > MAX_PAGES:
        raise Unreadable(f"has {found:,} pages, more than {MAX_PAGES:,}; split it")
    if not found:
        raise Unreadable("is broken: it has no pages; save it anew with a PDF reader, or leave it out of the folder")
    return found


def _text(reader: PdfReader, number: int) -> str:
    try:
        return reader.pages[number].extract_text()
    except Exception as error:              # as above
        raise _broken(error, f" on page {number + 1}") from error


def _broken(error: Exception, where: str = "") -> Unreadable:
    said = " ".join(str(error).split())[:120] or type(error).__name__
    return Unreadable(f"is broken{where} ({said}); save it anew with a PDF reader, or leave it out of the folder")


def _told(reader: PdfReader, what: Literal["title", "author"]) -> str:
    try:
        text = getattr(reader.metadata, what) if reader.metadata is not None else None
    except Exception:                       # they are a courtesy: a document whose metadata are broken is still read
        return ""
    text = " ".join((text or "").split())
    return "" if _NO_TITLE.search(text) else text


def _tidied(text: str) -> str:
    kept = "".join(letter for letter in text if letter == "\n" or unicodedata.category(letter) != "Cc")
    return "\n".join(line.strip() for line in kept.split("\n"))


def _refuse_illegible(text: str) -> None:
    """Fonts without a table of their letters give private or replacement characters where words should be."""
    letters = [letter for letter in text if not letter.isspace()]
    lost = sum(letter == "\ufffd" or unicodedata.category(letter) in ("Co", "Cn") for letter in letters)
    if lost > len(letters) // 5:
        raise Unreadable(f"has fonts whose letters can't be told; {_SCAN}")


def _without_running_heads(pages: list[str]) -> list[str]:
    """Pages without the lines that stand at the head or foot of most of them, page numbers aside: a sentence that goes on over
    the page is one sentence.
    """
    if len(pages) < 3:
        return pages
    split = [[line for line in page.split("\n") if line] for page in pages]
    for end in (0, -1):
        while True:
            counted = Counter(_DIGITS.sub("#", lines[end]) for lines in split if lines)
            line, times = counted.most_common(1)[0] if counted else ("", 0)
            if times < 3 or times <= len(pages) // 2:
                break
            for lines in split:
                if lines and _DIGITS.sub("#", lines[end]) == line:
                    del lines[end]
    return ["\n".join(lines) for lines in split]
