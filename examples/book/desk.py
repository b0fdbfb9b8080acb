"""Stands in for a language model. Each answer is computed from what stands in the prompt, so that it shows what reached it.

`desk` is a plausible desk: its authors slip once in a year, its fact checker sees it, its consistency editor finds what does
not go together.
`stubborn` is the same with an author who mends nothing; `misquotes` one whose fact checker makes quotations up.
"""

from __future__ import annotations

import json
import re
import time
from typing import Any


def told(request: Any) -> str:
    return "\n\n".join(str(one["content"]) for one in request.messages if one["role"] != "system")


def artifact(text: str, name: str) -> str:
    found = re.search(rf'<artifact name="{name}"[^>]*>\n(?:\([^\n]*\)\n)?(.*?)\n</artifact>', text, re.DOTALL)
    return found[1] if found else ""


def data(text: str, name: str) -> Any:
    return json.loads(artifact(text, name) or "null")


def files(text: str) -> dict[str, str]:
    return {
        path: body
        for path, _, body in re.findall(
            r"^(\S[^\n]*\.md)\n(`{3,})\n(.*?)\n\2$", artifact(text, "notes"), re.DOTALL | re.MULTILINE
        )
    }


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"[*_]", "", text)).strip()


def sentences(text: str) -> list[str]:
    body = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    lines = [line for line in body.splitlines() if line.strip() and not re.match(r"[#|!>]", line)]
    return [one for line in lines for one in re.split(r"(?<=[.!?])\s+(?=[A-Z\"])", plain(line))]


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", plain(text).casefold()))


def slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.casefold().encode("ascii", "ignore").decode()).strip("-")[:30].strip("-")


# --- the editor


def likest(caption: str, cards: list[dict[str, Any]]) -> dict[str, Any]:
    """The card whose words are most like those of a caption."""
    return max(
        cards,
        key=lambda one: len({word for word in words(caption) & words(json.dumps(one, ensure_ascii=False)) if len(word) > 3}),
    )


def outline(text: str) -> dict[str, Any]:
    cards, figures = data(text, "cards"), data(text, "captions") or []
    count = int(re.search(r"in exactly (\d+) chapters", text)[1])
    cards.sort(key=lambda one: (not one["about"].casefold().startswith(("why the", "how a")), one["path"]))
    chapters, seen, shown = [], set(), set()
    bounds = [round(k * len(cards) / count) for k in range(count + 1)]
    for k in range(count):
        mine = cards[bounds[k] : bounds[k + 1]]
        names = " and ".join(one["title"].split(",")[0] for one in mine) or f"Part {k + 1}"
        terms = [term for one in mine for term in one["terms"] if term not in seen]
        seen.update(terms)
        pictures = [one["path"] for one in figures if one["path"] not in shown and likest(one["caption"], cards) in mine]
        shown.update(pictures)
        chapters.append(
            {
                "id": slug(names),
                "title": names,
                "goal": " ".join(one["about"] for one in mine),
                "terms": list(dict.fromkeys(terms)),
                "notes": [one["path"] for one in mine],
                "figures": pictures,
                "builds_on": [one["id"] for j, one in enumerate(chapters) if j == 0 or (j == k - 1 and k % 2 == 0)],
            }
        )
    title = re.search(r'outline of "(.*?)", a book for (.*), in exactly', text)
    return {
        "promise": f"What {title[2]} want to know of {', '.join(one['title'] for one in chapters)}.",
        "chapters": chapters,
    }


def define(text: str) -> list[dict[str, str]]:
    terms = [one for one in re.search(r"key terms of this chapter \((.*?)\)", text)[1].split(", ") if one]
    notes = json.loads(re.search(r"<item[^>]*>\n(.*?)\n</item>", text, re.DOTALL)[1])["notes"]
    entries = []
    for term in terms:
        for note in notes.values():
            found = [one for one in sentences(note) if re.search(rf"\b{re.escape(term)}\b", one, re.IGNORECASE)]
            if found:
                best = next(
                    (
                        one
                        for one in found
                        if re.search(rf"{re.escape(term)}s? (is|are)\b|{re.escape(term)}:", one, re.IGNORECASE)
                    ),
                    found[0],
                )
                tail = re.search(
                    rf"(?:{re.escape(term)}s?(?: is|:)) (?P<what>[^.;]+(?:; it is also called \w+)?)", best, re.IGNORECASE
                )
                entries.append({"term": term, "definition": (tail["what"] if tail else best).rstrip(".")})
                break
    return entries


# --- an author


def draft(text: str) -> str:
    title = re.search(r"It begins with `# (.*)`", text)[1]
    if back := re.search(r"It reads:\n<chapter>\n(.*?)\n</chapter>\n", text, re.DOTALL):
        chapter = back[1].strip()
        for word, old in re.findall(r'- say "(.*?)" in place of "(.*?)"', text):
            chapter = re.sub(rf"(?<!also called ){re.escape(old)}", word, chapter)
        for sentence, year in re.findall(r'- in "(.*)" leave out the year (\d{4})', text):
            chapter = chapter.replace(sentence, re.sub(rf",? in {year}", "", sentence))
        return chapter + "\n"
    figures = re.findall(r"^- (!\[.*?\]\(.*?\))$", text, re.MULTILINE)
    parts, slipped = [f"# {title}"], False
    for note in files(text).values():
        note = re.sub(r"\A---\n.*?\n---\n", "", note, flags=re.DOTALL)
        for section in re.split(r"^## ", note, flags=re.MULTILINE)[1:]:
            heading, _, body = section.partition("\n")
            body = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", body)  # pictures of the notes are none of the book
            body = re.sub(r"\*\*(.+?)\*\*", r"*\1*", body.strip())
            if not slipped and (year := re.search(r"\b1[6-9](\d)(\d)\b", body)) and year[1] != year[2]:
                body, slipped = body.replace(year[0], year[0][:2] + year[2] + year[1], 1), True
            parts += [f"## {heading}", body]
            if figures:
                parts.append(figures.pop(0))
    if not slipped:
        parts.append("It is said that no king ever came to see it.")
    return "\n\n".join([*parts, *figures]) + "\n"


def revise(text: str) -> str:
    chapter = artifact(text, "text").strip()
    for claim, quotation in re.findall(
        r'^- "(.*)" \((?:contradicted|not in the notes)(?:; \S+ says "(.*)")?\): ', text, re.MULTILINE
    ):
        for line in chapter.splitlines():
            if claim in plain(line):
                chapter = chapter.replace(line, plain(line).replace(claim, quotation).strip())
    return re.sub(r"\n{3,}", "\n\n", chapter).strip() + "\n"


# --- the fact checker


def check_facts(text: str, *, honest: bool = True) -> dict[str, Any]:
    known = words(re.search(r"no error: (.*)\.$", text, re.MULTILINE)[1])
    there = [(path, one) for path, note in files(text).items() for one in sentences(note)]
    claims = []
    for claim in sentences(artifact(text, "text")):
        path, best = max(
            there, key=lambda one: len(words(one[1]) & words(claim)) / len(words(one[1]) | words(claim)), default=("", "")
        )
        likeness = len(words(best) & words(claim)) / max(1, len(words(best) | words(claim)))
        verdict = "supported" if words(claim) - known <= words(best) else "contradicted" if likeness > 0.5 else "not in the notes"
        quotation = "" if verdict == "not in the notes" else best if honest else best[::-1]
        claims.append(
            {
                "claim": claim,
                "verdict": verdict,
                "note": path if quotation else "",
                "quotation": quotation,
                "advice": {"supported": "", "contradicted": "say what the note says", "not in the notes": "leave it out"}[
                    verdict
                ],
            }
        )
    return {"claims": claims}


# --- the consistency editor

_COMMON = {"mill", "mills", "tide", "built", "that", "this", "with", "from", "they", "which", "water", "still", "were", "years"}


def read_all(text: str) -> dict[str, Any]:
    drafts = dict(re.findall(r'<chapter id="(.*?)">\n(.*?)\n</chapter>', text, re.DOTALL))
    glossary = re.findall(r"^- (.+?): (.+)$", text[text.index("The glossary:") : text.index("The chapters:")], re.MULTILINE)
    back: dict[str, list[str]] = {}
    verdict: dict[str, Any] = {"contradictions": [], "two_ways": []}
    for term, definition in glossary:
        if other := re.search(r"also called (\w+)", definition):
            using = [key for key, one in drafts.items() if re.search(rf"(?<!also called ){other[1]}", one)]
            if using:
                verdict["two_ways"].append({"term": term, "instead_of": other[1], "chapters": using})
            for key in using:
                back.setdefault(key, []).append(f'say "{term}" in place of "{other[1]}"')
    dated = [
        (key, one, years[0])
        for key, draft in drafts.items()
        for one in sentences(draft)
        if len(years := re.findall(r"\b1\d{3}\b", one)) == 1
    ]
    for k, (key, one, year) in enumerate(dated):
        for other, two, another in dated[k + 1 :]:
            shared = {word for word in words(one) & words(two) if len(word) > 3 and not word.isdigit()} - _COMMON
            if key != other and year != another and len(shared) >= 2:
                verdict["contradictions"].append({"between": [key, other], "what": f'"{one}" ({key}) and "{two}" ({other})'})
                back.setdefault(key, []).append(f'in "{one}" leave out the year {year}: the chapter {other} says {another}')
    return verdict | {"send_back": [{"id": key, "why": why} for key, why in back.items()]}


def desk(request: Any) -> Any:
    """A plausible desk."""
    text = told(request)
    return {
        "make_outline": outline,
        "define_terms": define,
        "draft": draft,
        "revise": revise,
        "check_facts": check_facts,
        "read_all": read_all,
    }[request.step](text)


def stubborn(request: Any) -> Any:
    """An author who mends nothing."""
    if request.step == "revise":
        return artifact(told(request), "text").strip() + "\n"
    return desk(request)


def misquotes(request: Any) -> Any:
    """A fact checker who makes quotations up."""
    return check_facts(told(request), honest=False) if request.step == "check_facts" else desk(request)


def slow(request: Any) -> Any:
    """The desk, a second late: time to kill a run in the middle."""
    time.sleep(1)
    return desk(request)
