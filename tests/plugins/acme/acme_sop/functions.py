"""Functions that SOPs call as `acme.words:NAME`."""


def first(text: str) -> str:
    return text.split()[0]
