"""The files that a set of artifact versions amounts to: the run's folder, and the tree that a command runs on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from metaflow_agents.errors import ExpressionError
from metaflow_agents.journal.state import RunState
from metaflow_agents.journal.values import Values
from metaflow_agents.prompts import CollectionView, render
from metaflow_agents.schema.payload import Files
from metaflow_agents.schema.program import Program


class Tree:
    """Folds versions into files. An artifact of files gives its files; one with `file` is written there, rendered."""

    def __init__(self, program: Program, values: Values, state: RunState, run: str) -> None:
        self._program, self._values, self._state, self._run = program, values, state, run

    def files(self, versions: Mapping[str, int] | None = None) -> dict[str, bytes]:
        """Path → bytes for these versions (artifact → number, 0: missing); by default the latest of everything."""
        if versions is None:
            versions = {name: self._state.version(name) for name in self._program.sop.artifacts}
        found: dict[str, bytes] = {}
        for name, number in versions.items():
            digest = self._state.payload(name, number) if number else None
            if digest is not None:
                found.update(self.of(name, digest))
        return found

    def of(self, artifact: str, digest: str) -> dict[str, bytes]:
        """The files of one payload of an artifact (or of an input that is a folder)."""
        payload = self._values.payload(digest)
        if isinstance(payload, Files):
            return {path: self._values.data(blob) for path, blob in payload.files.items()}
        spec = self._program.sop.artifacts.get(artifact)
        if spec is None or spec.file is None:
            return {}
        return {spec.file: self._text(artifact, spec.file, spec.render, self._values.view(digest)).encode()}

    def _text(self, artifact: str, file: str, template: str | None, value: Any) -> str:
        if template is not None:
            inputs = {name: self._values.latest(name) for name in self._program.sop.inputs}
            scope = {artifact: value, "run": {"name": self._run, "inputs": inputs}}
            try:
                return render(self._program.templates[template], scope, self._program.templates)
            except ExpressionError as error:
                raise ExpressionError(f"{template}, which renders `{artifact}` into {file}: {error}") from None
        if isinstance(value, str):
            return value if value.endswith("\n") else f"{value}\n"
        plain = dict(value) if isinstance(value, CollectionView) else value
        return json.dumps(plain, ensure_ascii=False, indent=2) + "\n"
