"""Interfaces declared against interfaces written: whether files keep what a design promises, told from their text alone."""

from metaflow_agents.contract.designing import design_faults
from metaflow_agents.contract.extraction import extract
from metaflow_agents.contract.verification import verify

__all__ = ["design_faults", "extract", "verify"]
