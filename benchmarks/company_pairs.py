"""The company's product beside what one prompt wrote in one go: which does somebody keep who sees both and not their origin?

    python -m benchmarks.company_pairs one @idea.txt        # the one prompt, on standard output; give it to the same model
    python -m benchmarks.company_pairs lay FOLDER --name NAME --idea @idea.txt --run workspace/RUN --one answer.md
    python -m benchmarks.company_pairs take FOLDER --by WHO         # FOLDER/desk/verdict.json → benchmarks/pairs/NAME.1.json
    python -m benchmarks.company_pairs                              # what all kept verdicts come to

`lay` makes FOLDER/desk: `request.md` and the directories `first` and `second`, in an order by chance, without what shows where
they come from (git, documents about the making). Who judges gets `desk` and nothing else; which is which stands beside it, in
`which.json`. Tokens: the company's as its journal counts them, the other's as bytes / 4, as for answers by hand.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from metaflow_agents.agent.blocks import read_blocks
from metaflow_agents.journal.journal import Journal
from metaflow_agents.schema.event import Settled

KEPT = Path(__file__).parent / "pairs"
SIDES = ("first", "second")
LEFT_OUT = (".git", "docs", "__pycache__", "*.egg-info", ".pytest_cache")
"""`docs` of the company tell how it was made; a product that needs them is the poorer for it, on both sides."""
ONE = """\
Write a complete Python repository (or, where it is a web page, HTML, CSS and JavaScript) for this idea:

{idea}

It is installed with `pip install .` where it is Python, has a README that says how to use it, and tests. Give each file whole, as

=== file: path/of/file ===
its text
=== end ===

and nothing else.
"""
REQUEST = """\
Somebody asked for this:

{idea}

Two engineers each delivered a repository: `first/` and `second/`, beside this file. You know nothing of them. Say which one you
would merge and maintain.

Do, for each, in a copy of your own (the directories stay as they are):

1. Install it in a fresh environment, start it as its README says, run its tests.
2. Use it for half an hour as the person would who asked: at least five jobs, with real input that you make up from what such
   people have, and at least five mistakes (wrong files, empty ones, wrong words, values at a limit). Work two results through.
3. Look at what people see: the terminal or the pages (as pictures, at two widths, where you can).
4. Attack it: names and texts with markup, paths with `..`, another site's requests, a kill in the middle, a large input.
5. Change ten lines of each, one after the other, so that they do something else (a comparison, a sum, a default, a missing
   call), and count how many of these its own tests notice.

Then write `verdict.json` beside this file:

    {{"kept": "first" or "second", "certainty": 50 to 100,
     "minutes_to_merge": {{"first": …, "second": …}},    (until you would merge it: your own work on what is wrong with it)
     "noticed": {{"first": …, "second": …}},             (of ten changes, how many its tests notice)
     "starts": {{"first": true or false, "second": …}},  (it installs, starts as its README says, and its tests pass)
     "decisive": ["a difference that decided, with what you saw", …],
     "faults": {{"first": ["…"], "second": ["…"]}}}}
"""


class Verdict(BaseModel):
    """What somebody says who saw two directories."""

    model_config = ConfigDict(extra="forbid")
    kept: str = Field(pattern="^(first|second)$")
    certainty: int = Field(ge=50, le=100)
    minutes_to_merge: dict[str, int]
    noticed: dict[str, int]
    starts: dict[str, bool]
    decisive: list[str] = Field(min_length=1)
    faults: dict[str, list[str]]


def lay(folder: Path, name: str, idea: str, run: Path, answer: str, seed: int | None = None) -> None:
    """Lays out what is judged. `run`: the folder of the company's run; its journal lies beside it. Raises ValueError."""
    blocks, faults = read_blocks(answer)
    if faults:
        raise ValueError("the one answer is not in form: " + "; ".join(faults[:5]))
    sides = list(SIDES)
    random.Random(seed).shuffle(sides)
    company, one = sides
    desk = folder / "desk"
    shutil.copytree(run, desk / company, ignore=shutil.ignore_patterns(*LEFT_OUT))
    for block in blocks:
        place = desk / one / block.path
        if not place.resolve().is_relative_to((desk / one).resolve()):
            raise ValueError(f"the one answer leaves its folder: {block.path}")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(block.text, encoding="utf-8")
    (desk / "request.md").write_text(REQUEST.format(idea=idea), encoding="utf-8")
    with Journal.read(run.parent / ".journals" / f"{run.name}.db") as journal:
        spent = sum(event.tokens_in + event.tokens_out for _, event in journal.events(Settled))
    told = {"name": name, "idea": idea, "company": company, "tokens": {
        "company": spent, "one": len((ONE.format(idea=idea) + answer).encode()) // 4}}
    (folder / "which.json").write_text(json.dumps(told, indent=1), encoding="utf-8")


def take(folder: Path, by: str, kept: Path = KEPT) -> dict[str, Any]:
    """A verdict with what it is about, named by origin; it is kept as data. Raises ValidationError, FileExistsError."""
    which = json.loads((folder / "which.json").read_text(encoding="utf-8"))
    verdict = Verdict.model_validate_json((folder / "desk/verdict.json").read_text(encoding="utf-8"))
    origin = {which["company"]: "company", SIDES[which["company"] == "first"]: "one"}
    told = {"name": which["name"], "idea": which["idea"], "by": by, "tokens": which["tokens"], "certainty": verdict.certainty,
            "kept": origin[verdict.kept], "decisive": verdict.decisive, "company was": which["company"],
            **{field: {origin[side]: value for side, value in getattr(verdict, field).items()}
               for field in ("minutes_to_merge", "noticed", "starts", "faults")}}
    kept.mkdir(exist_ok=True)
    number = len(list(kept.glob(f"{which['name']}.*.json"))) + 1
    with (kept / f"{which['name']}.{number}.json").open("x", encoding="utf-8") as file:
        json.dump(told, file, indent=1, ensure_ascii=False)
    return told


def table(kept: Path = KEPT) -> str:
    """All verdicts, a line each, and what they come to."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(kept.glob("*.json"))]
    lines = [f"{'idea':34}{'kept':>10}{'sure':>6}{'minutes':>12}{'noticed':>10}{'tokens':>20}   company beside one prompt"]
    for one in found:
        minutes, noticed, tokens = one["minutes_to_merge"], one["noticed"], one["tokens"]
        lines.append(f"{one['name']:34}{one['kept']:>10}{one['certainty']:>5}%{minutes['company']:>6}/{minutes['one']:<5}"
                     f"{noticed['company']:>6}/{noticed['one']:<3}{tokens['company']:>11,}/{tokens['one']:<8,}")
    won = sum(one["kept"] == "company" for one in found)
    return "\n".join([*lines, f"the company's is kept {won} times of {len(found)}"])


def text(given: str) -> str:
    """`@FILE` is the text of that file."""
    return Path(given[1:]).read_text(encoding="utf-8") if given.startswith("@") else given


def main(argv: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.company_pairs", description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("one").add_argument("idea")
    laid = commands.add_parser("lay")
    laid.add_argument("folder", type=Path)
    for option in ("--name", "--idea", "--run", "--one"):
        laid.add_argument(option, required=True)
    taken = commands.add_parser("take")
    taken.add_argument("folder", type=Path)
    taken.add_argument("--by", required=True)
    given = parser.parse_args(argv)
    try:
        if given.command == "one":
            print(ONE.format(idea=text(given.idea).strip()), end="")
        elif given.command == "lay":
            lay(given.folder, given.name, text(given.idea).strip(), Path(given.run), Path(given.one).read_text(encoding="utf-8"))
            print(f"{given.folder / 'desk'}: give it to somebody who knows nothing of this, with `Read request.md.`")
        elif given.command == "take":
            print(json.dumps(take(given.folder, given.by), indent=1, ensure_ascii=False))
        else:
            print(table())
    except (OSError, ValueError, ValidationError) as error:
        print(f"company_pairs: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
