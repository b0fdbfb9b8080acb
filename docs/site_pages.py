"""A hook of mkdocs: links that leave `docs/` lead to pages that the site gets for them.

In a clone a page links to `../examples/book/README.md`. A site has its pages alone, so each file of the repository that a page
links to becomes a page below `repository/`: Markdown as it is, other text as a block of code. The search passes over them.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

TOP = Path(__file__).resolve().parent.parent
BELOW = "repository"
_CODE = re.compile(r"(^```.*?^```$|`[^`\n]*`)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_LANGUAGES = {".yaml": "yaml", ".yml": "yaml", ".py": "python", ".j2": "jinja", ".json": "json", ".toml": "toml", ".sh": "sh"}


def _linked(text: str, change: Callable[[re.Match[str]], str]) -> str:
    """The text with its links changed; what stands in code is no link."""
    return "".join(part if number % 2 else _LINK.sub(change, part) for number, part in enumerate(_CODE.split(text)))


def _target(link: str, origin: str) -> str | None:
    """The file of the repository that a link of a file leads to; None: it leads to the web, or to no file."""
    path, _, _ = link.partition("#")
    if "://" in link or not path or link.startswith("mailto:"):
        return None
    found = posixpath.normpath(posixpath.join(posixpath.dirname(origin), path))
    if found.startswith(("..", "/")):
        return None
    if (TOP / found).is_dir():
        found = f"{found}/README.md"
    return found if (TOP / found).is_file() else None


def _place(file: str) -> str:
    """Where a file of the repository is found in the site, from the site's top."""
    if file.startswith("docs/"):
        return file.removeprefix("docs/")
    return f"{BELOW}/{file}" if file.endswith(".md") else f"{BELOW}/{file}.md"


def _origin(page: str) -> str:
    """The file of the repository that a page of the site is made from."""
    return page.removeprefix(f"{BELOW}/") if page.startswith(f"{BELOW}/") else f"docs/{page}"


def on_files(files: Files, config: Any) -> Files:
    """Adds a page for each file outside of `docs/` that a page links to, and for what those link to."""
    waiting = [(f"docs/{file.src_uri}", Path(str(file.abs_src_path)).read_text(encoding="utf-8"))
               for file in files.documentation_pages()]
    known: set[str] = set()
    while waiting:
        origin, text = waiting.pop()
        links: list[str] = []

        def note(match: re.Match[str], links: list[str] = links) -> str:
            links.append(match[1])
            return match[0]

        _linked(text, note)
        for link in links:
            file = _target(link, origin)
            if file is None or file.startswith("docs/") or file in known:
                continue
            known.add(file)
            content = (TOP / file).read_text(encoding="utf-8")
            shown = content if file.endswith(".md") else _shown(file, content)
            files.append(File.generated(config, _place(file), content=f"---\nsearch: {{exclude: true}}\n---\n{shown}"))
            if file.endswith(".md"):
                waiting.append((file, content))
    return files


def _shown(file: str, content: str) -> str:
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", content)), default=0))
    return f"# {file}\n\n{fence}{_LANGUAGES.get(Path(file).suffix, 'text')}\n{content}\n{fence}\n"


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Leads the links of a page to where the site has what they mean."""
    here = page.file.src_uri
    origin = _origin(here)

    def led(match: re.Match[str]) -> str:
        link = match[1]
        file = _target(link, origin)
        if file is None or (origin.startswith("docs/") and file.startswith("docs/") and not link.endswith("/")):
            return match[0]
        _, sign, anchor = link.partition("#")
        return f"]({posixpath.relpath(_place(file), posixpath.dirname(here) or '.')}{sign}{anchor})"

    return without_escaped_bars(_linked(markdown, led))


def without_escaped_bars(markdown: str) -> str:
    """Tables with `|` in their code: the repository's viewer wants it escaped there, Python-Markdown shows the backslash."""
    def bare(code: re.Match[str]) -> str:
        return code[0].replace("\\|", "|")

    return re.sub(r"^\|.*$", lambda row: re.sub(r"`[^`]*`", bare, row[0]), markdown, flags=re.MULTILINE)


def on_post_build(config: Any) -> None:
    """Raises where a page would load something from the network."""
    loads = re.compile(r"<(?:script|img|iframe|source)[^>]*\ssrc=[\"']?(?:https?:)?//"
                       r"|<link[^>]*rel=[\"']?(?:stylesheet|preconnect|icon)[\"']?[^>]*href=[\"']?(?:https?:)?//")
    for folder, _, names in os.walk(config.site_dir):
        for name in names:
            file = Path(folder) / name
            if name.endswith(".html") and (found := loads.search(file.read_text(encoding="utf-8"))):
                raise SystemExit(f"{file}: it loads something from the network: {found[0]}")
