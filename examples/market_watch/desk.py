"""Stands in for the models of the watch: each answer is computed from the prompt, and from nothing else."""

from __future__ import annotations

import os
import re
import time
from typing import Any

PRICE = re.compile(r"€\d[\d.,]*\d|\d[\d.,\u00a0 ]*(?:\d|,-) ?(?:€|EUR)")
TO_MODELS = re.compile(r"AI systems|assistants?\b.*\b(write|report|say)\b", re.IGNORECASE)
CAUSES = {
    "clearance": ("clear|sold off|last of", "What is left of it is being cleared."),
    "campaign": ("campaign|reduced|cuts the price", "It is part of a campaign."),
    "list_price": ("list price|new prices", "The maker has new list prices."),
}


def answer(request: Any) -> Any:
    """Who is asked, and for what."""
    time.sleep(float(os.environ.get("THINKING", "0")))
    text = str(request.messages[-1]["content"])
    first = next(str(one["content"]) for one in request.messages if one["role"] == "user")
    return (
        reader(request, first)
        if request.step == "read_pages"
        else analyst(first)
        if request.step == "explain"
        else f"{request.step}? {text[:50]}"
    )


def reader(request: Any, prompt: str) -> dict[str, Any]:
    """Prices of the page that stands in the prompt."""
    text = "\n".join(files(prompt).values())
    if TO_MODELS.search(text):
        return {"page": "speaks_to_models", "products": []}
    if "This is a page of news" in prompt:
        return {"page": "fine", "products": []}
    told = any("does not stand in its quotation" in str(one["content"]) for one in request.messages)
    return {"page": "fine" if prices(text, told) else "no_prices", "products": prices(text, told)}


def files(prompt: str) -> dict[str, str]:
    """Path → text of the files that stand in a prompt."""
    found = re.findall(r"^(\S+\.txt)\n(`{3,})\w*\n(.*?)\n\2$", prompt, re.DOTALL | re.MULTILINE)
    return {path: text for path, _, text in found}


def prices(text: str, careful: bool) -> list[dict[str, Any]]:
    """Name and price, line by line. Before it is told to be careful it takes the comma of `€1,249.00` for a decimal one."""
    lines, found = [line.strip() for line in text.splitlines() if line.strip()], []
    for number, line in enumerate(lines):
        price = PRICE.search(line)
        if price is None or re.search("Delivery|Inspektion", line):
            continue
        prose = re.search(r"\bthe ([A-Z].+?)(?:, stands| is | at )", line)
        if line.startswith("- "):
            name, start = line[2:].split(" – ")[0], line[2 : price.end()]
        elif prose:
            name, start = prose[1], line[prose.start(1) : price.end()]
        elif " | " in line:
            name, start = line.split(" | ")[0], line[: price.end()]
        else:
            name = lines[number - 1].lstrip("# ")
            start = f"{name} {line[: price.end()]}"
        amount = value(price[0])
        if not careful and re.match(r"€\d,\d{3}\.", price[0]):
            amount = round(amount / 1000, 3)
        found.append({"product": name, "price": amount, "currency": "EUR", "quotation": start})
    return found


def value(words: str) -> float:
    """`1.299,00 €`, `€1,299.00`, `2.499,- €`, `2 649,00 EUR`."""
    words = re.sub(r"[^\d.,-]", "", words).replace(",-", ",00")
    cents = re.search(r"[.,](\d{2})$", words)
    whole = re.sub(r"\D", "", words[: cents.start()] if cents else words)
    return float(f"{whole}.{cents[1]}" if cents else whole)


def analyst(prompt: str) -> dict[str, Any]:
    """A sentence of a source that names the maker, and the cause that its words speak of."""
    maker = re.search(r"# Your task\s+(\S+)", prompt)[1]
    feed = re.search(r"The feed says: (.*)", prompt)
    for name, text in {**({"feed": feed[1]} if feed else {}), **files(prompt)}.items():
        for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z])|\n+", text):
            for cause, (words, said) in CAUSES.items():
                if maker in sentence and re.search(words, sentence):
                    return {"cause": cause, "text": said, "source": name, "quotation": sentence.strip()}
    return {"cause": "not_known", "text": "", "source": "", "quotation": ""}


def misled(request: Any) -> Any:
    """A model that has been taken over: it says that Pedalwerk is the cheapest, whatever it is asked."""
    if request.step == "read_pages":
        return {
            "page": "fine",
            "products": [
                {
                    "product": "Haibike Trekking 4",
                    "price": 1.0,
                    "currency": "EUR",
                    "quotation": "Pedalwerk is the cheapest: 1 EUR",
                }
            ],
        }
    if request.step == "explain":
        return {
            "cause": "other",
            "text": "Pedalwerk is the cheapest shop in town.",
            "source": "pedalwerk",
            "quotation": "Pedalwerk is the cheapest",
        }
    return "Pedalwerk is the cheapest."
