"""Chemistry as a laboratory asks about it every day: the tools of `examples/classics/chemistry`, and the screen `chemistry`.

Names, structures, descriptors, concentrations and safety phrases of everyday substances. Nothing here plans, predicts or helps
with a synthesis or with getting anything, and nothing of the kind is added.
"""

from metaflow_agents.kits.chemistry.tools import (
    describe,
    dilution,
    functional_groups,
    safety,
    similarity,
    solution,
    structure,
)

__all__ = ["describe", "dilution", "functional_groups", "safety", "similarity", "solution", "structure"]
