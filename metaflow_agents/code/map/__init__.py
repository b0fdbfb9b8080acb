"""A map of a repository: what its files define, who uses it, and which files matter for a request, within a budget of tokens."""
