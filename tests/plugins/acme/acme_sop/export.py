"""`sop export --for acme_names`: which SOP each run was of."""

from collections import Counter
from types import SimpleNamespace


def names(journals, *, untrusted):
    lines = [{"sop": next(event for _, event in journal.events("run_opened"))["entry"]} for journal in journals]
    return SimpleNamespace(lines=lines, left_out=Counter())
