"""Stands in for the four language models. Each function answers from its prompt alone, and none knows the gold labels.

What stands in a prompt: the claim and the evidence, the other's last argument, its own reasoning of the turn before.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from metaflow_agents import ModelRequest

WORDS = {"two": "2", "three": "3", "four": "4", "five": "5", "ten": "10", "eleven": "11", "twelve": "12"}
IDLE = set(
    "a an the of in on is was were are be been by to and or for with than that it its at as any from has have had one but so out"
    " were very".split()
)
OPEN = re.compile(
    r"not (?:yet )?known|nothing is known|unclear|disputed|no figures|names no|gave no|not asked|are lost|not been tested"
    r"|not dated|do not mention",
    re.I,
)
AGAINST = re.compile(r"\b(?:not|no|none|never|except|second-highest|far too|but|then it was)\b", re.I)


def _stems(text: str) -> set[str]:
    return {WORDS.get(w, w)[:6] for w in re.findall(r"[^\W_]+", text.lower()) if w not in IDLE}


def _support(claim: str, evidence: str) -> float:
    wanted = _stems(claim)
    return len(wanted & _stems(evidence)) / max(1, len(wanted))


def _clash(claim: str, evidence: str) -> bool:
    """A number of the claim that the evidence lacks, where the evidence has others; or a no where the claim has none."""
    mine, theirs = (
        {WORDS.get(w, w) for w in re.findall(rf"\d+|\b(?:{'|'.join(WORDS)})\b", t.lower())} for t in (claim, evidence)
    )
    return bool(mine - theirs and theirs) or (bool(AGAINST.search(evidence)) and not AGAINST.search(claim))


def _sentence(evidence: str, pattern: re.Pattern[str] | None, claim: str) -> str:
    """The sentence of the evidence that fits best, word for word."""
    parts = [p for p in re.split(r"(?<=[.!?;:])\s+", evidence) if p]
    hits = [p for p in parts if pattern and pattern.search(p)]
    return max(hits or parts, key=lambda p: _support(claim, p), default="")


def _block(text: str, name: str) -> str:
    found = re.findall(rf'<artifact name="{name}"[^>]*>\n\([^\n]*\)\n(.*?)\n</artifact>', text, re.S)
    return found[-1] if found else ""


async def _debater(request: ModelRequest, side: str) -> Any:
    text = "\n".join(str(m["content"]) for m in request.messages if m["role"] == "user")
    claim, evidence = _block(text, "claim"), _block(text, "evidence")
    if "illegible scan" in evidence and side == "believer":
        await asyncio.sleep(3600)  # a model that never answers
    if "decode failed" in evidence and side == "doubter":
        return "I am sorry, I can not read this evidence."  # no JSON, whatever it is told
    if "slow to arrive" in evidence and "/argue@1[believer]~0/" in request.key:
        raise ConnectionError("the model hung up")  # once
    await asyncio.sleep(0.05)
    support, clash, unknown = _support(claim, evidence), _clash(claim, evidence), bool(OPEN.search(evidence))
    if side == "believer":
        label = "undecided" if unknown and support < 0.5 else "true" if support >= 0.3 else "false"
    else:
        label = "undecided" if unknown else "false" if clash else "true" if support >= 0.55 else "undecided"
    quote = _sentence(evidence, None if side == "believer" else AGAINST if label == "false" else OPEN, claim)
    other = re.search(r'"(?:believer|doubter)": (\{.*?\})', _block(text, "arguments"), re.S)
    if other is None:
        word = {"true": "shows it", "false": "speaks against it", "undecided": "leaves it open"}[label]
        return {
            "argument": f'"{quote}" {word}; {support:.0%} of the claim\'s words stand in the evidence.',
            "quote": quote,
            "label": label,
        }
    theirs = json.loads(other[1])
    if side == "believer" and theirs["label"] == "undecided" and OPEN.search(theirs["quote"]):
        return {"argument": f'You are right: "{theirs["quote"]}" leaves it open.', "quote": theirs["quote"], "label": "undecided"}
    if side == "doubter" and label == "undecided" and not unknown and support >= 0.5:
        return {"argument": f'Granted: "{theirs["quote"]}" says as much.', "quote": theirs["quote"], "label": theirs["label"]}
    return {
        "argument": f'You say {theirs["label"]} by "{theirs["quote"]}"; I hold against it "{quote}".',
        "quote": quote,
        "label": label,
    }


async def believer(request: ModelRequest) -> Any:
    return await _debater(request, "believer")


async def doubter(request: ModelRequest) -> Any:
    return await _debater(request, "doubter")


async def _judge(request: ModelRequest, bold: float) -> Any:
    await asyncio.sleep(0.05)
    text = "\n".join(str(m["content"]) for m in request.messages if m["role"] == "user")
    case = json.loads(re.search(r'<item name="case">\n(.*?)\n</item>', text, re.S)[1])  # type: ignore[index]
    if "judge is out" in case["evidence"]:
        raise RuntimeError("the judge's model is not there")
    claim, evidence, last = case["claim"], case["evidence"], case["rounds"][-1]
    support, clash, unknown = _support(claim, evidence), _clash(claim, evidence), bool(OPEN.search(evidence))
    if request.schema is None:  # the free reasoning of chain_of_thought
        for_, against = (
            support + 0.2 * (last["believer"]["label"] == "true"),
            0.6 * clash + 0.2 * (last["doubter"]["label"] == "false"),
        )
        return (
            f"For the claim I weigh {for_:.2f}, against it {against:.2f}; what is left open: {'much' if unknown else 'little'}."
        )
    reasons = next(str(m["content"]) for m in reversed(request.messages) if m["role"] == "assistant")
    weights = re.search(r"For the claim I weigh ([\d.]+), against it ([\d.]+).*open: (\w+)", reasons)
    for_, against, left = float(weights[1]), float(weights[2]), weights[3]  # type: ignore[index]
    label = "undecided" if left == "much" else "true" if for_ > against else "false"
    sure = 0.95 if case["agreed"] else 0.5 + min(0.45, bold * abs(for_ - against)) + 0.1 * (left == "much")
    best = {
        side: max(range(len(case["rounds"])), key=lambda n: len(case["rounds"][n][side]["quote"])) + 1
        for side in ("believer", "doubter")
    }
    strict = "strict" in str(request.messages[0]["content"])  # what a changed judge's prompt may ask for
    return {
        "because": f"{reasons.split(';')[0]}.",
        "best_believer": best["believer"],
        "best_doubter": best["doubter"],
        "label": label,
        "confidence": round(min(0.99, sure - 0.1 * strict), 2),
    }


async def judge(request: ModelRequest) -> Any:
    return await _judge(request, 0.6)


async def second_judge(request: ModelRequest) -> Any:
    return await _judge(request, 1.1)


async def anyone(request: ModelRequest) -> Any:
    """All four, by the role that is asked: `--model python:desk.py:anyone`, and the tests."""
    return await {"believer": believer, "doubter": doubter, "judge": judge, "second_judge": second_judge}[request.role](request)
