"""A search over many tools: what a role is given in place of them all.

BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009) over a tool's name, its description,
and the names and descriptions of its parameters. Names are split into their words (`searchIssues`, `search_issues`), words lose
their endings, and the name counts as if it stood there three times. No model, no index on disk: a thousand tools take
milliseconds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from metaflow_agents.texts.search_words import words

TOOLS_SHOWN = 20
"""Tools that a role is shown as they are; with more of them it gets the search."""

_SATURATION, _LENGTH, _NAME = 1.5, 0.75, 3         # BM25's k1 and b; the weight of a word of the name
_MOST_TEXT = 20_000                                # characters of a description that count
_MOST_PARAMETERS = 300


class ToolIndex:
    """Finds tools by what they are for. `told`: each as a model is told of it: `name`, `description`, `parameters`."""

    def __init__(self, told: Iterable[Mapping[str, Any]]) -> None:
        tools = {str(tool["name"]): tool for tool in told}
        self._names = list(tools)
        self._descriptions = {name: str(tool.get("description") or "") for name, tool in tools.items()}
        counts = [_counted(tool) for tool in tools.values()]
        lengths = [sum(count.values()) for count in counts]
        usual = (sum(lengths) / len(lengths) if lengths else 0) or 1
        shared = Counter(word for count in counts for word in count)
        self._weights: dict[str, list[tuple[int, float]]] = {}          # word → (place of the tool, what it adds)
        for place, (count, length) in enumerate(zip(counts, lengths, strict=True)):
            longer = _SATURATION * (1 - _LENGTH + _LENGTH * length / usual)
            for word, times in count.items():
                rare = math.log(1 + (len(counts) - shared[word] + 0.5) / (shared[word] + 0.5))
                self._weights.setdefault(word, []).append((place, rare * times * (_SATURATION + 1) / (times + longer)))

    def __len__(self) -> int:
        return len(self._names)

    def search(self, query: str, top: int = 5) -> list[str]:
        """Names of the tools nearest to what is asked for, best first, `top` at most; those alone that share a word with it.

        Equally near ones come in the order in which they were told.
        """
        scores: Counter[int] = Counter()
        for word in dict.fromkeys(words(query[:_MOST_TEXT])):
            for place, weight in self._weights.get(word, ()):
                scores[place] += weight  # type: ignore[assignment]
        return [self._names[place] for place in sorted(scores, key=lambda place: (-scores[place], place))[:top]]

    def description(self, name: str) -> str:
        """The first line of what a tool is for. Raises KeyError."""
        return self._descriptions[name].strip().partition("\n")[0]


def _counted(tool: Mapping[str, Any]) -> Counter[str]:
    count: Counter[str] = Counter()
    for word in words(str(tool["name"])):
        count[word] += _NAME
    count.update(words(str(tool.get("description") or "")[:_MOST_TEXT]))
    schema = tool.get("parameters")
    for text in _texts(schema if isinstance(schema, Mapping) else {}):
        count.update(words(text[:_MOST_TEXT]))
    return count


def _texts(schema: Mapping[str, Any]) -> Iterator[str]:
    """Names and descriptions of the parameters; what lies deeper inside of them seldom says what a tool is for."""
    properties = schema.get("properties")
    listed: Sequence[tuple[Any, Any]] = list(properties.items())[:_MOST_PARAMETERS] if isinstance(properties, Mapping) else []
    for name, part in listed:
        yield str(name)
        if isinstance(part, Mapping) and isinstance(part.get("description"), str):
            yield part["description"]
