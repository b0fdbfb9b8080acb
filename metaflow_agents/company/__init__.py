"""What `prototype.yaml` calls: samples laid out, a product held against what makes it installable, what its use came to."""

from metaflow_agents.company.mutants import mutants
from metaflow_agents.company.steps import beginnings, brief_faults, product_faults, requirements, samples, transcript

__all__ = ["beginnings", "brief_faults", "mutants", "product_faults", "requirements", "samples", "transcript"]
