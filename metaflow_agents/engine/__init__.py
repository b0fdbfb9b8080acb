"""Readiness and blocking, fan-out, rounds, retries, cancellation. Knows nothing of models, tools or the workspace."""
