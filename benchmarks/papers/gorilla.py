"""Gorilla: `examples/classics/gorilla` on the functions of BFCL and the model cards of HuggingGPT, with documents and without.

Patil et al., "Gorilla: Large Language Model Connected with Massive APIs" (2023). All questions are items of one run, asked one
after the other, so that documents change while it is under way.
"""

from __future__ import annotations

import json
import re
import runpy
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.papers import function_calls
from benchmarks.papers.row import PaperRow
from metaflow_agents import ModelRequest, run_sync

EXAMPLE = Path(__file__).parents[2] / "examples/classics/gorilla"
KINDS = ("simple_python", "multiple")
ASKED, CHANGED = 200, 50
PARENT = """
sop: many_questions
inputs: {questions: [{id: string, text: string}], folder: string, top: integer}
artifacts: {verdicts: {each: {kind: string, name: string, file: string}}}
steps:
  each:
    sop: gorilla.yaml
    needs: [questions, folder, top]
    foreach: {in: questions, as: q, key: q.id, parallel: 1}
    inputs: {question: q.text, documents: folder, top: top}
    output: verdict
    makes: verdicts
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and the name of the function that is right."""

    id: str
    text: str
    gold: str


def questions(data: Path) -> list[Asked]:
    """Those of BFCL that want one call; of more than are asked, every so many."""
    found = []
    for kind in KINDS:
        gold = {one["id"]: next(iter(one["ground_truth"][0])) for one in _lines(data / f"bfcl/possible_answer/{kind}.jsonl")}
        found += [Asked(one["id"], one["question"][0][0]["content"], gold[one["id"]])
                  for one in _lines(data / f"bfcl/{kind}.jsonl") if one["id"] in gold]
    many = min(ASKED, len(found))
    return [found[place * len(found) // many] for place in range(many)]


def _lines(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def documents(data: Path) -> dict[str, dict[str, Any]]:
    """Name of a file → document: every function of BFCL under its first description, every model card."""
    found: dict[str, dict[str, Any]] = {}
    for question in function_calls.questions(data):
        for tool in question.tools:
            schema = tool["inputSchema"]
            found.setdefault(_file("function", tool["name"]), {
                "call": f"{tool['name']}()", "description": tool["description"], "parameters": schema.get("properties", {}),
                "required": list(schema.get("required", ()))})
    for card in _lines(data / "hugginggpt/p0_models.jsonl"):
        call = f"pipeline(task={card['task']!r}, model={card['id']!r})"
        found.setdefault(_file("card", card["id"]), {
            "call": call, "description": f"{card['task']}. {card.get('description', '')[:2_000]}",
            "parameters": {"inputs": {"type": "string"}}, "required": ["inputs"]})
    return {name: one for name, one in found.items() if _is_call(one["call"])}


def _file(kind: str, name: str) -> str:
    return f"{kind}-{re.sub(r'[^A-Za-z0-9.-]', lambda sign: f'_{ord(sign[0]):x}', name)}.json"


def _is_call(text: str) -> bool:
    try:
        compile(text, "document", "eval")
    except SyntaxError:
        return False
    return True


@contextmanager
def laid_out(found: Mapping[str, Mapping[str, Any]]) -> Iterator[Path]:
    """The example in a folder of its own, with these documents in `cards`."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(shutil.copytree(EXAMPLE, Path(temporary, "gorilla"), ignore=shutil.ignore_patterns("__pycache__")))
        (folder / "many_questions.yaml").write_text(PARENT, encoding="utf-8")
        (folder / "cards").mkdir()
        for name, one in found.items():
            (folder / "cards" / name).write_text(json.dumps(one), encoding="utf-8")
        yield folder


def asked(folder: Path, model: Callable[[ModelRequest], Any], many: Sequence[tuple[str, str]], top: int) -> dict[str, Any]:
    """Id → verdict, of questions (id, text) asked one after the other in one run. Raises RuntimeError where it fails."""
    result = run_sync(folder / "many_questions.yaml", model=model, workspace=None, inputs={
        "questions": [{"id": name, "text": text} for name, text in many], "folder": "cards", "top": top})
    if not result.ok:
        raise RuntimeError(f"the run ended as {result.outcome}: {result.reason}")
    return dict(result["verdicts"])


class Editor:
    """A model that, each time it has answered by a document, changes it, unless it has changed it before."""

    def __init__(self, writes: Callable[[ModelRequest], str], folder: Path) -> None:
        self._writes, self._folder = writes, folder
        self.answers: list[str] = []
        self._changed: set[str] = set()

    def __call__(self, request: ModelRequest) -> str:
        """The answer."""
        self.answers.append(self._writes(request))
        found = re.search(r'"file": "([^"]+)"', str(request.messages[-1]["content"]))
        if found and found[1] not in self._changed:
            self._changed.add(found[1])
            file = self._folder / "cards" / found[1]
            document = json.loads(file.read_text(encoding="utf-8"))
            document["call"] = document["call"].replace("(", "_(", 1)            # the same words to the search
            file.write_text(json.dumps(document), encoding="utf-8")
        return self.answers[-1]


def changed(folder: Path, writes: Callable[[ModelRequest], str], among: Sequence[Asked],
            found: Mapping[str, Any]) -> tuple[int, int]:
    """Questions asked twice in one run, whose document changed in between: how many, and how many second calls are the changed
    ones. `found`: the verdicts by which questions with documents of their own are chosen.
    """
    own: dict[str, Asked] = {}
    for one in among:
        own.setdefault(found[one.id]["file"], one)
    chosen = [one for file, one in own.items() if file][:CHANGED]
    editor = Editor(writes, folder)
    verdicts = asked(folder, editor, [(f"{one.id} {turn}", one.text) for one in chosen for turn in (1, 2)], 3)
    right = sum(verdicts[f"{one.id} 2"]["kind"] == "documented"
                and verdicts[f"{one.id} 2"]["name"] == f"{verdicts[f'{one.id} 1']['name']}_" for one in chosen)
    return len(chosen), right


def rows(data: Path) -> list[PaperRow]:
    """The figures, from the folder of public data."""
    among, found = questions(data), documents(data)
    writes = runpy.run_path(str(EXAMPLE / "desk.py"))["programmer"]
    with laid_out(found) as folder:
        told = []
        for top in (3, 0):
            verdicts = asked(folder, writes, [(one.id, one.text) for one in among], top)
            made_up = sum(one["kind"] == "hallucinated" for one in verdicts.values())
            right = sum(verdicts[one.id]["name"] == one.gold for one in among)
            told.append(f"{made_up} of {len(among)} made up, {right} right")
            if top:
                fetched = verdicts
        many, followed = changed(folder, writes, among, fetched)
    return [
        PaperRow("gorilla", f"names made up in {len(among)} questions of BFCL, {len(found):,} documents: with the three nearest "
                 "documents; with none", "GPT-4 without documents: 36.6 % on TorchHub, 37.2 % on HuggingFace (table 1; as "
                 "remembered, not verified)",
                 "; ".join(told), "the model writes what the first document says, and without one makes a name up of the "
                 "question's words; right is the very function that BFCL names, found among all"),
        PaperRow("gorilla", f"documents that change between two askings in one run: {many} functions get another name of the "
                 "same words",
                 "shown by an example, no figure", f"{followed} of {many} calls change with them",
                 "the index looks at its folder anew for each question"),
    ]
