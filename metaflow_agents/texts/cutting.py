"""Long texts made short for people and prompts: what is left out stands in the middle, since a text says most at its ends."""

from __future__ import annotations


def in_middle(text: str, most: int) -> str:
    """The text; of one longer than `most` characters its beginning and its end, and between them how many are left out."""
    if len(text) <= most:
        return text
    head, tail = most - most // 2, most // 2
    return f"{text[:head]}\n[… {len(text) - head - tail:,} characters left out …]\n{text[len(text) - tail:]}"
