"""Odds and ends."""


def table(rows):
    """Two columns, the second one to the right."""
    left = max((len(name) for name, _ in rows), default=0)
    right = max((len(value) for _, value in rows), default=0)
    return "\n".join(f"{name:<{left}}  {value:>{right}}" for name, value in rows)
