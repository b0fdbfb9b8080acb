"""What `prototype.yaml` and `harden.yaml` call: samples laid out, a product held against what makes it installable, what its use
came to, and what its tests notice.
"""

from metaflow_agents.company.mutants import mutants
from metaflow_agents.company.steps import (
    beginnings,
    brief_faults,
    product_faults,
    requirements,
    requirements_of_tests,
    samples,
    strength,
    test_plan_faults,
    transcript,
)

__all__ = ["beginnings", "brief_faults", "mutants", "product_faults", "requirements", "requirements_of_tests", "samples",
           "strength", "test_plan_faults", "transcript"]
