"""The files that a set of artifact versions amounts to: the run's folder, and the tree that a command runs on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from metaflow_agents.errors import ExpressionError
from metaflow_agents.journal.values import Values, Versions
from metaflow_agents.prompts import CollectionView, render
from metaflow_agents.schema.binary import BinaryFile, jsonable
from metaflow_agents.schema.media import ending
from metaflow_agents.schema.model import digest
from metaflow_agents.schema.payload import Binary, Data, Files
from metaflow_agents.schema.program import Program


@dataclass(frozen=True, slots=True)
class Leaf:
    """One file: the digest of its bytes, and where they come from."""

    digest: str
    load: Callable[[], bytes]


def name_beside(artifact: str, value: Any) -> str:
    """What the file of an artifact without `file` is called: text is Markdown, data JSON, and bytes are what they are."""
    if isinstance(value, BinaryFile):
        return f"{artifact}.{ending(value.media_type)}"
    return f"{artifact}.md" if isinstance(value, str) else f"{artifact}.json"


class Tree:
    """Folds versions into files. An artifact of files gives its files; one with `file` is written there, rendered."""

    def __init__(self, program: Program, values: Values, state: Versions, run: str) -> None:
        self._program, self._values, self._state, self._run = program, values, state, run

    def files(self, versions: Mapping[str, int]) -> dict[str, bytes]:
        """Path → bytes for these versions (artifact → number, 0: missing)."""
        return {path: leaf.load() for path, leaf in self.leaves(versions).items()}

    def leaves(self, versions: Mapping[str, int] | None = None) -> dict[str, Leaf]:
        """Path → file for these versions; by default the latest of everything. What was made stands over what was given."""
        if versions is None:
            versions = {name: self._state.version(name) for name in self._program.sop.artifacts}
        found: dict[str, Leaf] = {}
        for name in sorted(versions, key=self._program.sop.artifacts.__contains__):
            payload = self._state.payload(name, versions[name]) if versions[name] else None
            if payload is not None:
                found.update(self.of(name, payload))
        return found

    def of(self, artifact: str, digest_: str) -> dict[str, Leaf]:
        """The files of one payload of an artifact (or of an input that is a folder)."""
        payload = self._values.payload(digest_)
        if isinstance(payload, Files):
            return {path: Leaf(blob, partial(self._values.data, blob)) for path, blob in payload.files.items()}
        spec = self._program.sop.artifacts.get(artifact)
        if spec is None or spec.file is None:
            return {}
        if isinstance(payload, Binary) and spec.render is None:
            return {spec.file: Leaf(payload.sha256, partial(self._values.data, payload.sha256))}
        data = self.rendered(artifact, self._values.view(digest_))[spec.file]
        if isinstance(payload, Data) and payload.assumed and spec.render is None and isinstance(payload.value, str):
            listed = "".join(f"- {assumption}\n" for assumption in payload.assumed)
            data += f"\nAssumed, since nobody answered:\n\n{listed}".encode()
        documents = payload.documents if isinstance(payload, Data) else {}
        return {spec.file: Leaf(digest(data), lambda: data),
                **{path: Leaf(blob, partial(self._values.data, blob)) for path, blob in documents.items()}}

    def beside(self) -> dict[str, Leaf]:
        """Path → file for the latest versions of artifacts that no file of the run's folder holds."""
        found: dict[str, Leaf] = {}
        for name, spec in self._program.sop.artifacts.items():
            payload = self._state.payload(name) if spec.file is None and not spec.files else None
            if payload is not None:
                value = self._values.view(payload)
                data = value.load() if isinstance(value, BinaryFile) else self._text(name, "", None, value).encode()
                found[name_beside(name, value)] = Leaf(digest(data), partial(bytes, data))
        return found

    def changes(self, artifact: str, digest_: str, before: Mapping[str, str]) -> tuple[Mapping[str, str], dict[str, Leaf]]:
        """The files of one payload as path → digest, and those of them that `before` has not, or has otherwise."""
        payload = self._values.payload(digest_)
        if isinstance(payload, Files):          # thousands of files of which one changed: the others are not looked at singly
            return payload.files, {path: Leaf(blob, partial(self._values.data, blob))
                                   for path, blob in payload.files.items() - before.items()}
        leaves = self.of(artifact, digest_)
        return ({path: leaf.digest for path, leaf in leaves.items()},
                {path: leaf for path, leaf in leaves.items() if before.get(path) != leaf.digest})

    def rendered(self, artifact: str, value: Any) -> dict[str, bytes]:
        """The file that a value of an artifact (as expressions see it) is written into; nothing where that has no `file`.

        Raises ExpressionError where its `render` fails.
        """
        spec = self._program.sop.artifacts[artifact]
        if spec.file is not None and spec.render is None and isinstance(value, BinaryFile):
            return {spec.file: value.load()}
        return {} if spec.file is None else {spec.file: self._text(artifact, spec.file, spec.render, value).encode()}

    def as_rendered(self, artifact: str, value: Any) -> str:
        """A value of an artifact by its `render`. Raises ExpressionError."""
        spec = self._program.sop.artifacts[artifact]
        return self._text(artifact, spec.file or "", spec.render, value)

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
        return json.dumps(jsonable(plain), ensure_ascii=False, indent=2) + "\n"
