"""Functions that bad SOPs call; never imported."""


def write(topic, tone, length=3):
    return topic


class Letter:
    body: str
