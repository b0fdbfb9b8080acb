"""What `sop check` found: problems by place, how much a run can do at most, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from metaflow_agents.errors import Problem
from metaflow_agents.sop.bounds import Bounds
from metaflow_agents.sop.check import CheckReport
from metaflow_agents.views.page import Page, safe, table
from metaflow_agents.views.wording import amount, whole_dollars

_COLOURS = {"error": "red", "warning": "yellow"}


def report_lines(report: CheckReport, page: Page) -> list[str]:
    """The whole report of one file."""
    lines = problem_lines(report.errors, page)
    lines += problem_lines(report.warnings, page)
    if report.bounds is not None:
        lines += [*bounds_lines(report.bounds, page), ""]
    if report.functions:
        files = [[safe(name), safe(file)] for name, file in report.functions.items()]
        lines += [*table(files, page, headings=("Python", "is in the file")), ""]
    if report.unfollowed:
        lines += ["`--from` does not notice changes in:"]
        lines += [line for one in report.unfollowed for line in page.wrapped(safe(one), "  ", "    ")]
        lines.append("")
    return [*lines, *verdict_lines(report, page)]


def problem_lines(problems: Sequence[Problem], page: Page) -> list[str]:
    """Problems under their places, each with its mend; an empty line after each place."""
    lines: list[str] = []
    for place, found in groupby(problems, key=lambda problem: problem.place):
        lines.append(page.paint(safe(place), "bold"))
        for problem in found:
            word = page.paint(problem.severity, _COLOURS[problem.severity])
            lead = "  " + problem.severity + " "
            told = page.wrapped(f"{safe(problem.message, lines=True)} [{problem.code}]", lead, " " * len(lead))
            lines.append(told[0].replace(lead, f"  {word} ", 1))
            lines += told[1:]
            if problem.mend:
                mend = " " * len(lead) + "fix: "
                lines += page.wrapped(safe(problem.mend, lines=True), mend)
        lines.append("")
    return lines


def bounds_lines(bounds: Bounds, page: Page) -> list[str]:
    """A line a step: how often it fires, how many activations a firing has, how many calls a model gets."""
    rows = [[name, str(bound.firings), str(bound.activations), "-" if bound.calls == 0 else str(bound.calls or "?"),
             "-" if bound.calls == 0 else "?" if bound.total_calls is None else f"{bound.total_calls:,}"]
            for name, bound in bounds.steps.items()]
    return table(rows, page, headings=("at most, in a run", "firings", "activations each", "calls each", "calls in all"),
                 right=(1, 3, 4))


def verdict_lines(report: CheckReport, page: Page) -> list[str]:
    """The last line: whether the SOP may run."""
    counts = [amount(len(found), noun) for found, noun in ((report.errors, "error"), (report.warnings, "warning")) if found]
    word = "ok" if report.ok else ", ".join(counts)
    warned = f" with {counts[0]}" if report.ok and counts else ""
    first, *rest = page.wrapped(f"{report.file}: {word}{warned}{_most(report)}", "", "  ")
    return [first.replace(f": {word}", f": {page.paint(word, 'green' if report.ok else 'red', 'bold')}", 1), *rest]


def _most(report: CheckReport) -> str:
    if report.bounds is None:
        return ""
    calls, usd = report.bounds.calls, report.bounds.usd
    cost = "" if usd is None or calls == 0 else f", at most {whole_dollars(usd)}"
    if calls is None:
        return f"; how many model calls a run makes depends on its lists{cost}"
    return f"; at most {amount(calls, 'model call')}{cost}" if calls else "; no model call"
