"""Who works, as a person writes it, and what a role remembers between its activations."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from metaflow_agents.schema.caps import Budget
from metaflow_agents.schema.model import Value
from metaflow_agents.schema.scalars import Accepts, Name, Texts, Window
from metaflow_agents.schema.tools import PolicySpec

Weight = Annotated[float, Field(ge=0, le=1000)]
OwnIndex = Literal["hnsw", "exact", "faiss"]
IndexName = str
"""One of `OwnIndex`, or one that an installed package adds."""
Similarity = Literal["cosine", "inner_product"]
"""Cosine looks at directions alone. The inner product prefers long vectors too; of vectors of length 1 they are the same."""


def model_for_role(role: str) -> str:
    """The name under which the model is kept that somebody gives for a role: no model of a SOP can be called so."""
    return f"role:{role}"


class Recall(Value):
    """What comes back to a role's mind of what fell out of its window, of other runs, and of other roles."""

    from_: Literal["role", "run", "project"] = Field(
        "role", alias="from", description="`role`: its own, of all runs; `run`: all roles' of this run; `project`: all there are")
    top: Annotated[int, Field(ge=1, le=100, strict=True)] = Field(6, description="how many memories a prompt holds")
    recency: Weight = Field(1.0, description="how much it counts that a memory is new")
    importance: Weight = Field(
        1.0, description="how much it counts that it is important, 1 to 10: the role's model is asked as it is stored, unless 0")
    relevance: Weight = Field(
        1.0, description="how much it counts that its words are those of the task, and with `embeddings` what it means")
    decay: Annotated[float, Field(gt=0, le=1)] = Field(0.995, description="by what recency falls with every newer memory")
    embeddings: str | None = Field(
        None, min_length=1, description="who embeds memories, so that one in other words than the task is found: a name under "
                                        "`models`, or a model itself; by default nobody")
    index: IndexName = Field("hnsw", description="how the nearest embeddings are found: `hnsw`, `exact` or `faiss`, or an index "
                                                 "that an installed package adds")
    similarity: Similarity = Field(
        "cosine", description="what near means: `cosine`, or `inner_product`, which prefers long vectors")

    @property
    def embedder(self) -> str | None:
        """Who embeds, where relevance counts at all."""
        return self.embeddings if self.relevance else None


class Reflect(Value):
    """When a role asks itself what it comes to that it remembers."""

    after: Annotated[int, Field(ge=1, strict=True)] = Field(
        150, description="how much importance has to come together since it last reflected; each memory has 1 to 10")


class Memory(Value):
    """What a role remembers between its activations."""

    window: Window = Field((40, "turns"), description="what stays verbatim: `40 turns` or `16k tokens`; the oldest is dropped; "
                                                          "`0 turns`: none")
    summary: bool = Field(
        False, strict=True, description="whether what falls out of the window is summed up, by the role's model, in its prompts")
    over: Literal["runs", "run"] = Field(
        "runs", description="whose it is in time: `runs`, later runs are told of it; `run`, this run's alone, which is told "
                            "nothing of others")
    recall: Recall | None = Field(None, description="what comes back to its mind beyond the window; by default nothing")
    reflect: Reflect | None = Field(
        None, description="insights over what it remembers, once that weighs enough; they are recalled like other memories")
    lessons: Annotated[int, Field(ge=1, le=50, strict=True)] | None = Field(
        None, description="how many lessons from failed trials, the latest of all runs, stand in its prompts; by default "
                          "it keeps none")

    @property
    def recalls_other_runs(self) -> bool:
        """Whether what other runs left may come back to its mind, and counts for its reflections."""
        return self.over == "runs" and (self.recall is None or self.recall.from_ != "run")


def _no_memory(written: object) -> object:
    return {"window": "0 turns"} if written == "none" else written


MemorySpec = Annotated[Memory, BeforeValidator(_no_memory)]
"""`none` is a memory that keeps nothing."""


class Role(Value):
    """Who works: a profile, a prompt template, a model and a memory. The file is `roles/NAME.yaml`."""

    role: Name | None = Field(None, description="the role's name, as its file is called")
    profile: str = Field("", description="who this is, in a line")
    goal: str = Field("", description="what the role is after")
    constraints: Texts = Field((), description="what the role keeps to")
    prompt: str | None = Field(None, description="file name of the Jinja2 template that opens every prompt of the role")
    model: str | None = Field(None, description="a name under `models`, or a model itself")
    accepts: Accepts = Field(
        ("text",), description="what its prompts carry: `[text]`, or `[text, image]` with pictures among the files that it reads")
    memory: MemorySpec = Field(Memory(), description="what the role remembers; `none`: nothing")
    watches: tuple[Name, ...] = Field((), description="artifacts whose messages reach the role's inbox and memory")
    budget: Budget | None = Field(None, description="caps for all the role's work in a run")
    tools: Texts = Field((), description="what it may use: built-in tools, declared ones, `SERVER.*` of a server or a service")
    policy: PolicySpec | None = Field(None, description="narrows what the SOP allows; it never widens it")
