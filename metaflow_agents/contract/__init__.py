"""Interfaces declared against interfaces written: what a design promises, and whether Python files keep it, told from their text alone."""

from metaflow_agents.contract.designing import design_faults
from metaflow_agents.contract.extraction import extract
from metaflow_agents.contract.verification import verify

__all__ = ["design_faults", "extract", "verify"]
