"""Papers' figures beside those measured here: `python -m benchmarks.papers`.

Public data lie in the folder that SOP_TEST_DATA names, or `--data`. What can't be measured for want of data, of a package or of
a sandbox is a line that says so.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from importlib import import_module
from itertools import groupby, zip_longest
from pathlib import Path
from textwrap import wrap

from benchmarks.papers.needs import NotMeasured
from benchmarks.papers.row import PaperRow

Rows = Callable[[Path], list[PaperRow]]
TECHNIQUES = {
    "tree_of_thoughts": "Yao et al., NeurIPS 2023: GPT-4 on 100 puzzles of the game of 24 (section 4.1, table 2)",
    "self_consistency": "Wang et al., ICLR 2023: PaLM-540B on GSM8K (table 2)",
    "reflexion": "Shinn et al., NeurIPS 2023: GPT-4 on the 164 problems of HumanEval (table 1)",
    "react": "Yao et al., ICLR 2023: PaLM-540B on HotpotQA and FEVER (table 1)",
    "plan_and_execute": "Wang et al., ACL 2023 (Plan-and-Solve); Shen et al., NeurIPS 2023 (HuggingGPT); Kim et al., ICML 2024",
    "task_queue": "Nakajima, 2023 (BabyAGI), who published no figures",
    "route": "Karpas et al., 2022 (MRKL); Shen et al., NeurIPS 2023 (HuggingGPT)",
    "debate": "Du et al., ICML 2024: three gpt-3.5-turbo, two rounds, on GSM8K (table 1)",
    "hindsight": "Liu et al., ICLR 2024 (Chain of Hindsight); Laskin et al., ICLR 2023 (Algorithm Distillation)",
    "function_calls": "Patil et al., ICML 2025 (BFCL)",
    "tool_search": "Li et al., EMNLP 2023 (API-Bank)",
    "api_bank": "Li et al., EMNLP 2023 (API-Bank)",
    "gorilla": "Patil et al., 2023 (Gorilla): zero-shot and with retrieved documents (table 1)",
    "llm_p": "Liu et al., 2023 (LLM+P): the plan is told in words again (figure 1); no figure of its own",
    "chemistry": "Bran et al., 2024 (ChemCrow); Boiko et al., 2023, whose agent went along with 4 of 11 requests",
    "solver": "Liu et al., 2023 (LLM+P): GPT-4 and Fast Downward on seven domains of their own (table I)",
    "memory": "Park et al., UIST 2023 (Generative Agents, section 4)",
    "reflections": "Park et al., UIST 2023 (Generative Agents, section 4.2)",
    "indexes": "Malkov and Yashunin, 2016 (HNSW)",
}
"""Module → what it is held against, in the order of the table."""
WIDTHS = (28, 23, 32, 28)           # with what stands between them, 120 columns
HEAD = ("what", "the paper's figure", "the figure here", "what is not comparable")


def sources() -> dict[str, Rows]:
    """Module → what gives its rows. It is imported when it is asked."""
    return {name: lambda data, name=name: import_module(f"benchmarks.papers.{name}").rows(data) for name in TECHNIQUES}


def collected(data: Path | None, only: Sequence[str] = ()) -> Iterable[PaperRow]:
    """All rows, or those of some modules, as they come; one that can't be measured here says why.

    A figure that can't be measured although all it needs is there is an error, and raised.
    """
    for name, of in sources().items():
        if only and name not in only:
            continue
        began, used = time.monotonic(), _processor()
        _say(f"{name} …")
        try:
            if data is None or not data.is_dir():
                raise NotMeasured("SOP_TEST_DATA names no folder with the public data" if data is None else f"no folder {data}")
            yield from of(data)
        except NotMeasured as why:
            yield PaperRow(name, "all of it", "", "not measured", str(why))
        except FileNotFoundError as error:
            if data is None or error.filename is None or not Path(error.filename).resolve().is_relative_to(data.resolve()):
                raise
            lacking = Path(error.filename).resolve().relative_to(data.resolve())
            yield PaperRow(name, "all of it", "", "not measured", f"{lacking} is not among the public data")
        _say(f"{name}: {time.monotonic() - began:.0f} s, {_processor() - used:.0f} s of processor time without the sandbox's")


def table(rows: Iterable[PaperRow]) -> str:
    """For a screen of 120 columns: a heading for each technique, a block of lines for each figure."""
    rule = "-+-".join("-" * width for width in WIDTHS)
    told = [_line(HEAD)]
    for name, of in groupby(rows, lambda row: row.technique):
        told += [rule, f"{name}: {TECHNIQUES[name]}" if name in TECHNIQUES else name]
        for row in of:
            told += [rule, *_block((row.what, row.paper or "—", row.here, row.differs or "—"))]
    return "\n".join([*told, rule])


def _block(cells: Sequence[str]) -> list[str]:
    """The lines of one figure. A cell's own line breaks stay."""
    columns = [[part for line in cell.split("\n") for part in wrap(line, width, break_on_hyphens=False) or [""]]
               for cell, width in zip(cells, WIDTHS, strict=True)]
    return [_line(parts) for parts in zip_longest(*columns, fillvalue="")]


def _line(parts: Sequence[str]) -> str:
    return " | ".join(part.ljust(width) for part, width in zip(parts, WIDTHS, strict=True)).rstrip()


def _processor() -> float:
    """Seconds of processor time of this process; what runs in the sandbox is not its child, and not counted."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table. Exit status 0, also where something can't be measured here."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.papers", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("technique", nargs="*", help=f"only these of: {', '.join(TECHNIQUES)}")
    parser.add_argument("--data", type=Path, help="the folder of public data; by default what SOP_TEST_DATA names")
    parser.add_argument("--json", action="store_true", help="the rows as JSON instead of a table")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.technique if name not in sources()]
    if unknown:
        parser.error(f"there is no `{unknown[0]}`; there is: {', '.join(sources())}")
    named = os.environ.get("SOP_TEST_DATA")
    rows = list(collected(given.data or (Path(named) if named else None), given.technique))
    print(json.dumps([asdict(row) for row in rows], indent=1, ensure_ascii=False) if given.json else table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
