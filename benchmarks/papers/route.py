"""Routing: requests of four public sets, each given to the one of four experts whose description has most in common with it.

Karpas et al., "MRKL Systems" (2022), for the router, its experts and the arguments taken from the text; Shen et al., "HuggingGPT"
(NeurIPS 2023), for the choice against descriptions. The router here counts words: what is measured is that the strategy shows it
the descriptions, holds its arguments to their types, and has the chosen one do the work; not how well a model routes.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import Any

from benchmarks.papers.calculator import as_number, calculate
from benchmarks.papers.row import PaperRow
from benchmarks.papers.running import ran, succeeded
from metaflow_agents.models.port import ModelRequest

SOP = r"""
sop: desk
inputs: {requests: [{id: string, text: string}]}
roles:
  desk: {profile: You hand requests on.}
  calculator: {profile: You do sums.}
  functions: {profile: You call the one function that answers a question.}
  assistant: {profile: You work with the services that somebody has an account for.}
  builder: {profile: You build software.}
  clerk: {profile: You answer what nobody else does.}
artifacts: {done: {each: {by: string, said: string}}}
steps:
  do:
    role: desk
    needs: [requests]
    foreach: {in: requests, as: request, key: request.id, parallel: 20}
    makes: done
    task: "One of {{ requests | length }} requests. Request: {{ request.text }} (end)"
    strategy:
      route:
        experts:
          calculator:
            about: >-
              Sums: a line of working that breaks off before its result, such as "She sells 16 - 3 - 4 = " or
              "That is 5 * 12 / 3 = $" or "So it comes to 20 + 7.5 = ".
            takes:
              properties: {expression: {type: string, pattern: "^[-+*/(). 0-9]+$"}}
              required: [expression]
          functions:
            about: >-
              Questions that one function of a library answers from what the question gives: calculate the area of a triangle with
              a base and a height in meters, the distance between two cities, the factorial of a number, the roots of an equation;
              find the law case, the population, the probability, the recipe, the score, the museum, the temperature, the history
              of a year. What is, how many, who, when.
          assistant:
            about: >-
              Services that a person has an account for: can you please add, change, delete or query my agenda, my alarm, my
              meeting, my reminder; book me an appointment with a doctor or a room in a hotel; look at my health data, my
              symptoms, my bank account, my stock; register me, sign in, forgot my password; open a scene at home; play, translate
              or search for me. I need help, I want, hi, could you.
          builder:
            about: >-
              Software to be built: create, develop or build an app, a website, a game or a command line tool in Python or with
              HTML, CSS, JavaScript and Node.js, that allows users to do something.
        fallback: clerk
        PROMPTS
"""
NAMES = "{% for expert in experts %}\n<expert name=\"{{ expert.name }}\">\n</expert>\n{% endfor %}\nElse `{{ fallback }}`.\n"
EXPERTS = ("calculator", "functions", "assistant", "builder", "clerk")
_MARK = re.compile(r"<<(.+?)=(.+?)>>")
_SUM = re.compile(r"[-+*/().\d\s,$%x×]*=\s*\$?\s*$")


@dataclass(frozen=True, slots=True)
class Request:
    """A request, whose it is, and of a sum its result."""

    id: str
    text: str
    wanted: str
    result: float | None = None


def requests(data: Path) -> list[Request]:
    """The first marked sum of each problem, questions about a function, the first words of each dialogue, and ideas."""
    return [*_sums(data), *_questions(data), *_dialogues(data), *_ideas(data)]


def _lines(file: Path) -> Iterator[Any]:
    return map(json.loads, file.read_text(encoding="utf-8").splitlines())


def _sums(data: Path) -> Iterator[Request]:
    """The line of the solution as it is before the mark: there the calculator is called."""
    for number, record in enumerate(_lines(data / "gsm8k/test.jsonl")):
        line = next((line for line in record["answer"].splitlines() if _MARK.search(line)), None)
        if line is not None:
            before, _, _ = line.partition("<<")
            marked = _MARK.search(line)
            if marked is not None:
                yield Request(f"gsm8k-{number}", before.strip(), "calculator", _number(marked[2]))


def _questions(data: Path) -> Iterator[Request]:
    for record in _lines(data / "bfcl/simple_python.jsonl"):
        yield Request(record["id"], " ".join(turn["content"] for turn in record["question"][0]), "functions")


def _dialogues(data: Path) -> Iterator[Request]:
    for file in sorted((data / "api_bank/level-1-given-desc").glob("*.jsonl")):
        said = next((turn["text"] for turn in _lines(file) if turn["role"] == "User"), None)
        if said is not None:
            yield Request(f"api_bank-{file.stem}", said, "assistant")


def _ideas(data: Path) -> Iterator[Request]:
    for record in _lines(data / "ideas/gpt_engineer_benchmark.jsonl"):
        yield Request(f"idea-{record['name']}", record["idea"], "builder")


def _number(text: str) -> float | None:
    try:
        return float(as_number(text))
    except ValueError:
        return None


class Desk:
    """Chooses the expert whose description shares most with the request, rare words counting more; knows only its prompt."""

    async def __call__(self, request: ModelRequest) -> Any:
        """An expert, its arguments, or what it made of them."""
        said = "\n".join(str(message["content"]) for message in request.messages)
        text = re.findall(r"Request: (.*?) \(end\)", said, re.DOTALL)[-1]
        if request.key.endswith("/choice"):
            return {"expert": self._chosen(text, said), "why": "the words that they share"}
        if "/arguments" in request.key:
            expression = _expression(text)
            return "there is no sum in it" if expression is None else {"expression": expression}
        given = re.search(r"<arguments>(.*?)</arguments>", said, re.DOTALL)
        return {"by": request.role, "said": str(calculate(json.loads(given[1])["expression"])) if given else ""}

    def _chosen(self, text: str, said: str) -> str:
        about = {name: _tokens(told) for name, told in re.findall(r'<expert name="(\w+)">\n(.*?)</expert>', said, re.DOTALL)}
        known = Counter(token for tokens in about.values() for token in tokens)
        score = {name: fsum(1 / known[token] ** 2 for token in tokens & _tokens(text)) for name, tokens in about.items()}
        best = max(score, key=lambda name: score[name])
        return best if score[best] > 0 else "clerk"


def _tokens(text: str) -> set[str]:
    """Words, the signs of sums, and whether it breaks off at a `=`."""
    text = text.strip()
    words = {word.removesuffix("s") for word in re.findall(r"[a-z]+(?:\.js)?", text.lower())}
    signs = {f"<{sign}>" for sign in re.findall(r"(?<=[\d ])[-+*/=](?=[ $\d]|$)", text)}
    return words | signs | ({"<broken off>"} if re.search(r"=\s*\$?\s*(\"|$)", text) else set())


def _expression(text: str) -> str | None:
    """The sum at the end of a line that breaks off, as the calculator writes sums; None where there is none."""
    found = _SUM.search(text)
    plain = re.sub(r"[\s,$=]", "", found[0]).replace("x", "*").replace("×", "*").lstrip(".") if found else ""
    plain = re.sub(r"(\d+(?:\.\d+)?)%", r"(\1/100)", plain)
    try:
        calculate(plain)
    except (ValueError, SyntaxError, ZeroDivisionError):
        return None
    return plain if re.search(r"\d[-+*/]", plain) else None


@dataclass(frozen=True, slots=True)
class Routed:
    """Whose a request is × who did it → how many; and the sums that came out right."""

    matrix: dict[tuple[str, str], int]
    right: int

    @property
    def own(self) -> int:
        """Requests that came to whose they are."""
        return sum(count for (wanted, doer), count in self.matrix.items() if wanted == doer)


def routed(given: list[Request], prompts: str = "", **templates: str) -> Routed:
    """What became of the requests. `prompts`: a line of YAML with templates of one's own, `templates` their texts."""
    asked = [{"id": one.id, "text": one.text} for one in given]
    done = succeeded(ran(SOP.replace("PROMPTS", prompts), Desk(), {"requests": asked}, sandbox="none",
                         templates={f"{name}.j2": text for name, text in templates.items()}))["done"]
    matrix = Counter((one.wanted, done[one.id]["by"]) for one in given)
    right = sum(one.result is not None and bool(done[one.id]["said"]) and abs(float(done[one.id]["said"]) - one.result) < 0.01
                for one in given)
    return Routed(dict(matrix), right)


def rows(data: Path) -> list[PaperRow]:
    """The figures of routing."""
    given = requests(data)
    whole = routed(given)
    third = given[::3]
    blind = routed(third, "prompts: {choose: names.j2}", names=NAMES)
    sums = [one for one in given if one.result is not None]
    bare = routed(sums[::3], "prompts: {work: bare.j2}", bare="{{ output_format }}")
    confusion = ["is of \\ by" + "".join(f" {doer[:3]}" for doer in EXPERTS)]
    confusion += [f"{wanted:10}" + "".join(f"{whole.matrix.get((wanted, doer), 0):4}" for doer in EXPERTS)
                  for wanted in EXPERTS[:-1]]
    lexical = "the router counts words that request and description share; MRKL's and HuggingGPT's are language models"
    return [
        PaperRow("route", f"{len(given)} requests of GSM8K, BFCL, API-Bank and ideas that came to their expert; a third of them, "
                          "without descriptions",
                 "no figure of this kind", f"{whole.own} of {len(given)}; {blind.own} of {len(third)}", lexical),
        PaperRow("route", "the same: whose they are, by who did them", "no figure of this kind",
                 "\n".join(confusion), lexical),
        PaperRow("route", "sums right that came to a calculator with a typed argument; a third of them, without the argument",
                 "no figure quoted (MRKL)",
                 f"{whole.right} of {len(sums)}; {bare.right} of {len(sums[::3])}",
                 "the arguments are taken out by a pattern; MRKL trains a model for it"),
    ]
