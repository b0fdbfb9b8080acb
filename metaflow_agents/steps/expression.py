"""`value:` steps: an expression reshapes artifacts; free, no model."""

from __future__ import annotations

from metaflow_agents.engine.work import Activation, Work
from metaflow_agents.errors import AttemptFailed
from metaflow_agents.prompts import MISSING, evaluate
from metaflow_agents.schema.sop import SOP
from metaflow_agents.steps.function import plain
from metaflow_agents.steps.validation import Acceptance


class Expressions:
    """Evaluates the expressions that `value:` steps are."""

    def __init__(self, sop: SOP, acceptance: Acceptance) -> None:
        self._sop, self._acceptance = sop, acceptance

    async def work(self, activation: Activation) -> Work:
        """What the expression gives. Raises ExpressionError, AnswerInvalid."""
        expression = self._sop.steps[activation.key.step].value or ""
        value = evaluate(expression, activation.scope)
        if value is MISSING:
            raise AttemptFailed(f"`{expression}` gives nothing: what it reads is missing; `| default(…)` gives another value")
        return self._acceptance.accept(activation, plain(value))
