"""Stands in for a language model: plays each person by what stands in the prompt, and by nothing else.

A person knows of the party only where the words stand in the prompt: among what it knows from the start, in what it heard,
or in a memory.
"""

from __future__ import annotations

import json
import random
import re
import time
import zlib
from typing import Any

from metaflow_agents import ModelRequest

PARTY = re.compile(r"((?!a )\w+ )?party at the ([\w ]+?) on day (\d+) in the (\w+)")


def villager(request: ModelRequest) -> Any:
    """Plays whoever the prompt says that it is."""
    if request.key.endswith("/importance"):
        return {"importance": 8 if "party" in str(request.messages[-1]["content"]) else 3}
    if request.key.endswith("/reflect/questions"):
        return {"questions": ["Whom do I meet?", "What is new in the town?", "What do I look forward to?"]}
    if "/reflect/insights." in request.key:
        numbers = [int(one) for one in re.findall(r'<memory number="(\d+)"', _all(request))]
        party = _party(request)
        insight = f"I look forward to the {party[0]}." if party else "My days are much alike."
        return {"insights": [{"insight": insight, "because": numbers[:2] or [1], "importance": 7}]}
    return {"plan": plan, "act": act, "say": say, "sleep": sleep}[request.step](request)


def plan(request: ModelRequest) -> dict[str, str]:
    me, asked = _me(request), _asked(request)
    day = int(re.search(r"morning of day (\d+)", asked)[1])  # type: ignore[index]
    places = re.findall(r"(?m)^- ([\w ]+): ", asked)
    party = _party(request)
    spare = (
        ["home"]
        if "keeps to herself" in me["traits"] and day < 3
        else [place for place in ("market", "harbour", "tavern", "home") if place in (*places, "home")]
    )
    evening = ["tavern", "tavern", "home"] if "tavern" in places and "keeps to herself" not in me["traits"] else ["home"]
    here = _pick(evening, me["name"], day)
    if party and int(party[3]) == day and party[4] == "evening":
        here = party[2]
    return {
        "thought": f"Private thought of {me['name']}, day {day}: my secret weighs on me.",
        "morning": f"{me['works_at']}: to work",
        "afternoon": f"{_pick(spare, me['name'], day)}: to look around",
        "evening": f"{here}: {'the party' if party and here == party[2] else 'to rest'}",
    }


def act(request: ModelRequest) -> dict[str, str]:
    me, asked = _me(request), _asked(request)
    part, day = re.search(r"It is the (\w+) of day (\d+)", asked).groups()  # type: ignore[union-attr]
    mine = json.loads(re.search(r'<artifact name="plans".*?>\n(.*?)\n</artifact>', asked, re.DOTALL)[1])[me["name"]]  # type: ignore[index]
    place, _, what = mine[part].partition(": ")
    party = _party(request)
    if party and (part, day) == (party[4], party[3]):  # heard of it since the morning
        place, what = party[2], "the party"
    return {
        "thought": f"Private thought of {me['name']}: on to {place}.",
        "place": place,
        "doing": {
            "to work": f"at work as a {me['job'].split(',')[0]}",
            "to look around": "strolls about",
            "the party": "dances",
        }.get(what, "sits and rests"),
    }


def say(request: ModelRequest) -> dict[str, Any]:
    me, asked = _me(request), _asked(request)
    day = int(re.search(r"of day (\d+), at the place", asked)[1])  # type: ignore[index]
    others = [
        name
        for name in re.findall(r"(?m)^- (.+?): ", asked.partition("Here are:")[2].partition("What was said")[0])
        if name != "you"
    ]
    said = asked.partition("What was said here:")[2]
    party = _party(request)
    mine = len(re.findall(r"(?m)^You: ", said))
    if (
        party
        and f"{party[1]}party" not in said
        and ("talkative" in me["traits"] or zlib.crc32(f"{me['name']}{day}{others}".encode()) % 3)
    ):
        return {
            "thought": "They should know.",
            "leaves": False,
            "says": f"Have you heard, {others[0]}? There is a {party[0]}!"
            if day <= int(party[3])
            else f"That was a fine {party[1]}party!",
        }
    if "party" in said and not mine:
        return {"thought": "New to me, or not.", "says": "Good that you say so. I will think of it.", "leaves": False}
    if mine:
        return {"thought": "Time to go.", "says": f"Well, good {'day' if day < 3 else 'night'} to you.", "leaves": True}
    return {"thought": "Small talk will do.", "says": f"Good to see you, {others[0]}. Day {day} already.", "leaves": False}


def sleep(request: ModelRequest) -> dict[str, Any]:
    today = str(request.messages[0]["content"]).partition("# What you did, saw and heard today")[2]
    met = sorted({name for name in re.findall(r"(?m)^- (.+?): ", today) if name != "you"})
    heard = re.findall(r'(?m)^(?!You)(.+?) said: "(.*?)"$', today)
    doing = re.findall(r"(?m)^- you: (.+)$", today)
    news = [f"{who} told me: {words}" for who, words in heard if PARTY.search(words)]
    return {
        "diary": f"Today I {'; then I '.join(doing)}. "
        + (f"I met {', '.join(met)}. " if met else "I met nobody. ")
        + " ".join(news),
        "remember": news or ["nothing new"],
    }


def blab(request: ModelRequest) -> Any:
    """The same, but one who tells their secret to whom they meet, until they are told not to."""
    answer = villager(request)
    if request.step == "say" and "says" in answer and "holds your secret" not in _all(request):
        answer["says"] = f"I will tell you. {_me(request)['secret']}"
    return answer


def _all(request: ModelRequest) -> str:
    return "\n".join(str(one["content"]) for one in request.messages)


def _party(request: ModelRequest) -> re.Match[str] | None:
    """The party that it knows of; of several the last."""
    return max(PARTY.finditer(_all(request)), key=lambda one: int(one[3]), default=None)


def _asked(request: ModelRequest) -> str:
    """The last question that names a part of the day: what a check says comes after it."""
    return next(
        str(one["content"])
        for one in reversed(request.messages)
        if one["role"] == "user" and "# Your task" in str(one["content"])
    )


def _me(request: ModelRequest) -> dict[str, str]:
    text = str(request.messages[0]["content"])
    name = re.search(r"You are (.+?)\.\n", text)[1]  # type: ignore[index]
    job, works_at, traits = re.search(r"Your work: (.+) \((.+?)\)\. You are (.*)\.\n", text).groups()  # type: ignore[union-attr]
    return {
        "name": name,
        "job": job,
        "works_at": works_at,
        "traits": traits,
        "secret": re.search(r"nobody else may learn: (.+)", text)[1],
    }  # type: ignore[index]


def _pick(choices: list[str], name: str, day: int) -> str:
    return choices[zlib.crc32(f"{name}/{day}".encode()) % len(choices)]


def slow(request: ModelRequest) -> Any:
    """The same, at the pace of a model: to be killed in the middle."""
    time.sleep(random.uniform(0.05, 0.4))
    return villager(request)
