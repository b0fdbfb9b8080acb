"""A folder of files as sources: each read by its kind, numbered in the order of the paths."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from metaflow_agents.documents.decoding import Unreadable, decoded
from metaflow_agents.documents.foreign import html_text, pdf_texts
from metaflow_agents.documents.publishing.convert import front_matter
from metaflow_agents.schema.source import Kind, Source, SourcePage, Unread

MAX_DOCUMENTS = 1000
MAX_CHARACTERS = 24_000_000             # of all documents together: some ten thousand pages
ABOUT_CHARACTERS = 80_000               # of all abouts together, so that the shelf fits into a prompt
SHORT = 12_000                          # characters of a document that is read whole, not in parts
_OPENING = 4000                         # characters at most of what is told of a longer one
_TOLD = 200                             # characters of a title, an author or a date
_KINDS: dict[str, Kind] = {".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html", ".xhtml": "html"}
_CLUTTER = {"thumbs.db", "desktop.ini", "__macosx"}
_HEADING = re.compile(r"^#{1,6}[ \t]+(\S[^\n]*)$", re.MULTILINE)
_UNDERLINED = re.compile(r"^[ \t]*(\S[^\n]{0,199})\n[ \t]*(?:={3,}|-{3,})[ \t]*$", re.MULTILINE)
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
    return _with_about(sources), unread


def _is_clutter(path: str) -> bool:
    return any(part.startswith((".", "~$")) or part.lower() in _CLUTTER for part in path.split("/"))


async def _read(name: str, path: str, data: bytes, room: int) -> Source:
    kind, head, pages, notes = await _content(path, data)
    if sum(map(len, (page.text for page in pages))) > room:
        raise Unreadable(f"goes beyond {MAX_CHARACTERS:,} characters of text in all; split the folder")
    words = sum(len(_WORD.findall(page.text)) for page in pages)
    if not words:
        raise Unreadable("is empty; leave it out of the folder")
    title, author, date = (" ".join(head.get(what, "").split())[:_TOLD] for what in ("title", "author", "date"))
    return Source(id=name, path=path, title=title or _stem(path), author=author, date=date, kind=kind, words=words,
                  notes=tuple(notes), pages=tuple(pages))


async def _content(path: str, data: bytes) -> tuple[Kind, Mapping[str, str], list[SourcePage], Iterable[str]]:
    """Kind, what it tells of itself (`title`, `author`, `date`), pages, notes."""
    suffix = PurePosixPath(path).suffix.lower()
    if b"%PDF-" in data[:1024] or suffix == ".pdf":
        head, texts, notes = await pdf_texts(data)
        return "pdf", head, [SourcePage(number=number, text=text) for number, text in enumerate(texts, 1)], notes
    kind = _KINDS.get(suffix, "text")
    if kind == "html":
        head, text = await html_text(data)
        return kind, head, [SourcePage(text=text)], ()
    text = decoded(data)
    told, body = front_matter(text)
    heading = next(_headings(body, marked=kind == "markdown"), "")
    return kind, {"title": heading, **{what: ", ".join(told[what]) for what in ("title", "author", "date") if told.get(what)}}, \
        [SourcePage(text=text)], ()


def _headings(text: str, *, marked: bool = True) -> Iterator[str]:
    """The headings of a text in their order: lines that are underlined (`====`, `----`), and, where they are `marked`, those
    that begin with `#`, without the signs that may close them.
    """
    found = [(one.start(), one[1].rstrip()) for one in _UNDERLINED.finditer(text) if _is_heading(one[1])]
    if marked:
        found += [(one.start(), one[1].rstrip().rstrip("#").rstrip() or one[1].rstrip()) for one in _HEADING.finditer(text)]
    return (heading for _, heading in sorted(found))


def _is_heading(line: str) -> bool:
    """Whether an underlined line is a heading: no rule without a word, no row of a table, no item of a list, no quotation."""
    return _WORD.search(line) is not None and "|" not in line and not re.match(r"[-*+>#]\s|\d+[.)]\s", line)


def _stem(path: str) -> str:
    """A title out of a file's name: `annual_report-2023.pdf` → `Annual report 2023`."""
    words = re.sub(r"[_\s-]+", " ", PurePosixPath(path).stem).strip() or path
    return words[0].upper() + words[1:]


def _with_about(sources: Sequence[Source]) -> list[Source]:
    """The sources with what is told of each: of the shortest all, as long as these take up half of the room at most."""
    room, whole = ABOUT_CHARACTERS // 2, set[str]()
    for size, name in sorted((len(_text(source)), source.id) for source in sources):
        if size <= min(SHORT, room):
            whole.add(name)
            room -= size
    others = len(sources) - len(whole)
    most = min(_OPENING, max(80, (ABOUT_CHARACTERS // 2 + room) // max(1, others)))
    return [source.model_copy(update={"about": f"All of it:\n\n{_text(source)}" if source.id in whole else _about(source, most)})
            for source in sources]


def _text(source: Source) -> str:
    return "\n\n".join(page.text for page in source.pages).strip()


def _about(source: Source, most: int) -> str:
    """The headings of a text, where it has some, and how it begins."""
    text = front_matter(_text(source))[1]
    headings = "; ".join(found for found in _headings(text) if found != source.title)
    opening = " ".join(_HEADING.sub("", text[:4 * most]).split())
    told = f"Parts: {_cut(headings, most // 2)}. Begins: {opening}" if headings else f"Begins: {opening}"
    return _cut(told, most)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most].rsplit(" ", 1)[0] + " …"
