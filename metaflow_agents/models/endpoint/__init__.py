"""Models behind endpoints that speak the OpenAI chat-completions protocol. Importing it loads no client."""

from metaflow_agents.models.endpoint.learned import Learned
from metaflow_agents.models.endpoint.model import OPENAI, Endpoint, endpoint_model

__all__ = ["OPENAI", "Endpoint", "Learned", "endpoint_model"]
