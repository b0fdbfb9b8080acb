"""A script that runs outside of this process, in the sandbox: it makes documents of one Markdown file, by pandoc and typst.

It imports nothing of this package, and nothing of this package imports it. It lies in a folder with `source.md`, `job.json`
(`documents`: file that it writes → format; `name`: what the text is called that has no title), the styles, and the pictures that
the text may show. No word of the text names another file: raw HTML, TeX and typst are no language here, and `text.lua` takes out
every picture that does not lie in the folder. The bytes tell no time of making, so that the same text gives the same files.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

READS = "commonmark+pipe_tables+footnotes+task_lists+strikeout+gfm_auto_identifiers+implicit_figures-raw_html"
"""What of Markdown is read; docs/reference/artifacts.md describes it."""
FAULTY = 3
"""What this process ends with where the text asks for what can't be: the words on stderr say it all."""
WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
COMMON = ("--from", READS, "--lua-filter", "text.lua", "--standalone")
MADE = 315532800
"""Seconds of Unix time that stand for the time of making: the first instant that a ZIP archive can name."""
TEXTS = ("title", "subtitle", "author", "date", "lang", "description", "keywords", "publisher", "rights", "identifier",
         "cover-image", "papersize")
SWITCHES = ("toc", "book")
"""What the front matter may tell; all else in it is left out."""
PAPERS = {"a4": ("a4", 11906, 16838), "a5": ("a5", 8391, 11906), "a6": ("a6", 5953, 8391), "b5": ("iso-b5", 9978, 14173),
          "letter": ("us-letter", 12240, 15840), "legal": ("us-legal", 12240, 20160)}
"""Size → what typst calls it, its width and height in twentieths of a point."""
LONGEST = 20_000                    # characters of front matter
NAMED = 8                           # pictures that an error names
TEXT, ACCENT, RULE = "222222", "1F4E79", "BFC7D1"
"""Colours of the styles, as in `page.css` and `page.typ`."""


JOB: dict[str, Any] = {}


def pandoc(*arguments: str) -> None:
    """One conversion of `body.md`; where pandoc can't, its words go to stderr and this process ends."""
    import pypandoc

    contents = ["--toc", "--toc-depth=2"] if JOB["told"].get("toc") else []
    done = subprocess.run([pypandoc.get_pandoc_path(), "body.md", *COMMON, *contents, *arguments], check=False)
    if done.returncode:
        sys.exit(done.returncode)


def front_matter(text: str) -> tuple[dict[str, list[str]], str]:
    """The front matter (`---`, YAML, `---`) as name → texts, and what follows it. A beginning that is none stays text."""
    found = re.match(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", text[:LONGEST], re.DOTALL)
    if not found:
        return {}, text
    import yaml

    try:
        written = yaml.safe_load(found[1])
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}, text
    if not isinstance(written, dict):
        return {}, text
    told = {name: written[name] if isinstance(written[name], list) else [written[name]] for name in TEXTS if name in written}
    texts = {name: [str(one) for one in values if isinstance(one, str | int | float | date)] for name, values in told.items()}
    texts = {name: values for name, values in texts.items() if values}
    if not PAPERS.get(texts.get("papersize", ["a4"])[0].lower()):
        texts.pop("papersize", None)
    texts.update({name: ["true"] for name in SWITCHES if written.get(name) is True})
    if not re.fullmatch(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*", next(iter(texts.get("lang", [])), "")):
        texts.pop("lang", None)
    return texts, text[found.end():]


def html(name: str) -> None:
    """One page that needs no other file."""
    pandoc("--to", "html5", "--template", "page.html", "--css", "page.css", "--embed-resources", "--output", name)


def pdf(name: str) -> None:
    """By typst. What the text tells of itself comes as data, never as a piece of typst."""
    import typst

    pandoc("--to", "typst", "--template", "page.typ", "--syntax-highlighting", "none", "--wrap", "none",
           "--output", "page-filled.typ")
    told = {name: json.dumps(JOB["told"].get(name, [])) for name in ("author", "keywords", "cover-image")}
    told |= {"lang": first("lang", "en").partition("-")[0], "description": first("description"),
             "paper": PAPERS[first("papersize", "a4").lower()][0]}
    typst.compile("page-filled.typ", output=name, root=".", timestamp=MADE, sys_inputs=told)


def first(name: str, default: str = "") -> str:
    """What the front matter tells, where that is one thing."""
    return next(iter(JOB["told"].get(name, [])), default)


def docx(name: str) -> None:
    """On pandoc's own reference document, with other styles."""
    import pypandoc

    with open("plain.docx", "wb") as file:
        subprocess.run([pypandoc.get_pandoc_path(), "--print-default-data-file", "reference.docx"], stdout=file, check=True)
    restyle("plain.docx", "styled.docx", "word/styles.xml", styled)
    restyle("styled.docx", "reference.docx", "word/document.xml", sized)
    pandoc("--to", "docx", "--reference-doc", "reference.docx", "--output", "uncovered.docx")
    restyle("uncovered.docx", name, "word/document.xml", covered)


def restyle(source: str, target: str, member: str, change: Callable[[bytes], bytes]) -> None:
    """A copy of a ZIP archive in which one file is changed."""
    with zipfile.ZipFile(source) as before, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as after:
        for one in before.infolist():
            data = before.read(one)
            after.writestr(one, change(data) if one.filename == member else data)


def sized(data: bytes) -> bytes:
    """The last section of Word's document on the paper that is wanted."""
    _, width, height = PAPERS[first("papersize", "a4").lower()]
    root = parsed(data)
    section = next(root.iter(f"{WORD}sectPr"))
    for old in section.findall(f"{WORD}pgSz"):
        section.remove(old)
    size = ET.Element(f"{WORD}pgSz", {f"{WORD}w": str(width), f"{WORD}h": str(height)})
    notes = [at for at, one in enumerate(section) if one.tag in (f"{WORD}footnotePr", f"{WORD}endnotePr", f"{WORD}type")]
    section.insert(max(notes, default=-1) + 1, size)
    return written(root)


def covered(data: bytes) -> bytes:
    """Word's document with its cover before the title, where pandoc puts none; of a book on a page of its own."""
    root = parsed(data)
    body = next(root.iter(f"{WORD}body"))
    cover = next((one for one in body if next(one.iter(f"{WORD}drawing"), None) is not None), None)
    if cover is None or not first("cover-image"):
        return data
    body.remove(cover)
    body.insert(0, cover)
    if first("book"):
        ET.SubElement(ET.SubElement(cover, f"{WORD}r"), f"{WORD}br", {f"{WORD}type": "page"})
    return written(root)


def parsed(data: bytes) -> ET.Element:
    """XML of an Office document. Its namespaces keep their prefixes when it is written."""
    for prefix, space in re.findall(rb'xmlns:(\w+)="([^"]+)"', data):
        ET.register_namespace(prefix.decode(), space.decode())
    return ET.fromstring(data)


def written(root: ET.Element) -> bytes:
    """XML as a member of an Office document."""
    return b'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n' + ET.tostring(root)


def styled(data: bytes) -> bytes:
    """Word's styles: one typeface, headings in one colour, tables with rules."""
    root = parsed(data)
    sizes = {"Title": 52, "Heading1": 34, "Heading2": 28, "Heading3": 24}
    for style in root.iter(f"{WORD}style"):
        name = style.get(f"{WORD}styleId") or ""
        if name in ("Normal", "Title", "Subtitle", "Author", "Date") or name.startswith("Heading"):
            run = _child(style, "rPr")
            for old in [*run.findall(f"{WORD}rFonts"), *run.findall(f"{WORD}color")]:
                run.remove(old)
            ET.SubElement(run, f"{WORD}rFonts", {f"{WORD}{kind}": "Calibri" for kind in ("ascii", "hAnsi", "cs")})
            ET.SubElement(run, f"{WORD}color", {f"{WORD}val": TEXT if name == "Normal" else ACCENT})
            for size in [*run.findall(f"{WORD}sz"), *run.findall(f"{WORD}szCs")]:
                run.remove(size)
            for kind in ("sz", "szCs"):
                ET.SubElement(run, f"{WORD}{kind}", {f"{WORD}val": str(sizes.get(name, 22))})
            if name == "Title" or name.startswith("Heading"):
                ET.SubElement(run, f"{WORD}b")
            placed = _child(style, "pPr")
            if name == "Heading1" and first("book"):
                placed.insert(0, ET.Element(f"{WORD}pageBreakBefore"))
            for old in placed.findall(f"{WORD}jc"):         # at the left, as the rest
                placed.remove(old)
        if name == "Table":
            borders = ET.SubElement(_child(style, "tblPr"), f"{WORD}tblBorders")
            for side in ("top", "bottom", "insideH"):
                ET.SubElement(borders, f"{WORD}{side}", {f"{WORD}val": "single", f"{WORD}sz": "4", f"{WORD}color": RULE})
    return written(root)


def _child(style: ET.Element, name: str) -> ET.Element:
    found = style.find(f"{WORD}{name}")
    return ET.SubElement(style, f"{WORD}{name}") if found is None else found


def epub(name: str) -> None:
    """A book with a table of contents, a file for each chapter."""
    digest = hashlib.sha256(Path("source.md").read_bytes()).hexdigest()
    own = [] if first("identifier") else [f"--metadata=identifier=urn:sha256:{digest}"]
    cover = [f"--epub-cover-image={path}" for path in JOB["told"].get("cover-image", [])[:1]]
    contents = [] if first("toc") else ["--toc", "--toc-depth=2"]
    pandoc("--to", "epub3", "--css", "book.css", *own, *contents, *cover, "--split-level=1", "--output", name)


def lost() -> str:
    """The pictures that the text shows and nobody can, with why; empty where there is none."""
    lines = Path("lost.txt").read_text(encoding="utf-8").splitlines()
    if not lines:
        return ""
    whys = dict(line.rpartition("\t")[::2] for line in lines)
    there = ", ".join(some([f"`{path}`" for path in JOB["pictures"]])) or "none"
    told = ", ".join(some([f"`{source[:200]}` {why}" for source, why in whys.items()]))
    return (f"pictures can't be shown: {told}; pictures that the step reads: {there}; let the step read their files (`needs` or "
            "`sees`), correct their paths, or take them out of the text")


def some(words: list[str]) -> list[str]:
    """The first of them, and how many more there are."""
    return [*words[:NAMED], *([f"{len(words) - NAMED} more"] if len(words) > NAMED else [])]


MAKERS = {"html": html, "pdf": pdf, "docx": docx, "epub": epub}


def main() -> None:
    """Make all that the job asks for."""
    os.environ["SOURCE_DATE_EPOCH"] = str(MADE)
    JOB.update(json.loads(Path("job.json").read_text(encoding="utf-8")))
    told, body = front_matter(Path("source.md").read_text(encoding="utf-8"))
    JOB["told"] = {**told, "fallback": [JOB["name"]]}
    Path("body.md").write_text(body, encoding="utf-8")
    covers = JOB["told"].pop("cover-image", [])[:1]
    if covers and covers[0] in JOB["pictures"]:
        JOB["told"]["cover-image"] = covers
    Path("lost.txt").write_text("".join(f"{' '.join(path.split())}\tis not among the files that the step reads\n"
                                        for path in covers if path not in JOB["pictures"]), encoding="utf-8")
    Path("told.json").write_text(json.dumps(JOB["told"]), encoding="utf-8")         # for `text.lua`
    for file, made in JOB["documents"].items():
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        try:
            MAKERS[made](file)
        except Exception as error:          # typst raises what it likes, and its words are for who wrote the text
            sys.exit(f"{file}: {type(error).__name__}: {str(error)[:2000]}")
    if why := lost():
        sys.stderr.write(f"{why}\n")
        sys.exit(FAULTY)


if __name__ == "__main__":
    main()
