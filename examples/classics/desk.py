"""Stands in for a language model in the tests of these SOPs: each function computes what it says from the prompt that it gets.

None of them knows more than its prompt says, so that a case holds only where the strategy told it what it has to know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations
from typing import Any

from metaflow_agents.models.port import ModelRequest, Reply, ToolCall


def said(request: ModelRequest) -> str:
    """All that it is told but the system's message."""
    return "\n".join(str(one["content"]) for one in request.messages if one["role"] != "system")


def results(request: ModelRequest) -> list[str]:
    """What its tools gave, in order."""
    return [str(one["content"]) for one in request.messages if one["role"] == "tool"]


def call(name: str, thought: str = "", **arguments: Any) -> Reply:
    """A thought and one action."""
    return Reply(thought, calls=(ToolCall("", name, arguments),))


def reader(request: ModelRequest) -> Any:
    """`react`: looks for who it was, then for where they were born. What it has not looked up it does not know."""
    found = "\n".join(results(request))
    who = re.search(r"Skerryvore.*engineer was ([A-Z]\w+ [A-Z]\w+)", found)
    if who is None:
        return call("search", "First I have to know who it was.", expression="Skerryvore")
    where = re.search(rf"{who[1]} was born in (\w+)", found)
    if where is None:
        return call("search", f"It was {who[1]}. Now where they were born.", expression=f"{who[1]} was born")
    return call("finish", answer=f'{{"answer": "{where[1]}", "because": ["{who[0]}", "{where[0]}"]}}')


def programmer(request: ModelRequest) -> Any:
    """`reflexion`: forgets the empty list, unless a lesson in its prompt says so; the lesson is what the test said."""
    if request.key.endswith("/lesson"):
        told = re.findall(r"assert (.*)", said(request))
        return f"This did not hold: `{told[-1]}`. I have to see to that first."
    guard = "    if not numbers:\n        return 0\n" if re.search(r"<lesson>.*mean\(\[\]\)", said(request), re.DOTALL) else ""
    return f"=== file: solution.py ===\ndef mean(numbers):\n{guard}    return sum(numbers) / len(numbers)\n=== end ===\n"


def player(request: ModelRequest) -> Any:
    """`tree_of_thoughts`: proposes every operation, knows what can't become 24, and answers with the way that it is shown."""
    text = said(request)
    if ".value." in request.key:
        left = [Fraction(one) for one in re.findall(r"\d+(?:/\d+)?", text.partition("first.")[2].partition("\n")[0])]
        return {"why": "tried", "value": "sure" if _makes_24(left) else "impossible"}
    way = re.findall(r'<thought number="\d+">\n(.*?)\n</thought>', text, re.DOTALL)
    if not request.key.endswith(".propose"):
        return {"steps": way, "found": "leads to an answer" not in text}
    shown = way[-1].partition("left: ")[2].rstrip(")") if way else re.search(r"Use ([\d ]+),", text)[1]     # type: ignore[index]
    moves = _moves([Fraction(one) for one in shown.split()])
    return {"thoughts": [f"{move} (left: {' '.join(map(str, left))})" for move, left in moves][:40]}


def _moves(numbers: list[Fraction]) -> Iterator[tuple[str, list[Fraction]]]:
    """Every operation on two of the numbers, in words, and what is left after it."""
    for (i, a), (j, b) in permutations(enumerate(numbers), 2):
        rest = [number for place, number in enumerate(numbers) if place not in (i, j)]
        made = {"-": a - b, **({"+": a + b, "*": a * b} if i < j else {}), **({"/": a / b} if b else {})}
        yield from ((f"{a} {sign} {b} = {number}", [*rest, number]) for sign, number in made.items())


def _makes_24(numbers: list[Fraction]) -> bool:
    return numbers == [24] if len(numbers) == 1 else any(_makes_24(left) for _, left in _moves(numbers))


def pupil(request: ModelRequest) -> Any:
    """`self_consistency`: of five ways of reasoning the first and the last go wrong; asked but once, it goes wrong."""
    each, boxes = map(int, re.findall(r"\d+", re.search(r"A box.*\?", said(request))[0]))                   # type: ignore[index]
    way = re.search(r"/vote\.s(\d)", request.key)
    slip = {"0": 1, "4": -each}.get(way[1] if way else "0", 0)
    return {"reasoning": f"{boxes} boxes of {each}", "number": each * boxes + slip}


def baker(request: ModelRequest) -> Any:
    """`babyagi`: making the list shows two things to do; of these the oven is needed first."""
    text = said(request)
    if "/do/" in request.key:
        return {"ok": True, "result": re.search(r"<part>\n.*?(\w+)\.?\n</part>", text)[1].replace("known", "list")}  # type: ignore[index]
    if request.key.endswith("/order"):
        waiting = re.findall(r"- (\d+): (.*)", text)
        return {"order": [int(number) for number, task in sorted(waiting, key=lambda one: "oven" not in one[1])]}
    if request.key.endswith("/create"):
        new = [re.search(r"The first task: (.*)", text)[1]] if "# Its tasks" in text else \
            ["Knead the dough.", "Heat the oven."] if "<result>\nlist" in text else []                       # type: ignore[index]
        return {"tasks": new}
    return f"=== file: work/report.md ===\n{', '.join(re.findall(r'<result>.(.*?).</result>', text, re.DOTALL))}\n=== end ===\n"


def agent(request: ModelRequest) -> Any:
    """`autogpt`: sees to its goals one after the other, a file each, and reads each back before it goes on. Who judges a goal
    looks for a file that is about it.
    """
    files = {"menu": "soup\n", "shop": "leeks\n"}
    if request.step == "judge":
        goal, made = re.search(r"One goal was: (.*)", said(request))[1], said(request).partition("were made:")[2]  # type: ignore[index]
        shows = [name for name in files if name in goal and f"{name}.txt" in made]
        return {"evidence": ", ".join(shows) or "no file is about it", "reached": bool(shows)}
    goals = re.findall(r"(?m)^ *\d+\. (.*)", said(request).partition("Your goals:")[2].partition("\nThe user's files")[0])
    acts = [act for name, text in list(files.items())[:len(goals)]
            for act in (call("write", "thought, reasoning, plan, criticism", path=f"work/{name}.txt", text=text),
                        call("read", path=f"work/{name}.txt"))]
    done = len(results(request))
    return acts[done] if done < len(acts) else call("finish", answer=f"All goals are reached: {'; '.join(goals)}.")


def controller(request: ModelRequest) -> Any:
    """`plan_and_execute`: plans three tasks, has each done by the tool that it needs, and puts the results together."""
    text = said(request)
    if "/task." in request.key:
        return _run_model(request, text)
    if "/plan." in request.key:
        tasks = [("see", "caption", [], "line"), ("count", "detect", [], "cats"), ("say", "translate", ["line"], "french")]
        return {"tasks": [{"name": name, "does": f"Use `{tool}`.", "needs": needs, "makes": [made], "value": 1, "effort": 1}
                          for name, tool, needs, made in tasks]}
    given = dict(re.findall(r'<result name="(\w+)">\n(.*?): .*\n</result>', text))
    found = dict(re.findall(r'<result name="(\w+)">\n.*?: (.*)\n</result>', text))
    return {"text": f"{found['french']}; {found['cats']}", "models": [given[name] for name in ("line", "cats", "french")]}


def _run_model(request: ModelRequest, text: str) -> Any:
    tool = re.search(r"Use `(\w+)`", text)[1]                                                                # type: ignore[index]
    image = re.search(r"picture: ([\w.]+)", text)[1]                                                         # type: ignore[index]
    if results(request):
        names = re.findall(r"`(\w+)`", re.search(r"comes of it: (.*?)\. Each", text)[1])                     # type: ignore[index]
        return {"ok": True, "why": "", "results": {name: f"{tool}: {results(request)[-1]}" for name in names}}
    line = re.search(r'<result name="line">\ncaption: (.*)\n', text)
    wants = {"caption": {"image": image}, "detect": {"image": image, "kind": "cat"},
             "translate": {"text": line[1] if line else ""}}
    return call(tool, **wants[tool])


def engineer(request: ModelRequest) -> Any:
    """`gpt_engineer`: asks one thing, then writes a program without its import, until it is told what is missing."""
    if request.step == "clarify":
        if not results(request):
            return call("ask_person", question="How many digits?", assumption="five")
        return {"name": "pi", "features": ["prints pi"], "assumed": results(request), "smoke": []}
    head = "import math\n\n" if "NameError: name 'math'" in said(request) else ""
    return f"=== file: main.py ===\n{head}print(round(math.pi, 5))\n=== end ===\n"


def debater(request: ModelRequest) -> Any:
    """`debate`: two multiply last; one who debates sees the slip once an answer beside its own says the products first."""
    a, b, c, d, e, f = map(int, re.findall(r"\d+", re.search(r"What is (.*)\?", said(request))[1]))          # type: ignore[index]
    if request.role in ("third", "chair") and "products first" not in said(request):
        return {"reasoning": "from left to right", "number": ((a + b) * c + d - e) * f}
    return {"reasoning": "products first", "number": a + b * c + d - e * f}


def translator(request: ModelRequest) -> Any:
    """`llm_p`: puts `X is on Y` into PDDL, what is wanted behind `Wanted:`; then says the plan that it is shown, and tells it in
    words, less its last step, unless it is told.
    """
    text = said(request)
    if request.step == "tell":
        told = [f"{number}. {_TOLD[name].format(*objects.split())}"
                for number, name, objects in re.findall(r"(?m)^ *(\d+)\. \(([\w-]+) ([\w ]+)\)$", text)]
        return "\n".join(told if "is left out" in text else told[:-1])
    if request.key.endswith("/translate"):
        there, _, wanted = re.search(r"(?m)^.*Wanted:.*$", text)[0].partition("Wanted:")                    # type: ignore[index]
        facts, goal = (re.findall(r"(\w) is on (the table|\w)", part) for part in (there, wanted))
        blocks, below = [above for above, _ in facts], [under for _, under in facts]
        init = [f"(on-table {a})" if b == "the table" else f"(on {a} {b})" for a, b in facts]
        init += [f"(clear {one})" for one in blocks if one not in below]
        return f"""=== file: problem.pddl ===
(define (problem wish) (:domain blocks)
  (:objects {' '.join(blocks)})
  (:init (hand-empty) {' '.join(init)})
  (:goal (and {' '.join(f'(on {a} {b})' for a, b in goal)})))
=== end ===
"""
    return {"objects": re.findall(r"\w+", re.search(r"\(:objects (.*)\)", text)[1]),                          # type: ignore[index]
            "actions": re.findall(r"\((?:pick-up|put-down|stack|unstack)[ \w]*\)", text.partition("\nThe plan, ")[2])}


_TOLD = {"pick-up": "Pick up block {} from the table.", "put-down": "Put block {} down on the table.",
         "stack": "Stack block {} onto block {}.", "unstack": "Unstack block {} from block {}."}


def summarist(request: ModelRequest) -> Any:
    """`chain_of_hindsight`: writes one word fewer than the best that it is shown; who rates likes it short."""
    text = said(request)
    if request.step == "rate":
        words = re.search(r"(?m)^(?:word ?)+$", text)[0].split()                                             # type: ignore[index]
        return {"mark": 10 - len(words), "why": f"{len(words)} words"}
    shown = re.findall(r'<output rating="\d+">\n(.*)\n</output>', text)
    return " ".join(["word"] * (len(shown[-1].split()) - 1 if shown else 5))


def villager(request: ModelRequest) -> Any:
    """`generative_agents`: weighs a day by its hours, comes to see what several days had in common, and answers by that alone."""
    told, topics = str(request.messages[-1]["content"]), ("research", "party", "figs")
    if request.key.endswith("/importance"):
        hours = re.search(r"for (\d+) hours", told)
        return {"importance": int(hours[1]) if hours else 1}
    if request.key.endswith("/reflect/questions"):
        name = re.findall(r"You are (\w+)", str(request.messages[0]["content"]))[-1]
        return {"questions": [f"What does {name} care about?", f"What did {name} do?", f"Whom does {name} know?"]}
    if "/reflect/insights." in request.key:
        memories = re.findall(r"<memory number=\"\d+\">\n(.*?)\n</memory>", told, re.DOTALL)
        places = {topic: [place for place, memory in enumerate(memories, 1) if memory.startswith("Day") and topic in memory]
                  for topic in topics}
        most = max(topics, key=lambda topic: len(places[topic]))
        return {"insights": [{"insight": f"One cares about {most} most", "because": places[most] or [1], "importance": 9}]}
    if request.step == "ask":
        seen = re.search(r"cares about (\w+)", said(request))
        return seen[1] if seen else "nothing"
    return {"did": re.findall(r"You (?:read on|ate|wrote on|planned|bought)[^.]*\.", told)[-1], "said": "Good morning."}
