"""A folder of files as sources: each read by its kind, numbered in the order of the paths."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

from metaflow_agents.documents.decoding import Unreadable, decoded
from metaflow_agents.documents.foreign import html_text, pdf_texts
from metaflow_agents.schema.source import Kind, Page, Source, Unread

MAX_DOCUMENTS = 1000
MAX_CHARACTERS = 24_000_000             # of all documents together: some ten thousand pages
ABOUT_CHARACTERS = 40_000               # of all abouts together, so that the shelf fits into a prompt
_KINDS: dict[str, Kind] = {".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html", ".xhtml": "html"}
_CLUTTER = {"thumbs.db", "desktop.ini", "__macosx"}
_HEADING = re.compile(r"^#{1,6}[ \t]+(\S[^\n]*)$", re.MULTILINE)
_WORD = re.compile(r"\w+")


async def read_folder(files: Mapping[str, bytes]) -> tuple[list[Source], list[Unread]]:
    """The documents among the files (path → bytes), and those that could not be read, each with the reason and the mend.

    Hidden files and the clutter of desktops are no documents. Text beyond 24 million characters is not taken.
    """
    paths = [path for path in sorted(files) if not _is_clutter(path)]
    sources: list[Source] = []
    unread: list[Unread] = []
    room = MAX_CHARACTERS
    for path in paths:
        try:
            if len(sources) >= MAX_DOCUMENTS:
                raise Unreadable(f"is one more than {MAX_DOCUMENTS:,} documents; split the folder")
            source = await _read(f"S{len(sources) + 1}", path, files[path], room)
        except Unreadable as error:
            unread.append(Unread(path=path, why=str(error)))
        else:
            room -= sum(len(page.text) for page in source.pages)
            sources.append(source)
    most = max(80, ABOUT_CHARACTERS // max(1, len(sources)))
    return [source.model_copy(update={"about": _about(source, min(most, 4000))}) for source in sources], unread


def _is_clutter(path: str) -> bool:
    return any(part.startswith((".", "~$")) or part.lower() in _CLUTTER for part in path.split("/"))


async def _read(name: str, path: str, data: bytes, room: int) -> Source:
    kind, title, pages, notes = await _content(path, data)
    if sum(map(len, (page.text for page in pages))) > room:
        raise Unreadable(f"goes beyond {MAX_CHARACTERS:,} characters of text in all; split the folder")
    words = sum(len(_WORD.findall(page.text)) for page in pages)
    if not words:
        raise Unreadable("is empty; leave it out of the folder")
    return Source(id=name, path=path, title=title or _stem(path), kind=kind, words=words, notes=tuple(notes), pages=tuple(pages))


async def _content(path: str, data: bytes) -> tuple[Kind, str, list[Page], Iterable[str]]:
    suffix = PurePosixPath(path).suffix.lower()
    if b"%PDF-" in data[:1024] or suffix == ".pdf":
        title, texts, notes = await pdf_texts(data)
        return "pdf", title, [Page(number=number, text=text) for number, text in enumerate(texts, 1)], notes
    kind = _KINDS.get(suffix, "text")
    if kind == "html":
        title, text = await html_text(data)
        return kind, title, [Page(text=text)], ()
    text = decoded(data)
    heading = next(_headings(text), "") if kind == "markdown" else ""
    return kind, heading, [Page(text=text)], ()


def _headings(text: str) -> Iterator[str]:
    """The Markdown headings of a text, without the signs that may close them."""
    return (found[1].rstrip().rstrip("#").rstrip() or found[1].rstrip() for found in _HEADING.finditer(text))


def _stem(path: str) -> str:
    """A title out of a file's name: `annual_report-2023.pdf` → `Annual report 2023`."""
    words = re.sub(r"[_\s-]+", " ", PurePosixPath(path).stem).strip() or path
    return words[0].upper() + words[1:]


def _about(source: Source, most: int) -> str:
    """All of it where that is short; else its headings, where it has some, and how it begins."""
    text = "\n\n".join(page.text for page in source.pages)
    plain = " ".join(text[:4 * most].split())
    if len(text) <= 4 * most and len(plain) <= most:
        return f"All of it: {plain}"
    headings = "; ".join(found for found in _headings(text) if found != source.title)
    opening = " ".join(_HEADING.sub("", text[:4 * most]).split())
    told = f"Parts: {_cut(headings, most // 2)}. Begins: {opening}" if headings else f"Begins: {opening}"
    return _cut(told, most)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most].rsplit(" ", 1)[0] + " …"
