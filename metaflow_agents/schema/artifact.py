"""What passes between steps, as a person writes it: an artifact, its rules, and the graph that its list may be."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from metaflow_agents.schema.model import Value
from metaflow_agents.schema.scalars import Expression, Name, Texts


class Rule(Value):
    """What a schema can't say; a broken rule goes back to the author."""

    assert_: Expression = Field(alias="assert", description="an expression over the artifact, by its name")
    message: str = Field("", description="the rule as a demand: it stands in the author's prompt, and goes back with an answer "
                                         "that breaks it; by default the expression")


class Graph(Value):
    """Says that a list of an artifact is a dependency graph: unique keys, known references, no cycle."""

    nodes: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$")] | None = Field(
        None, description="the field that holds the list; without it the artifact is the list")
    key: Name = Field(description="the field of a node that names it")
    edges: Name = Field(description="the field of a node that lists the keys of those that come first")


class Artifact(Value):
    """A named, typed, versioned value: text, data with a schema, a collection, or a set of files."""

    schema_: Any = Field(
        None, alias="schema", description="shorthand, JSON Schema (inline or a file name), or `python: module:Model`")
    each: Any = Field(None, description="the schema of one item of a collection that a `foreach` step makes")
    files: Texts = Field((), description="path patterns in the run's repository; may hold `{{ }}`")
    file_: str | Annotated[tuple[str, ...], Field(min_length=1)] | None = Field(
        None, alias="file", description="where it lies in the run's repository; `[NAME.md, NAME.pdf, …]`: a Markdown text "
                                        "and documents made of it (`.html`, `.pdf`, `.docx`, `.epub`)")
    render: str | None = Field(None, description="file name of the Jinja2 template by which a person reads it in `file`")
    initial: Any = Field(None, description="its value at the start, version 1")
    rules: tuple[Rule, ...] = Field((), description="what its schema can't say")
    graph: Graph | None = Field(
        None, description="its list is a dependency graph; a `foreach` over it takes `key` and `after` from there")
    description: str = Field("", description="what it is, told to those who make and read it")

    @property
    def file(self) -> str | None:
        """Where it lies, its text where it has documents too."""
        return self.file_ if self.file_ is None or isinstance(self.file_, str) else self.file_[0]

    @property
    def documents(self) -> tuple[str, ...]:
        """The files in other formats that are made of its text."""
        return () if self.file_ is None or isinstance(self.file_, str) else self.file_[1:]

    @property
    def has_initial(self) -> bool:
        """Whether `initial` was written, `initial: null` included."""
        return "initial" in self.model_fields_set
