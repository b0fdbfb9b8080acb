"""What every group of checks works on: the program, where its words stand, what is known, and where to say a fault."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from metaflow_agents.errors import Problem
from metaflow_agents.prompts import Analysis
from metaflow_agents.schema.endpoint import EndpointModel
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.results import FAILURE, JUNIT_RESULT, LOCK, RUN_RESULT, human_result
from metaflow_agents.schema.role import IndexName
from metaflow_agents.schema.scalars import NAME_PATTERN
from metaflow_agents.schema.shape import Shape
from metaflow_agents.schema.sop import PATHS, SOP
from metaflow_agents.schema.step import DOERS, Step
from metaflow_agents.schema.strategies import StrategySpec
from metaflow_agents.sop.codes import CODES
from metaflow_agents.sop.graph import artifact_of, makes, reads
from metaflow_agents.sop.load import LoadedSOP


class Takes(Protocol):
    """What a tool takes. `parameters` is the JSON Schema of its arguments."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """An object's schema."""
        ...

    def faults(self, parameters: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
        """What is wrong with arguments, by this schema or a wider one: each fault begins with the argument's name."""
        ...


Place = tuple[str | int, ...]
"""A path in the file: `("steps", "write", "needs", 0)`."""


@dataclass
class Context:
    """One check of one SOP. Groups of checks read it and call `say`; nothing in it changes the program."""

    loaded: LoadedSOP
    strategies: Mapping[str, type[StrategySpec]]
    reading: tuple[Problem, ...] = ()
    """What was found while the files were read."""
    models: Mapping[str, str | EndpointModel] = field(default_factory=dict)
    """Models of the user's configuration."""
    missing: Callable[[IndexName], str] = lambda _: ""
    """What an index over embeddings needs and is not installed, with the mend; empty where nothing is missing."""
    tools: Callable[[Program], Mapping[str, Takes]] = lambda _: {}
    """What the tools of a SOP take, as far as it is known without starting or importing anything."""
    problems: list[Problem] = field(default_factory=list)
    inner: dict[str, Context] = field(default_factory=dict)
    """What a step writes as `sop:` → the check of that SOP."""
    mended: dict[str, str] = field(default_factory=dict)
    """Misspelt artifact → the one that was surely meant, so that one slip is told once."""
    muted: set[str] = field(default_factory=set)
    """Artifacts about whose use no more is said: what names them is at fault already."""
    analyses: list[tuple[str, Analysis]] = field(default_factory=list)
    """(step, or "" for the SOP's own) and what each expression and template names."""
    constant: set[str] = field(default_factory=set)
    """Steps whose `when` depends on nothing."""
    lost_strategies: set[str] = field(default_factory=set)
    """Steps with wrong parameters of their strategy: whom these name is not known."""
    walked: dict[str, Shape] = field(default_factory=dict)
    """Step → the shape of the list that its `foreach` walks."""

    @property
    def program(self) -> Program:
        """The compiled SOP."""
        return self.loaded.program

    @property
    def sop(self) -> SOP:
        """What was written, with defaults merged."""
        return self.loaded.program.sop

    @cached_property
    def known(self) -> tuple[str, ...]:
        """Artifacts and inputs: all that a step can read."""
        return tuple(dict.fromkeys((*self.sop.artifacts, *self.sop.inputs)))

    @cached_property
    def made(self) -> dict[str, tuple[str, ...]]:
        """Artifact → the steps that make it, by their work or by their failure."""
        makers: dict[str, tuple[str, ...]] = {}
        for name, step in self.sop.steps.items():
            for artifact in makes(step):
                makers[artifact] = (*makers.get(artifact, ()), name)
        return makers

    @cached_property
    def doers(self) -> dict[str, str]:
        """Step → the key that names its worker; steps with none or several are left out."""
        found = {name: [key for key in DOERS if getattr(step, key) is not None] for name, step in self.sop.steps.items()}
        return {name: keys[0] for name, keys in found.items() if len(keys) == 1}

    def fixed(self, artifact: str) -> dict[str, Any] | None:
        """The schema that the maker of an artifact dictates: a command's result or a failure."""
        for name, step in self.sop.steps.items():
            if step.on_fail.artifact == artifact:
                return FAILURE
            if step.makes.artifact == artifact and self.doers.get(name) == "run":
                kind = (step.parse or "").partition(" ")[0]
                return None if kind == "json" else JUNIT_RESULT if kind == "junit" else RUN_RESULT
            if step.makes.artifact == artifact and self.doers.get(name) == "tool" and step.tool == "packages":
                return LOCK
            if step.makes.artifact == artifact and step.human is not None and self.doers.get(name) == "human":
                own = self.sop.artifacts.get(artifact)
                if own is not None and own.schema_ in (None, {}) and own.each in (None, {}):
                    return human_result(step.human.kind, step.human.choices)
        return None

    @cached_property
    def unknown_reads(self) -> set[str]:
        """Names that steps read and that mean nothing."""
        return {artifact for step in self.sop.steps.values() for artifact in reads(step) if artifact not in self.known}

    @cached_property
    def lost_roles(self) -> set[str]:
        """Declared roles of which no file was found: told already."""
        return {name for name in self.sop.roles for problem in self.reading
                if problem.code == "role-not-found" and f"`{name}`" in problem.message}

    @cached_property
    def template_missing(self) -> bool:
        """Whether a template that is named could not be read: told already."""
        return any(problem.code.startswith("template-") for problem in self.reading)

    @cached_property
    def role_expressions(self) -> bool:
        """Whether some step's role is worked out at run time, so that it may be any declared one."""
        return any(step.role is not None and not re.fullmatch(NAME_PATTERN, step.role) for step in self.sop.steps.values())

    @property
    def named(self) -> set[str]:
        """Artifacts and inputs that the SOP's own expressions and the stored templates name."""
        return {name for step, analysis in self.analyses if not step for name in analysis.names}

    @property
    def named_paths(self) -> set[tuple[str, ...]]:
        """Attribute paths that any expression or template names."""
        return {path for _, analysis in self.analyses for path in analysis.paths}

    def shape(self, name: str) -> Shape:
        """What is known of an artifact's or an input's value; `any` for an unknown name."""
        return self._shapes.get(name) or Shape.any()

    @cached_property
    def _shapes(self) -> dict[str, Shape]:
        shapes = {name: self._input_shape(name) for name in self.sop.inputs}
        for name, artifact in self.sop.artifacts.items():
            if name in shapes:
                shapes[name] = Shape.any()                 # an input of the same name: told, and not guessed
            elif artifact.files:
                shapes[name] = Shape.files()
            else:
                schema = self.fixed(name) or self.program.schemas.get(name)
                item = Shape.of(schema) if schema is not None else self._bare(name)
                shapes[name] = Shape.collection(item) if "each" in artifact.model_fields_set else item
        return shapes

    def _bare(self, name: str) -> Shape:
        """Without a schema an artifact is text, unless a schema was written that could not be read."""
        artifact = self.sop.artifacts[name]
        return Shape.content() if artifact.schema_ is None and artifact.each in (None, {}) else Shape.any()

    def _input_shape(self, name: str) -> Shape:
        kind = self.sop.inputs[name].type
        if kind in PATHS:
            return Shape.content() if kind == "file" else Shape.files()
        schema = self.program.schemas.get(f"input:{name}")
        return Shape.of(schema) if schema is not None else Shape.any()

    def scope(self, name: str, step: Step) -> dict[str, Shape]:
        """What a step's expressions see of artifacts; a misspelt name is there as itself and as the one meant."""
        scope: dict[str, Shape] = {}
        for kind in ("sees", "wants", "needs"):
            for entry in getattr(step, kind):
                artifact = artifact_of(entry)
                initial = artifact in self.sop.artifacts and self.sop.artifacts[artifact].has_initial
                sure = kind == "needs" or artifact in self.sop.inputs or initial
                shape = self.shape(artifact)
                scope[artifact] = shape if sure else shape.as_optional()
                if artifact in self.mended:
                    scope.setdefault(self.mended[artifact], self.shape(self.mended[artifact]))
        return scope

    def entry(self, *where: str | int) -> Place:
        """The place of an item of a list, or of the one text that stands for the list."""
        return where if self.has(*where) else where[:-1]

    def has(self, *where: str | int) -> bool:
        """Whether something is written there: what is not has the place of what it would stand in."""
        return self.loaded.places.at(where) != self.loaded.places.at(where[:-1])

    def own(self, *where: str | int) -> bool:
        """Whether a step's key is written in the step itself, and not taken from `defaults`."""
        return self.has(*where) and self.loaded.places.at(where) != self.loaded.places.at(("defaults", "steps", *where[2:]))

    def say(self, code: str, where: Place, message: str, mend: str, *, key: bool = False,
            inside: tuple[int, int] | None = None) -> None:
        """Adds a problem at a place of the file: at its value, at its key, or at (line, column) inside its text."""
        places = self.loaded.places
        spot = places.inside(where, *inside) if inside else places.at(where, key=key)
        self.say_at(code, *spot, message, mend)

    def say_at(self, code: str, file: str, line: int, column: int, message: str, mend: str) -> None:
        """Adds a problem at a place of any file; a problem that was said there already is not repeated."""
        problem = Problem(code, message, mend, file, line, column, CODES[code].severity)
        if problem not in self.problems:
            self.problems.append(problem)


def made_by(c: Context, step: Step) -> Shape:
    """What a step has to give: its artifact, or one item of it."""
    shape = c.shape(step.makes.artifact)
    return shape.element if shape.kind == "collection" and shape.element is not None else shape
