"""Python that a SOP names: found beside it and in its project, never in place of what is installed; each SOP has its own."""

from __future__ import annotations

from metaflow_agents.modules.finding import Located, Shadowed, file_places, locate, locate_file
from metaflow_agents.modules.loading import load_function
from metaflow_agents.modules.sources import CodeSources, sources_of

__all__ = ["CodeSources", "Located", "Shadowed", "file_places", "load_function", "locate", "locate_file", "sources_of"]
