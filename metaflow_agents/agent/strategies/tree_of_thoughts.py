"""A tree of thoughts: several that go on from each, judged before any is gone on with, the best way through them answered.

Source: Yao et al., "Tree of Thoughts: Deliberate Problem Solving with Large Language Models" (NeurIPS 2023): thoughts are
sampled or proposed, states are valued or voted on, the tree is searched breadth first (its algorithm 1) or depth first with
pruning and backtracking (its algorithm 2). As in the authors' code a judgement is a word with a number, a thought's value the
sum over its samples, equal prompts are judged once, a duplicate counts 0, and the order among equals is that of generation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from math import fsum
from typing import Any

from metaflow_agents.agent.strategies.at_once import at_once
from metaflow_agents.agent.strategies.port import Messages, Said, Strategy, Thinking
from metaflow_agents.errors import AnswerInvalid, AttemptFailed
from metaflow_agents.models.port import Reply
from metaflow_agents.schema.strategies import tree_of_thoughts


@dataclass(frozen=True, slots=True)
class ThoughtNode:
    """A way from the beginning: its thoughts in order. `number` counts what was generated at its depth, `parent` is that of
    the node it goes on from. `duplicate`: the same way was generated before it.
    """

    path: tuple[str, ...] = ()
    number: int = 0
    parent: int = 0
    value: float = 0
    duplicate: bool = False

    @property
    def depth(self) -> int:
        """The number of its thoughts."""
        return len(self.path)

    @property
    def key(self) -> str:
        """The branch of what is asked about it."""
        return f"tot.d{self.depth}.n{self.number}"


def best(nodes: Iterable[ThoughtNode], breadth: int, threshold: float | None) -> list[ThoughtNode]:
    """Those that are gone on with, the most valued first; of equals the one that was generated first."""
    left = [node for node in nodes if threshold is None or node.value > threshold]
    return sorted(left, key=lambda node: node.value, reverse=True)[:breadth]


class TreeOfThoughtsStrategy(Strategy[tree_of_thoughts.TreeOfThoughts]):
    """Searches for the best way, and gives the answer that it leads to."""

    SPEC = tree_of_thoughts.TreeOfThoughts

    async def answer(self, thinking: Thinking) -> Said:
        """See `Strategy.answer`. Raises AttemptFailed where every first thought is pruned, and where no judgement of those made
        at once can be read.
        """
        async with AsyncExitStack() as opened:
            judge = thinking if self.given.judge is None \
                else await opened.enter_async_context(thinking.apart("judge", self.given.judge))
            search = _Search(thinking, judge, self.given)
            node = await (search.breadth_first() if self.given.search == "bfs" else search.depth_first())
        path = list(node.path)
        asked = thinking.compose(
            thinking.prompt("answer", path=path, output_format=thinking.output_format, dead=search.dead(node)))
        if self.given.answer == "last":
            return Said(asked, Reply(text=path[-1]))
        return await thinking.ask("turn.0", asked)


class _Search:
    """One search. Every call's branch says where in the tree it stands, whoever comes first."""

    def __init__(self, thinking: Thinking, judge: Thinking, given: tree_of_thoughts.TreeOfThoughts) -> None:
        self._thinking, self._judge, self._given = thinking, judge, given
        self._generated: dict[int, int] = {}            # depth → how many thoughts there are
        self._known: dict[str, float] = {}              # the prompt that asks for a value → the value: the state that it shows

    async def breadth_first(self) -> ThoughtNode:
        """The most valued of the last depth that has any."""
        frontier = [ThoughtNode()]
        for depth in range(1, self._given.depth + 1):
            kept = await self._gone_on(frontier, f"tot.d{depth}")
            if not kept:
                break
            frontier = kept
        return self._found(frontier[0])

    async def depth_first(self) -> ThoughtNode:
        """The first one of the full depth; else, where all are pruned or too many were opened, the best of the deepest."""
        waiting, reached = [ThoughtNode()], ThoughtNode()
        for _ in range(self._given.expansions):
            node = waiting.pop()
            kept = await self._gone_on([node], node.key)
            if kept and (kept[0].depth, kept[0].value) > (reached.depth, reached.value):
                reached = kept[0]
            if reached.depth == self._given.depth:
                break
            waiting += reversed(kept)                   # the best of them is the next, and those behind it are gone back to
            if not waiting:
                break
        return self._found(reached)

    def dead(self, node: ThoughtNode) -> bool:
        """Whether a way leads nowhere: it was not gone on with to the full depth, or all its judgements are the worst."""
        given = self._given
        return node.depth < given.depth or (
            given.evaluate == "value" and node.value <= given.samples * min(given.values.values()))

    def _found(self, node: ThoughtNode) -> ThoughtNode:
        if not node.path:
            raise AttemptFailed(f"none of the first {self._generated[1]} thoughts is valued above {self._given.threshold}, the "
                                "`threshold` of the search")
        return node

    async def _gone_on(self, nodes: Sequence[ThoughtNode], key: str) -> list[ThoughtNode]:
        """What goes on from these nodes, generated and judged at once; the best of it."""
        thoughts = await at_once(self._thoughts(node) for node in nodes)
        children: list[ThoughtNode] = []
        seen: set[tuple[str, ...]] = set()
        for node, found in zip(nodes, thoughts, strict=True):
            for thought in found:
                path = (*node.path, thought)
                number = self._generated.get(len(path), 0)
                self._generated[len(path)] = number + 1
                children.append(ThoughtNode(path, number, node.number, duplicate=path in seen))
                seen.add(path)
        judged, told = await (self._voted if self._given.evaluate == "vote" else self._valued)(children, key)
        kept = best(judged, self._given.breadth, self._given.threshold)
        await self._thinking.note(key, {
            "thoughts": [{"n": node.number, "from": node.parent, "thought": node.path[-1], "value": node.value,
                          **({"duplicate": True} if node.duplicate else {})} for node in judged],
            "selected": [node.number for node in kept], **told})
        return kept

    # -- thoughts

    async def _thoughts(self, node: ThoughtNode) -> list[str]:
        given = self._given
        more = {"path": list(node.path), "thought": given.thought, "depth": given.depth}
        if given.generate == "sample":
            asked = self._thinking.compose(self._thinking.prompt("sample", **more))
            return await at_once(self._sample(f"{node.key}.sample.s{number}", asked) for number in range(given.thoughts))
        asked = self._thinking.compose(self._thinking.prompt("propose", thoughts=given.thoughts, **more))
        # There is always a first thought; a way that has begun may lead nowhere.
        found: dict[str, list[str]] = await self._thinking.typed(f"{node.key}.propose", asked, {"thoughts": {
            "type": "array", "items": {"type": "string"}, "minItems": 0 if node.path else 1, "maxItems": given.thoughts}},
            temperature=given.temperature)
        return found["thoughts"]

    async def _sample(self, branch: str, asked: Messages) -> str:
        said = await self._thinking.ask(branch, asked, structured=False, temperature=self._given.temperature)
        return said.reply.said.strip()

    # -- judgements

    async def _valued(self, nodes: Sequence[ThoughtNode], key: str) -> tuple[list[ThoughtNode], dict[str, Any]]:
        """Each judged alone, all at once; what is told of it. What the same prompt would ask for is known."""
        words = sorted(self._given.values, key=self._given.values.__getitem__, reverse=True)
        prompts = {node: self._judge.prompt("value", path=list(node.path), thought=self._given.thought, depth=self._given.depth,
                                            words=words)
                   for node in nodes if not node.duplicate and not self._decided(node)}
        asked: dict[str, ThoughtNode] = {}
        for node, prompt in prompts.items():
            if prompt not in self._known:
                asked.setdefault(prompt, node)
        form = {"why": "string", "value": {"enum": words}}
        compose = self._judge.alone if self._given.alone else self._judge.compose
        found, unread = await self._judgements(
            {f"{node.key}.value": (compose(prompt), form) for prompt, node in asked.items()}, "value")
        for prompt, said in zip(asked, found, strict=True):
            self._known[prompt] = fsum(number * said.count(word) for word, number in self._given.values.items())
        judged = [node if node.duplicate else
                  replace(node, value=self._right(node) if self._decided(node) else self._known[prompts[node]]) for node in nodes]
        return judged, {"judged": len(asked), **unread}

    def _decided(self, node: ThoughtNode) -> bool:
        """Whether an expression says what a way is worth, and no judge is asked."""
        return self._given.finished is not None and node.depth == self._given.depth

    def _right(self, node: ThoughtNode) -> float:
        """The value of a way of the full depth: as if all samples had said the best word, or the worst."""
        right = self._thinking.evaluate(self._given.finished or "", path=list(node.path))
        return self._given.samples * (max if right else min)(self._given.values.values())

    async def _voted(self, nodes: Sequence[ThoughtNode], key: str) -> tuple[list[ThoughtNode], dict[str, Any]]:
        """The number of votes for each, and what is told of it. Where there is but one it has them all."""
        choices = [node for node in nodes if not node.duplicate]
        if len(choices) < 2:
            return [replace(node, value=0 if node.duplicate else self._given.samples) for node in nodes], {}
        asked = self._judge.compose(self._judge.prompt(
            "vote", paths=[list(node.path) for node in choices], thought=self._given.thought, depth=self._given.depth))
        form = {"why": "string", "best": {"enum": list(range(1, len(choices) + 1))}}
        (found,), unread = await self._judgements({f"{key}.vote": (asked, form)}, "best")
        votes = {node: found.count(place) for place, node in enumerate(choices, 1)}
        return [replace(node, value=votes.get(node, 0)) for node in nodes], unread

    async def _judgements(self, asked: dict[str, tuple[Messages, dict[str, Any]]],
                          field: str) -> tuple[list[list[Any]], dict[str, Any]]:
        """For each branch what its samples say, all asked at once, and how many of them could not be read: they count nothing."""
        samples = range(self._given.samples)
        said = await at_once(self._judgement(f"{branch}.s{number}", messages, form)
                              for branch, (messages, form) in asked.items() for number in samples)
        unread = [one for one in said if isinstance(one, AnswerInvalid)]
        if said and len(unread) == len(said):
            raise AttemptFailed(f"none of the {len(said)} judgements can be read, the first one for this: {unread[0]}")
        grouped = [said[start:start + len(samples)] for start in range(0, len(said), len(samples))]
        return [[one[field] for one in group if not isinstance(one, AnswerInvalid)] for group in grouped], \
            {"unread": len(unread)} if unread else {}

    async def _judgement(self, branch: str, messages: Messages, form: dict[str, Any]) -> Any:
        try:
            return await self._judge.typed(branch, messages, form, temperature=self._given.temperature)
        except AnswerInvalid as error:
            return error
