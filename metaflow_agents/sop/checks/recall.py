"""What roles recall: from how far, who embeds it, and in which index the nearest are found."""

from __future__ import annotations

from typing import get_args

from metaflow_agents.models import ways
from metaflow_agents.schema.role import OwnIndex, Recall, Role
from metaflow_agents.sop.checks.context import Context, Place


def check_recall(c: Context) -> None:
    """`recall` and `over` of each role that has it."""
    for name, role in c.sop.roles.items():
        _over(c, name, role)
        if role.memory.recall is not None:
            _recall(c, ("roles", name, "memory", "recall"), role.memory.recall)


def _over(c: Context, name: str, role: Role) -> None:
    memory, where = role.memory, ("roles", name, "memory", "over")
    if memory.over == "run" and memory.recall is not None and memory.recall.from_ == "project":
        c.say("memory-over", where, f"the memory of `{name}` is this run's alone, and `recall: {{from: project}}` is "
              "told of all runs",
              "write `recall: {from: run}` for what all roles of this run remember, or leave `over` out")
    elif "over" in memory.model_fields_set and not c.sop.remembers:
        c.say("memory-over", where, "no role of this SOP recalls, reflects or keeps lessons: nothing outlives a run anyway",
              f"remove it, or give `{name}` a memory that is asked: `memory: {{over: {memory.over}, recall: {{}}}}`", key=True)


def _recall(c: Context, where: Place, recall: Recall) -> None:
    if recall.embeddings is None:
        for key in ("index", "similarity"):
            if key in recall.model_fields_set:
                c.say("recall-embeddings", (*where, key), f"`{key}` is about embeddings, and nobody embeds here",
                      "name the model that does, `embeddings: NAME`, or leave it out", key=True)
        return
    if not recall.relevance:
        c.say("recall-embeddings", (*where, "embeddings"), "embeddings say how relevant a memory is, and `relevance: 0` makes "
              "nothing of it", "give `relevance` a weight, or leave `embeddings` out")
    if _means(c, recall.embeddings).partition(":")[0] == "manual":
        c.say("recall-embeddings", (*where, "embeddings"), f"`{recall.embeddings}` is a person, who embeds nothing",
              "name a model with an endpoint, such as `openai:text-embedding-3-small`")
    if gone := c.missing(recall.index):
        told, _, mend = gone.partition(": ")
        at: Place = (*where, "index" if "index" in recall.model_fields_set else "embeddings")
        own = recall.index in get_args(OwnIndex)
        c.say("recall-embeddings", at, told, f"{mend}, or take another index" if own and recall.index != "exact" else mend)


def _means(c: Context, name: str) -> str:
    """What a model's text means, as far as it is a text."""
    found = c.sop.models.get(name, c.models.get(name, name))
    return found if isinstance(found, str) and ways.is_form(found) else ""
