"""Generative Agents (Park et al., UIST 2023): which memories come to mind, against ranks that were computed by hand."""

from __future__ import annotations

from pathlib import Path

from benchmarks.papers.row import PaperRow
from metaflow_agents.memory.scope import Scope
from metaflow_agents.memory.scoring import Weights, best
from metaflow_agents.memory.store import MemoryDatabase, StoredMemory

DAY = (("The kitchen was cleaned.", 1), ("Klaus broke his promise to Maria.", 9), ("It rains.", 2),
       ("Maria talked about a party on Friday.", 6), ("Breakfast was eaten.", 1))
"""A day of one character, oldest first, with importances."""
# Recency with decay ½, oldest first: 1/16 … 1, brought to 0 … 1: 0, 1/15, 3/15, 7/15, 1. Importance: 0, 1, 1/8, 5/8, 0.
# Relevance to "party": only the fourth holds the word: 1, the others 0. So all three together give:
BY_HAND = {1: 0.0, 2: 1 / 15 + 1, 3: 3 / 15 + 1 / 8, 4: 7 / 15 + 5 / 8 + 1, 5: 1.0}
RANKS = {(1.0, 0.0, 0.0): [5, 4, 3, 2, 1], (0.0, 1.0, 0.0): [2, 4, 3, 5, 1], (0.0, 0.0, 1.0): [4, 5, 3, 2, 1],
         (1.0, 1.0, 1.0): [4, 2, 5, 3, 1]}
"""Weights of recency, importance and relevance → the ranks; of equal ones the newer first."""


def ranked(weights: tuple[float, float, float]) -> dict[int, float]:
    """Memory → score, best first, by way of the store."""
    store = MemoryDatabase(None)
    store.keep([StoredMemory(f"k{place}", "turn", "day", "day-1", "klaus", f"live@{place}~0", float(place), text, importance)
                for place, (text, importance) in enumerate(DAY)])
    scope = Scope("klaus", "now")
    found = best(store.seen(scope), [store.matching("Is there a party?", scope, 256)], Weights(*weights, decay=0.5), 5)
    store.close()
    return {one.seq: one.score for one in found}


def rows(data: Path) -> list[PaperRow]:
    """How many of the scores and ranks are those computed by hand. `data` is not looked at."""
    scores = ranked((1.0, 1.0, 1.0))
    right = sum(abs(scores[number] - wanted) < 1e-9 for number, wanted in BY_HAND.items())
    orders = sum(list(ranked(weights)) == order for weights, order in RANKS.items())
    return [PaperRow(
        "memory", "retrieval: scores of five memories; ranks by each weight alone and by all three, as computed by hand",
        "recency, importance and relevance, each min-max normalised, weights of 1 (section 4.1)",
        f"{right} of {len(BY_HAND)}; {orders} of {len(RANKS)}",
        "decay is ½, so that it can be computed by hand, and not 0.995; relevance is BM25, not an embedding")]
