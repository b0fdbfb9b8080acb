"""What `benchmarks.memory` measures, in small: an index over embeddings beside exact search, and full-text search.

Malkov and Yashunin, "Efficient and Robust Approximate Nearest Neighbor Search Using Hierarchical Navigable Small World Graphs"
(2016). The whole of it, at 100,000 memories, is `python -m benchmarks.memory`.
"""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path

from benchmarks.papers.needs import NotMeasured
from benchmarks.papers.row import PaperRow

SIZE = 10_000
WANTED = ("numpy", "usearch", "faiss")


def rows(data: Path) -> list[PaperRow]:
    """Recall@10 and the time of a question. `data` is not looked at."""
    lacking = [name for name in WANTED if find_spec(name) is None]
    if lacking:
        raise NotMeasured(f"{', '.join(lacking)} not installed: pip install 'metaflow-agents[embeddings,faiss]'")
    from benchmarks.memory import Sizes, measure

    with tempfile.TemporaryDirectory() as folder:
        report, _ = measure(Path(folder), Sizes(memories=SIZE, noise=SIZE, texts=SIZE, questions=100))
    found = {row.name: row for row in report.rows}
    told = []
    for kind in ("clustered", "noise"):
        for name in ("hnsw", "faiss"):
            one, asked = found[f"{kind}, {name}: what of the 10 nearest it misses"], found[f"{kind}, {name}: a question"]
            faster = (asked.other or 0) / asked.figure
            told.append(PaperRow(
                "indexes", f"{kind} vectors, {name}: recall@10, rate of exact search, built in",
                "no figure of this kind: other data",
                f"{1 - one.figure:.3f}, {faster:.1f} times, {found[f'{kind}, {name}: built in'].figure:.0f} s",
                f"{SIZE:,} vectors of 384 dimensions; at 100,000: python -m benchmarks.memory" if kind == "clustered" else
                "on pure noise all are about as far from each other, and no graph leads anywhere: shown because it is so"))
    text, whole = found["full text: a question of 8 words"], found["a recall by words"]
    return [*told, PaperRow("indexes", "full text: built in, a question of 8 words, a whole recall", "no figure of this kind",
                            f"{found['full text: built in'].figure:.1f} s, {text.figure:.1f} ms, {whole.figure:.0f} ms",
                            f"{SIZE:,} made-up texts with word frequencies of natural language")]
