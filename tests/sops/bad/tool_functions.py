def count(text: str, most: int = 1) -> int:
    """How long it is."""
    return min(len(text), most)


def right(note: str) -> None:
    """Nothing is wrong with it."""
