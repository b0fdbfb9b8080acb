"""A model for each role, in a test of a SOP: whoever asks is answered by its own."""

from __future__ import annotations

from collections.abc import Mapping

from metaflow_agents.models.port import Model, ModelRequest, Reply


class ByRole:
    """Stands before the models of roles; `others` answers for every role that has none."""

    def __init__(self, roles: Mapping[str, Model], others: Model) -> None:
        self._roles, self._others = dict(roles), others

    @property
    def name(self) -> str:
        """`judge=python:desk.py:judge, dry`."""
        return ", ".join([*(f"{role}={model.name}" for role, model in self._roles.items()), self._others.name])

    def chosen(self, request: ModelRequest) -> Model:
        """Who answers this one."""
        return self._roles.get(request.role, self._others)

    async def ask(self, request: ModelRequest) -> Reply:
        """The answer of the role's model."""
        return await self.chosen(request).ask(request)
