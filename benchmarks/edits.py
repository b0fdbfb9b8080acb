# ruff: noqa: E501
"""Edits that do not fit to the letter: real changes from this project's history, each drifted as models' answers drift.

    python -m benchmarks.edits                 # a table; some seconds
    python -m benchmarks.edits --most 200      # fewer drifts
    python -m benchmarks.edits --aider FOLDER  # beside it the same edits by Aider's applier, of `pip install --no-deps --target FOLDER aider-chat`

Each change becomes an edit of the file before it, with three lines around it, and is drifted in one way, on its file as it stood. Where the
place is clear the edit has to come out as the change did, white space apart, with all other lines untouched. Where it was taken
away, or stands there twice, nothing may be changed.
"""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import random
import re
import subprocess
import sys
import time
import types
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from metaflow_agents.code.edits import Edit, Hints, edited

REPOSITORY = Path(__file__).parent.parent
FILES = ("*.py", "*.md", "*.yaml", "*.j2")
AROUND = 3


@dataclass(frozen=True)
class Case:
    """A file, an edit of it, and the file afterwards; None where the edit may change nothing."""

    before: str
    edit: Edit
    after: str | None


def changes(most: int, rng: random.Random) -> Iterator[Case]:
    """Changes of the history: single blocks of lines, told with the lines around them."""
    told = subprocess.run(["git", "log", "--no-merges", "--diff-filter=M", "--format=%H", "--", *FILES], cwd=REPOSITORY,
                          capture_output=True, text=True, check=True).stdout.split()
    rng.shuffle(told)
    made = 0
    for commit in told:
        names = _git("diff", "--name-only", "--diff-filter=M", f"{commit}~", commit, "--", *FILES).splitlines()
        for name in names[:4]:
            before, after = _git("show", f"{commit}~:{name}").split("\n"), _git("show", f"{commit}:{name}").split("\n")
            if len(before) > 3000:
                continue
            blocks = [code for code in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes() if code[0] != "equal"]
            for _, one, two, three, four in rng.sample(blocks, min(3, len(blocks))):
                first, last = max(0, one - AROUND), min(len(before), two + AROUND)
                edit = Edit(tuple(before[first:last]), tuple(before[first:one] + after[three:four] + before[two:last]))
                text = "\n".join(before)
                if text.count("\n".join(edit.search)) == 1 and two - one < 40 and any(line.strip() for line in edit.search):
                    yield Case(text, edit, "\n".join(before[:one] + after[three:four] + before[two:]))
                    made += 1
                    if made >= most:
                        return


def _git(*argv: str) -> str:
    return subprocess.run(["git", *argv], cwd=REPOSITORY, capture_output=True, check=True).stdout.decode(errors="replace")


def _both(edit: Edit, change: Callable[[str], str]) -> Edit:
    return Edit(tuple(map(change, edit.search)), tuple(map(change, edit.replace)))


def _kept(edit: Edit) -> list[int]:
    """Lines inside SEARCH that the edit keeps, with text and neighbours on both sides that it keeps too."""
    return [at for at in range(1, len(edit.search) - 1) if edit.search[at].strip() and edit.replace.count(edit.search[at]) == 1
            and edit.search.count(edit.search[at]) == 1]


def behind(case: Case, rng: random.Random) -> Case | None:
    """White space at the ends of lines."""
    return Case(case.before, _both(case.edit, lambda line: line + " " * rng.choice((0, 0, 1, 2))), case.after)


def empty_around(case: Case, rng: random.Random) -> Case | None:
    """Empty lines before and behind."""
    return Case(case.before, Edit(("", *case.edit.search, "", ""), ("", *case.edit.replace, "", "")), case.after)


def shifted(case: Case, rng: random.Random) -> Case | None:
    """The indentation that all lines share, left out."""
    wide = min(len(line) - len(line.lstrip(" ")) for line in (*case.edit.search, *case.edit.replace) if line.strip())
    return Case(case.before, _both(case.edit, lambda line: line[wide:]), case.after) if wide else None


def deeper(case: Case, rng: random.Random) -> Case | None:
    """Four spaces more before each line."""
    return Case(case.before, _both(case.edit, lambda line: "    " + line if line.strip() else line), case.after)


def tabs(case: Case, rng: random.Random) -> Case | None:
    """A tab for four spaces."""
    def change(line: str) -> str:
        wide = len(line) - len(line.lstrip(" "))
        return "\t" * (wide // 4) + " " * (wide % 4) + line[wide:]
    return Case(case.before, _both(case.edit, change), case.after) if any(line.startswith("    ") for line in case.edit.search) else None


def two_spaces(case: Case, rng: random.Random) -> Case | None:
    """Two spaces for four."""
    def change(line: str) -> str:
        wide = len(line) - len(line.lstrip(" "))
        return " " * (wide // 2) + line[wide:]
    lines = [line for line in (*case.edit.search, *case.edit.replace) if line.strip()]
    if any((len(line) - len(line.lstrip(" "))) % 4 for line in lines) or not any(line.startswith("    ") for line in lines):
        return None
    return Case(case.before, _both(case.edit, change), case.after)


def first_stripped(case: Case, rng: random.Random) -> Case | None:
    """The text of SEARCH and REPLACE stripped."""
    search, replace = ("\n".join(lines).strip() for lines in (case.edit.search, case.edit.replace))
    if not search or search == replace:
        return None
    return Case(case.before, Edit(tuple(search.split("\n")), tuple(replace.split("\n"))), case.after)


def empty_lost(case: Case, rng: random.Random) -> Case | None:
    """No empty line inside, where the edit adds and removes none."""
    empty = [sum(not line.strip() for line in lines) for lines in (case.edit.search, case.edit.replace)]
    if not empty[0] or empty[0] != empty[1]:
        return None
    lines = (tuple(line for line in lines if line.strip()) for lines in (case.edit.search, case.edit.replace))
    return Case(case.before, Edit(*lines), case.after)


def spaced(case: Case, rng: random.Random) -> Case | None:
    """White space inside of lines left out around signs."""
    return Case(case.before, _both(case.edit, lambda line: re.sub(r"(?<=\S) ([=+,(]) ?", r"\1", line)), case.after)


def typographic(case: Case, rng: random.Random) -> Case | None:
    """Typographic quotation marks, where the file has none."""
    if not any("'" in line or '"' in line for line in case.edit.search) or re.search("[“”‘’]", case.before + (case.after or "")):
        return None
    return Case(case.before, _both(case.edit, lambda line: re.sub('"(?=\\w)', "“", line).replace('"', "”").replace("'", "’")), case.after)


def carriage(case: Case, rng: random.Random) -> Case | None:
    """A file with the line ends of Windows, and white space behind the edit's lines."""
    after = None if case.after is None else case.after.replace("\n", "\r\n")
    return Case(case.before.replace("\n", "\r\n"), _both(case.edit, lambda line: line + " "), after)


def misremembered(case: Case, rng: random.Random) -> Case | None:
    """A word of a line that stays, another one."""
    choices = [at for at in _kept(case.edit) if len(re.findall(r"\w{4,}", case.edit.search[at])) >= 3]
    if not choices or sum(bool(line.strip()) for line in case.edit.search) < 4:
        return None
    old = case.edit.search[rng.choice(choices)]
    word = rng.choice(re.findall(r"\w{4,}", old))
    new = old.replace(word, word[:2] + "x" + word[3:], 1)
    return Case(case.before, _both(case.edit, lambda line: new if line == old else line), case.after)


def line_lost(case: Case, rng: random.Random) -> Case | None:
    """A line that stays, between lines that stay, forgotten."""
    edit = case.edit
    choices = [at for at in _kept(edit) if at - 1 in (0, *_kept(edit)) and at + 1 in (*_kept(edit), len(edit.search) - 1)
               and edit.search[at - 1:at + 2] in [edit.replace[n:n + 3] for n in range(len(edit.replace) - 2)]]
    if not choices or sum(bool(line.strip()) for line in edit.search) < 5:
        return None
    old = edit.search[rng.choice(choices)]
    return Case(case.before, Edit(tuple(line for line in edit.search if line != old), tuple(line for line in edit.replace if line != old)),
                case.after)


def part(case: Case, rng: random.Random) -> Case | None:
    """Only the part of a line that changes, where it stands in the file once."""
    inner = case.edit.search[AROUND:-AROUND], case.edit.replace[AROUND:-AROUND]
    around = ((lines[:AROUND], lines[-AROUND:]) for lines in (case.edit.search, case.edit.replace))
    if len(inner[0]) != 1 or len(inner[1]) != 1 or next(around) != next(around):      # at an end of the file there is less around
        return None
    words, new = (re.findall(r"\w+|\W", line) for line in (inner[0][0], inner[1][0]))
    head = next((n for n, (a, b) in enumerate(zip(words, new, strict=False)) if a != b), 0)
    tail = next((n for n, (a, b) in enumerate(zip(words[::-1], new[::-1], strict=False)) if a != b), 0)
    head, tail = max(0, head - 4), max(0, tail - 4)
    search, replace = "".join(words[head:len(words) - tail]), "".join(new[head:len(new) - tail])
    if not search.strip() or case.before.count(search) != 1 or len(re.findall(r"\w", search)) < 3 or search == inner[0][0]:
        return None
    return Case(case.before, Edit((search,), (replace,)), case.after)


def stale(case: Case, rng: random.Random) -> Case | None:
    """The place is not in the file any more."""
    search = "\n".join(case.edit.search)
    if sum(bool(line.strip()) for line in case.edit.search) < 2:
        return None
    return Case(case.before.replace(search + "\n", "") if search + "\n" in case.before else case.before.replace(search, ""), case.edit, None)


def twice(case: Case, rng: random.Random) -> Case | None:
    """The place is there twice, and the edit is drifted."""
    search = "\n".join(case.edit.search)
    return Case(case.before + "\n" + search + "\n", _both(case.edit, lambda line: line + " "), None)


DRIFTS: tuple[Callable[[Case, random.Random], Case | None], ...] = (
    behind, empty_around, shifted, deeper, tabs, two_spaces, first_stripped, empty_lost, spaced, typographic, carriage, misremembered,
    line_lost, part, stale, twice)


def judged(case: Case, text: str | None) -> str:
    """`right`, `missed` or `wrong`; `text` is the file afterwards, None where the edit was refused."""
    if text is None:
        return "missed" if case.after is not None else "right"
    if case.after is None:
        return "wrong"
    return "right" if _bare(text) == _bare(case.after) and ("\r\n" in text) == ("\r\n" in case.after) else "wrong"


def _bare(text: str) -> list[str]:
    signs = str.maketrans("“”‘’", "\"\"''")
    return [bare for line in text.translate(signs).split("\n") if (bare := "".join(line.split()))]


def ours(case: Case) -> str | None:
    """What this package makes of it."""
    done = edited(case.before, [case.edit], Hints(0))
    return None if done.faults else done.text


def aiders(folder: Path) -> Callable[[Case], str | None]:
    """What Aider (https://aider.chat) makes of a block of SEARCH and REPLACE, by its own `do_replace`.

    Its module is loaded alone, since what stands around it there asks models. It reads and writes files with their own line ends, and its blocks have those of
    Unix, so a file of Windows is handed to it and taken from it as it does that.
    """
    place = folder / "aider" / "coders" / "editblock_coder.py"
    aider, coders = types.ModuleType("aider"), types.ModuleType("aider.coders")
    around: dict[str, dict[str, object]] = {"aider.utils": {}, "aider.dump": {"dump": None}, "aider.coders.base_coder": {"Coder": object},
              "aider.coders.editblock_prompts": {"EditBlockPrompts": object}}
    for name, held in around.items():
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(held)
    vars(aider).update(utils=sys.modules["aider.utils"], __path__=[])
    vars(coders).update(__path__=[])
    sys.modules |= {"aider": aider, "aider.coders": coders}
    spec = importlib.util.spec_from_file_location("aider.coders.editblock_coder", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def applied(case: Case) -> str | None:
        windows = "\r\n" in case.before
        search, replace = ("".join(f"{line}\n" for line in lines) for lines in (case.edit.search, case.edit.replace))
        made: str | None = module.do_replace(__file__, case.before.replace("\r\n", "\n"), search, replace, ("```", "```"))
        return None if made is None else made.replace("\n", "\r\n") if windows else made

    return applied


def table(told: Counter[tuple[str, str]]) -> None:
    """A row a drift, and what it comes to."""
    print("| drift | right | missed | wrong |\n| --- | --- | --- | --- |")
    for drift in DRIFTS:
        name = drift.__name__
        print(f"| {(drift.__doc__ or '').strip('.').lower()} | {told[name, 'right']} | {told[name, 'missed']} | {told[name, 'wrong']} |")
    clear = [drift.__name__ for drift in DRIFTS if drift not in (stale, twice)]
    right = sum(told[name, "right"] for name in clear)
    total = sum(told[name, verdict] for name in clear for verdict in ("right", "missed", "wrong"))
    print(f"\nclear places: {right} of {total} ({right / max(1, total):.1%}); wrong: {sum(count for (_, one), count in told.items() if one == 'wrong')}\n")


def main() -> int:
    """The tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=int, default=2000, help="how many drifts")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--wrong", action="store_true", help="print what went wrong")
    parser.add_argument("--aider", type=Path, metavar="FOLDER", help="where aider-chat lies: its applier's table, too")
    given = parser.parse_args()
    other = aiders(given.aider) if given.aider else None
    theirs = Counter[tuple[str, str]]()
    rng = random.Random(given.seed)
    told, exact, took, shown = Counter[tuple[str, str]](), 0, 0.0, 0
    made = 0
    for case in changes(given.most, rng):
        for drift in rng.sample(DRIFTS, len(DRIFTS)):
            drifted = drift(case, rng)
            if drifted is None or made >= given.most:
                continue
            started = time.perf_counter()
            text = ours(drifted)
            took += time.perf_counter() - started
            verdict = judged(drifted, text)
            told[drift.__name__, verdict] += 1
            exact += text == drifted.after and text is not None
            made += 1
            if other is not None:
                theirs[drift.__name__, judged(drifted, other(drifted))] += 1
            if given.wrong and verdict != "right" and shown < 40:
                shown += 1
                print(f"--- {drift.__name__} {verdict}\n" + "\n".join(drifted.edit.search) + "\n=======\n" + "\n".join(drifted.edit.replace))
                if text is not None and drifted.after is not None:
                    print("\n".join(difflib.unified_diff(drifted.after.split("\n"), text.split("\n"), "after", "made", lineterm="", n=1)))
        if made >= given.most:
            break
    print(f"seed {given.seed}: {made} drifts; {exact} to the byte; {took / max(1, made) * 1000:.2f} ms each\n")
    table(told)
    if other is not None:
        print("Aider's applier, on the same edits:\n")
        table(theirs)
    return 0 if not any(verdict == "wrong" and count for (_, verdict), count in told.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
