"""Models: the port, endpoints, those that need none, and the budget that every call passes."""
