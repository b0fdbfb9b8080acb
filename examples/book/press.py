"""What a press does without a model: cards of notes, briefs for authors, quotations that are looked up, the index."""

from __future__ import annotations

import re
from typing import Any

Note = dict[str, str]
Files = dict[str, str | bytes]


def note_cards(notes: Files, chapters: int) -> list[dict[str, Any]]:
    """A card for each note: what the editor sees of it. A change in the words of a note changes no card."""
    cards = []
    for path, text in notes.items():
        if not path.endswith(".md"):
            continue
        if not isinstance(text, str):
            raise ValueError(f"the note {path} is no text in UTF-8: save it as UTF-8, or take it out of the folder")
        body = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
        headings = re.findall(r"^#{2,3} (.+)$", body, re.MULTILINE)
        title = re.search(r"^# (.+)$", body, re.MULTILINE)
        first = re.search(r"^(?![#|>!\s])(.+)$", body, re.MULTILINE)
        terms = list(dict.fromkeys(one.strip() for one in re.findall(r"\*\*(.+?)\*\*", body)))
        cards.append(
            {
                "path": path,
                "title": title[1] if title else path,
                "about": first[1] if first else "",
                "headings": headings,
                "terms": terms,
            }
        )
    if not cards:
        raise ValueError("the folder of notes holds no Markdown file (*.md)")
    if chapters > len(cards):
        raise ValueError(f"{chapters} chapters can't be made of {len(cards)} notes: each chapter needs one")
    return cards


def captions(figures: dict[str, Any] | None) -> list[dict[str, str]]:
    """The figures with their captions; a picture without a caption, or a caption without a picture, is refused."""
    if not figures:
        return []
    told = dict(re.findall(r"^- (\S+): (.+)$", str(figures.get("captions.md", "")), re.MULTILINE))
    pictures = {path for path in figures if path != "captions.md"}
    if odd := sorted(pictures ^ told.keys()):
        raise ValueError(f"figures and captions.md do not go together: {', '.join(odd)}")
    return [{"path": f"pictures/{path}", "caption": caption} for path, caption in told.items()]


def pictures(cover: bytes, figures: dict[str, bytes] | None = None) -> dict[str, bytes]:
    """The pictures of the book under the paths by which its text names them."""
    if not cover.startswith(b"\x89PNG\r\n"):
        raise ValueError("the cover is no PNG")
    return {"pictures/cover.png": cover} | {
        f"pictures/{path}": what for path, what in (figures or {}).items() if path != "captions.md"
    }


def outline_fits(
    outline: dict[str, Any], cards: list[dict[str, Any]], captions: list[dict[str, str]], chapters: int
) -> list[str]:
    """What is wrong with an outline: notes and figures that are not there, left out or used twice, the number of chapters."""
    found = outline["chapters"]
    faults = [] if len(found) == chapters else [f"{chapters} chapters were asked for, and these are {len(found)}"]
    faults += [f"the chapter {one['id']} has no notes" for one in found if not one["notes"]]
    faults += [
        f"the id {one['id']} is not of small letters, digits and hyphens"
        for one in found
        if not re.fullmatch(r"[a-z][a-z0-9-]*", one["id"])
    ]
    for kind, there in (("notes", [one["path"] for one in cards]), ("figures", [one["path"] for one in captions])):
        used = [path for chapter in outline["chapters"] for path in chapter[kind]]
        faults += [f"{path} is none of the {kind}" for path in used if path not in there]
        faults += [f"{path} stands in several chapters" for path in dict.fromkeys(used) if used.count(path) > 1]
        if kind == "notes":
            faults += [f"the note {path} is in no chapter" for path in there if path not in used]
    return faults


def packs(outline: dict[str, Any], captions: list[dict[str, str]], notes: Files) -> list[dict[str, Any]]:
    """Each chapter of the outline with its own notes and figures."""
    told = {one["path"]: one for one in captions}
    return [
        chapter
        | {"notes": {path: notes[path] for path in chapter["notes"]}, "figures": [told[path] for path in chapter["figures"]]}
        for chapter in outline["chapters"]
    ]


def briefs(packs: list[dict[str, Any]], entries: dict[str, list[dict[str, str]]]) -> list[dict[str, Any]]:
    """What the author of each chapter is given: the terms are its own and those of the chapters that it builds on."""
    by_id = {one["id"]: one for one in packs}

    def below(key: str) -> set[str]:
        return {key}.union(*(below(one) for one in by_id[key]["builds_on"]))

    contents = [{key: one[key] for key in ("id", "title", "goal")} for one in packs]
    return [
        {
            "id": one["id"],
            "contents": contents,
            "notes": one["notes"],
            "chapter": {key: one[key] for key in ("id", "title", "goal", "terms", "figures")},
            "glossary": [
                {"term": entry["term"], "definition": entry["definition"]}
                for other in packs
                if other["id"] in below(one["id"])
                for entry in entries.get(other["id"], [])
            ],
        }
        for one in packs
    ]


def chapter_stands(text: str, chapter: dict[str, Any]) -> list[str]:
    """What is wrong with the form of a chapter: its title, its headings, its figures."""
    faults = []
    if not text.startswith(f"# {chapter['title']}\n"):
        faults.append(f"the chapter does not begin with `# {chapter['title']}`")
    if len(re.findall(r"^# ", text, re.MULTILINE)) > 1:
        faults.append("only the title is a heading of the first level")
    shown = re.findall(r"!\[[^\]]*\]\(([^)\s]+)", text)
    wanted = [one["path"] for one in chapter["figures"]]
    faults += [
        f"the figure {path} stands in the chapter {shown.count(path)} times, not once"
        for path in wanted
        if shown.count(path) != 1
    ]
    faults += [f"{path} is no figure of this chapter" for path in dict.fromkeys(shown) if path not in wanted]
    return faults


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"[*_`>]", "", text)).strip().casefold()


def quotations_stand(findings: dict[str, Any], notes: Note) -> list[str]:
    """The quotations of a fact check that do not stand, word for word, in the note that is named."""
    faults = []
    for claim in findings["claims"]:
        if claim["verdict"] == "not in the notes":
            continue
        if claim["note"] not in notes:
            faults.append(f'"{claim["claim"]}": {claim["note"]} is no note of this chapter')
        elif not claim["quotation"].strip() or _plain(claim["quotation"]) not in _plain(notes[claim["note"]]):
            faults.append(f'the quotation "{claim["quotation"]}" does not stand, word for word, in {claim["note"]}')
    return faults


def latest(drafts: dict[str, Any], mended: dict[str, Any] | None) -> dict[str, Any]:
    """The chapters as they are now: the mended one where there is one."""
    return drafts | (mended or {})


def verdict_fits(verdict: dict[str, Any], current: dict[str, Any]) -> list[str]:
    """What is wrong with the list of chapters that are sent back."""
    ids = [one["id"] for one in verdict["send_back"]]
    faults = [f"{one} is no chapter; there is: {', '.join(current)}" for one in ids if one not in current]
    faults += [f"{one} is sent back twice: put all reasons into one entry" for one in dict.fromkeys(ids) if ids.count(one) > 1]
    return faults + [f"{one['id']} is sent back without a reason" for one in verdict["send_back"] if not one["why"]]


def jobs(
    verdict: dict[str, Any], current: dict[str, Any], briefs: list[dict[str, Any]], jobs: list[dict[str, Any]] | None
) -> list[dict[str, Any]]:
    """All that was sent back so far. What was sent back earlier stands there unchanged, so that it is not written again."""
    by_id = {one["id"]: one for one in briefs}
    known = {one["id"]: one for one in jobs or []}
    for back in verdict["send_back"]:
        known[back["id"]] = by_id[back["id"]] | {"earlier": current[back["id"]]["markdown"], "complaints": back["why"]}
    return list(known.values())


def index_terms(
    outline: dict[str, Any], entries: dict[str, list[dict[str, str]]], current: dict[str, Any]
) -> list[dict[str, Any]]:
    """Glossary and index in one list, by the alphabet: each term, what it means, and the chapters in which it stands."""
    terms: dict[str, str] = {}
    for chapter in outline["chapters"]:
        for entry in entries.get(chapter["id"], []):
            terms.setdefault(entry["term"], entry["definition"])
    rows = []
    for term, definition in sorted(terms.items(), key=lambda one: one[0].casefold()):
        word = re.compile(rf"(?<!\w){re.escape(term)}(?:s|es)?(?!\w)", re.IGNORECASE)
        rows.append(
            {
                "term": term,
                "definition": definition,
                "chapters": [
                    one["id"]
                    for one in outline["chapters"]
                    if one["id"] in current and word.search(re.sub(r"[*_]", "", current[one["id"]]["markdown"]))
                ],
            }
        )
    return rows
