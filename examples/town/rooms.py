"""What the town computes without a model: who is where, what happened, who learned the news, and the files."""

from __future__ import annotations

import re
from typing import Any

PARTS = ["morning", "afternoon", "evening"]


def meet(acts: dict[str, Any], clock: dict[str, Any], cast: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A scene for each place with somebody; at home each is alone. Who speaks first changes with the hour."""
    tick = 3 * (clock["day"] - 1) + PARTS.index(clock["part"])
    there: dict[str, list[str]] = {}
    for person in cast:
        act = acts.get(person["name"])
        if act is None:
            continue
        place = f"home of {person['name']}" if act["place"] == "home" else act["place"]
        there.setdefault(place, []).append(person["name"])
    return [
        {
            "id": f"day {clock['day']} {clock['part']} {place}",
            "day": clock["day"],
            "part": clock["part"],
            "place": place,
            "who": who[tick % len(who) :] + who[: tick % len(who)],
            "doing": {name: acts[name]["doing"] for name in who},
        }
        for place, who in there.items()
    ]


def happen(
    scenes: list[dict[str, Any]], talks: dict[str, Any] | None, events: list[dict[str, Any]] | None
) -> list[dict[str, Any]]:
    """All that could be seen and heard so far: scenes with what was said there."""
    return [*(events or []), *({**scene, "lines": (talks or {}).get(scene["id"], [])} for scene in scenes)]


def _says(words: str, secret: str) -> bool:
    def plain(text: str) -> str:
        return " ".join(re.findall(r"\w+", text.lower()))

    return plain(secret) in plain(words)


def act_is_possible(
    acts: dict[str, Any], cast: list[dict[str, Any]], places: list[dict[str, Any]], name: str
) -> list[str] | None:
    """Faults of an act: a place that is not there, or the secret in what all can see."""
    me = next(person for person in cast if person["name"] == name)
    known = [place["name"] for place in places] + ["home"]
    faults = [] if acts["place"] in known else [f"`place` is {acts['place']!r}, and there is: {', '.join(known)}"]
    if _says(acts["doing"], me["secret"]):
        faults.append("`doing` holds your secret, and all who are there would see it")
    return faults or None


def line_keeps_secret(line: dict[str, Any], cast: list[dict[str, Any]], name: str) -> str | None:
    """A fault where what is said holds the secret."""
    me = next(person for person in cast if person["name"] == name)
    return "`says` holds your secret, word for word; say something else" if _says(line["says"], me["secret"]) else None


def write_day(clock: dict[str, Any], events: list[dict[str, Any]]) -> dict[str, str]:
    """The chronicle of the day: what everybody could see and hear, and nothing else."""
    day = clock["day"]
    out = [f"# Day {day}", ""]
    for part in PARTS:
        out += [f"## {part.capitalize()}", ""]
        for event in events:
            if (event["day"], event["part"]) != (day, part):
                continue
            out += [f"### {event['place'][:1].upper()}{event['place'][1:]}", ""]
            out += [f"- {name}: {event['doing'][name]}" for name in event["who"]] + [""]
            out += [f"> **{line['who']}:** {line['says']}  " for line in event["lines"]] + ([""] if event["lines"] else [])
    return {f"chronicle/day-{day:02d}.md": "\n".join(out)}


def follow(events: list[dict[str, Any]], news: dict[str, Any], knew: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Who learned the news: a word of it was said in their hearing, by one who knew. In the order in which it happened."""

    def tells(text: str) -> bool:
        return any(re.search(rf"\b{re.escape(word)}", text, re.IGNORECASE) for word in news["words"])

    learned = list(knew)
    known = {one["who"] for one in learned}
    for name in news["known_by"]:
        if name not in known:
            known.add(name)
            learned.append({"who": name, "day": 0, "part": "", "place": "", "from": "", "words": news["text"]})
    for event in events:
        for line in event["lines"]:
            if not tells(line["says"]):
                continue
            source = line["who"] if line["who"] in known else f"{line['who']}, who was not told of it"
            for name in event["who"]:
                if name not in known and name != line["who"]:
                    known.add(name)
                    learned.append(
                        {
                            "who": name,
                            "day": event["day"],
                            "part": event["part"],
                            "place": event["place"],
                            "from": source,
                            "words": line["says"],
                        }
                    )
    return learned


def bind(evenings: list[dict[str, Any]], cast: list[dict[str, Any]], first_day: int) -> dict[str, str]:
    """A diary for each: their evenings, one after the other."""
    files: dict[str, str] = {}
    for person in cast:
        out = [f"# The diary of {person['name']}", ""]
        for day, evening in enumerate(evenings, first_day):
            page = evening.get(person["name"])
            if page:
                out += [f"## Day {day}", "", page["diary"], "", *(f"- {one}" for one in page["remember"]), ""]
        path = f"diaries/{_slug(person['name'])}"
        files[f"{path}.md" if f"{path}.md" not in files else f"{path}-{len(files) + 1}.md"] = "\n".join(out)
    return files


def _slug(name: str) -> str | None:
    return re.sub(r"[^\w-]+", "-", name.strip().lower()).strip("-") or "somebody"
