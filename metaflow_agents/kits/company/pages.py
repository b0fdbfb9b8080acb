"""A page that is opened from the disk: what it names is there, its scripts find what they look for, its classes have a style.

The work is a job of a worker (decision 49): a parser reads what a model wrote.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from metaflow_agents.errors import ForeignRefused
from metaflow_agents.workers.pool import parsed

_LOADS = {"script": "src", "link": "href", "img": "src", "source": "src", "audio": "src", "video": "src", "iframe": "src"}
_ONLY_NAMED = frozenset({"canonical", "alternate", "author", "license", "help", "me"})
_LOOKS_UP = re.compile(r"""getElementById\(\s*(["'])([\w-]+)\1\s*\)|querySelector\(\s*(["'])\#([\w-]+)\3\s*\)""")
_NAMES = re.compile(r"""["'`]([\w-]+)["'`]|\bid=\\?["']?([\w-]+)""")
_ID = re.compile(r"""\bid\s*=\s*["']?([^\s"'>]+)""", re.IGNORECASE)      # those in a <template> too
_INLINE = re.compile(r"(?is)<script\b[^<>]*>.*?(?:</script|\Z)")        # no `<` in a tag: a tag without end is looked at once
_STYLES = re.compile(r"(?is)<style\b[^<>]*>.*?(?:</style|\Z)")
_READ = (".html", ".htm", ".css", ".js")
_FEW = 3
"""Classes without a style that nobody minds: scripts find elements by them."""


@dataclass(slots=True)
class _Page:
    """What a page loads (element, address), how many modules, and the classes of its elements."""

    loads: list[tuple[str, str]]
    modules: int
    classes: dict[str, None]


def _read(text: str) -> _Page:
    from selectolax.lexbor import LexborHTMLParser  # in the worker only

    page = _Page([], 0, {})
    root = LexborHTMLParser(text).root
    for node in root.traverse(include_text=False) if root is not None else ():
        tag, told = node.tag or "", {name: value or "" for name, value in node.attributes.items()}
        page.classes.update(dict.fromkeys(told.get("class", "").split()))
        page.modules += tag == "script" and told.get("type", "").lower() == "module"
        address = told.get(_LOADS.get(tag, ""), "").strip()
        if address and not (tag == "link" and _ONLY_NAMED & {*told.get("rel", "").lower().split()}):
            page.loads.append((tag, address))
    return page


async def page_faults(texts: Mapping[str, str], files: Collection[str] | None) -> list[str]:
    """What somebody who opens `index.html` from the disk would miss, each with its place. `files`: all that lies beside it; None
    where pages are as a server gives them, of which only the classes without a style are told.
    """
    read = {path: text for path, text in texts.items() if path.lower().endswith(_READ)}
    try:
        found: list[str] = await parsed("page", b"", texts=read, files=None if files is None else list(files))
    except ForeignRefused as error:
        return [f"{', '.join(f'`{path}`' for path in read)}: {error}"]
    return found


def page_job(_: bytes, texts: Mapping[str, str], files: Collection[str] | None) -> list[str]:
    """The faults of a page, see `page_faults`."""
    pages = {path: _read(text) for path, text in texts.items() if path.lower().endswith((".html", ".htm"))}
    return [*(() if files is None else _faults(texts, pages, frozenset(files))), *_lost_classes(texts, pages)]


def _faults(texts: Mapping[str, str], pages: Mapping[str, _Page], files: Collection[str]) -> Iterator[str]:
    for path, page in pages.items():
        for tag, address in page.loads:
            yield from (f"{_place(path, texts[path], address)}: {why}" for why in _missing(path, tag, address, files))
        if page.modules:
            yield (f"{_place(path, texts[path], 'module')}: a browser refuses a module that is opened from the disk; write a "
                   "plain script, without `type=\"module\"`")
    yield from _lost_ids(texts, {name for path in pages for found in _ID.finditer(texts[path]) for name in found.groups()})


def _place(path: str, text: str, named: str) -> str:
    at = text.find(named)
    return f"`{path}`" if at < 0 else f"`{path}`, line {text.count(chr(10), 0, at) + 1}"


def _missing(path: str, tag: str, address: str, files: Collection[str]) -> Iterator[str]:
    parts = urlsplit(address)
    if parts.scheme in ("data", "blob", "about", "javascript"):
        return
    if parts.scheme or parts.netloc:
        yield f"`<{tag}>` loads `{address}` from another host; a page that is opened from the disk has what it needs beside it"
    elif parts.path:
        found = posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(parts.path)))
        if parts.path.startswith("/") or found not in files:
            yield f"`<{tag}>` loads `{address}`, and no such file is there; write it, or take it out"


def _lost_ids(texts: Mapping[str, str], known: set[str]) -> Iterator[str]:
    """Ids that a script looks up and that stand nowhere else, neither in a page nor where a script makes the element."""
    scripts = {path: _script(path, text) for path, text in texts.items()}
    told = Counter(one[1] or one[2] for text in scripts.values() for one in _NAMES.finditer(text))
    told.subtract(one[2] for text in scripts.values() for one in _LOOKS_UP.finditer(text) if one[2])
    for path, text in scripts.items():
        for found in _LOOKS_UP.finditer(text):
            name = found[2] or found[4]
            if name not in known and not told[name]:
                known.add(name)
                yield (f"`{path}`, line {text.count(chr(10), 0, found.start()) + 1}: no element has the id `{name}`, and no "
                       "script gives it to one; add it, or take this out")


def _script(path: str, text: str) -> str:
    """What of a file is a script, each line where it stood."""
    if path.lower().endswith(".js"):
        return text
    if path.lower().endswith(".css"):
        return ""
    parts, at = [], 0
    for found in _INLINE.finditer(text):
        parts += ["\n" * text.count("\n", at, found.start()), found[0]]
        at = found.end()
    return "".join(parts)


def _lost_classes(texts: Mapping[str, str], pages: Mapping[str, _Page]) -> Iterator[str]:
    """Pages whose classes mostly have no style: a style sheet of other names, or none."""
    said = "\n".join(text for path, text in texts.items() if path.lower().endswith((".css", ".js")))
    said += "\n".join(found[0] for path in pages for one in (_STYLES, _INLINE) for found in one.finditer(texts[path]))
    words = set(re.findall(r"[\w-]+", said))
    for path, page in pages.items():
        lost = [name for name in page.classes if name not in words]
        if len(lost) > max(_FEW, len(page.classes) // 2):
            yield (f"`{path}`: no style sheet and no script names the classes {', '.join(f'`{one}`' for one in lost[:8])}"
                   f"{f' and {len(lost) - 8} more' if len(lost) > 8 else ''}; style them, or take them out")
