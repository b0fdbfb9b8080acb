"""Which files of a repository matter for a request: its words, and who uses what the files define.

Two scores are added. The first is BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009)
over the words of a file; those of the names that it defines count more often, and those of its own name stand beside them. The
second is PageRank (Page, Brin, Motwani and Winograd, 1999), personalised by the first: a file hands its weight on to the files
whose names it uses.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

import networkx as nx

from metaflow_agents.code.map.reading import Parts
from metaflow_agents.texts.search_words import words

# What these are was chosen on half of 117 commits of this project, and measured on others: `python -m benchmarks.repo_map`.
_SATURATION, _LENGTH = 2.5, 0.75    # BM25's k1 and b
_NAMED = 8.0                        # how often a word of a name that the file defines counts
_FILE = 1.5                         # what a word of the file's own name adds, of its rarity
_DAMPING = 0.5                      # of the weight of a file that is handed on
_SHARE = 0.1                        # of PageRank in the whole
_MENTIONED = 1.0                    # what a path or a name that stands in the request adds, of the best score
_DEFINERS = 5                       # a name that more files define says nothing about whose it is
_MOST_ARROWS = 30                   # from a file, to those whose names it uses most
_MOST_REQUEST = 20_000              # characters that count
_NAME = re.compile(r"[A-Za-z_][\w]*(?:[./-]\w+)*")


def ranked(parts: Mapping[str, Parts], request: str = "", mentioned: tuple[str, ...] = ()) -> list[tuple[str, float]]:
    """(path, score) of all files, best first; of equal ones in the order of their paths. `mentioned`: paths that come first.

    Without a request the files that most others use come first.
    """
    request = request[:_MOST_REQUEST]
    relevance = _relevance(parts, request)
    best = max(relevance.values(), default=0.0) or 1.0
    for path, times in _named_in(parts, request).items():
        relevance[path] = relevance.get(path, 0.0) + times * _MENTIONED * best
    most = max(relevance.values(), default=0.0)
    rank = pagerank(graph(parts), relevance if most else {})
    highest = max(rank.values(), default=0.0) or 1.0
    share = _SHARE if most else 1.0
    scores = {path: (1 - share) * relevance.get(path, 0.0) / (most or 1.0) + share * rank.get(path, 0.0) / highest
              for path in parts}
    sure = dict.fromkeys(mentioned)
    return sorted(scores.items(), key=lambda one: (one[0] not in sure, -one[1], one[0]))


def graph(parts: Mapping[str, Parts]) -> nx.DiGraph[str]:
    """Files; an arrow to each file that defines a name which is used, with how much that says: rare names, and several, more.

    A module counts as the name of its file, so an import is a use of it.
    """
    definers: defaultdict[str, set[str]] = defaultdict(set)
    for path, found in parts.items():
        for definition in found.definitions:
            definers[definition.name].add(path)
        if found.definitions:
            definers[PurePosixPath(path).stem].add(path)
    arrows: nx.DiGraph[str] = nx.DiGraph()
    arrows.add_nodes_from(parts)
    for path, found in parts.items():
        weights: defaultdict[str, float] = defaultdict(float)
        for name, count in (found.uses or {}).items():
            owners = definers.get(name, ())
            if 0 < len(owners) <= _DEFINERS and path not in owners:
                for owner in owners:
                    weights[owner] += math.sqrt(count) / len(owners)
        strongest = heapq.nlargest(_MOST_ARROWS, weights.items(), key=lambda one: one[1])
        arrows.add_weighted_edges_from((path, owner, weight) for owner, weight in strongest)
    return arrows


def pagerank(arrows: nx.DiGraph[str], personal: Mapping[str, float]) -> dict[str, float]:
    """PageRank with damping 0.5, personalised; the sum is 1. What leads nowhere starts anew, as in `networkx.pagerank`.

    It solves `x = damping · Aᵀx + personal`, which is Katz centrality of the graph whose arrows sum to 1: networkx does that
    without SciPy, which `networkx.pagerank` wants (decision 96).
    """
    if not arrows:
        return {}
    start = {path: personal.get(path, 0.0) for path in arrows} if any(personal.values()) else dict.fromkeys(arrows, 1.0)
    whole = sum(start.values())
    beta = {path: one / whole for path, one in start.items()}
    arrows = nx.stochastic_graph(arrows)
    found = nx.katz_centrality(arrows, alpha=_DAMPING, beta=beta, normalized=False, weight="weight", tol=1e-8)
    total = sum(found.values())
    return {path: one / total for path, one in found.items()}


def _relevance(parts: Mapping[str, Parts], request: str) -> dict[str, float]:
    wanted = dict.fromkeys(words(request))
    if not wanted:
        return {}
    counts = {path: dict(_counted(path, found, wanted)) for path, found in parts.items()}
    lengths = {path: sum((found.words or {}).values()) for path, found in parts.items()}
    usual = sum(lengths.values()) / len(lengths) if lengths else 1.0
    shared: defaultdict[str, int] = defaultdict(int)
    for count in counts.values():
        for word in count:
            shared[word] += 1
    scores: dict[str, float] = {}
    for path, count in counts.items():
        longer = _SATURATION * (1 - _LENGTH + _LENGTH * lengths[path] / (usual or 1.0))
        own = set(words(PurePosixPath(path).stem))
        scores[path] = sum(math.log(1 + (len(parts) - shared[word] + 0.5) / (shared[word] + 0.5))
                           * (times * (_SATURATION + 1) / (times + longer) + _FILE * (word in own))
                           for word, times in count.items())
    return {path: score for path, score in scores.items() if score}


def _counted(path: str, found: Parts, wanted: Mapping[str, object]) -> Iterator[tuple[str, float]]:
    of_path = set(words(path))
    said = found.words or {}
    for word in wanted:
        times = said.get(word, 0) + (word in of_path) + _NAMED * (word in found.named)
        if times:
            yield word, times


def _named_in(parts: Mapping[str, Parts], request: str) -> dict[str, float]:
    """How sure the request names a file: 1 by its path, less by a name that it and few others define."""
    found: defaultdict[str, float] = defaultdict(float)
    said = set(_NAME.findall(request))
    for path in parts:
        place = PurePosixPath(path)
        if path in request:
            found[path] = 1.0
        elif place.suffix and place.name in said:
            found[path] = 0.8
    telling = {name.rpartition(".")[2] for name in said if "_" in name or "." in name or re.search(r"[a-z][A-Z]", name)}
    definers: defaultdict[str, list[str]] = defaultdict(list)
    for path, one in parts.items():
        for definition in one.definitions:
            if definition.name in telling and path not in definers[definition.name]:
                definers[definition.name].append(path)
    for owners in definers.values():
        for path in owners:
            found[path] = min(1.0, found[path] + 0.6 / len(owners))
    return found
