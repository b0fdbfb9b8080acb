"""Interfaces declared against interfaces written: whether files keep what a design promises, told from their text alone."""

from metaflow_agents.kits.python_package.designing import design_faults
from metaflow_agents.kits.python_package.extraction import extract
from metaflow_agents.kits.python_package.verification import verify

__all__ = ["design_faults", "extract", "verify"]
