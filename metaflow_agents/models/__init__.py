"""Models: the port, those that need no endpoint, and the budget that every call passes."""
