"""The OpenAPI description of a service, as the world writes it: JSON, or YAML with `200:` for a key; and larger than any SOP.

JSON is read as JSON, which is a hundred times faster; where it is none, the reader of YAML says what is wrong, and where.
"""

from __future__ import annotations

from metaflow_agents.sop.document import Document
from metaflow_agents.sop.reading import ReadingLimits, read_yaml
from metaflow_agents.texts.strict_json import read

DESCRIPTIONS = ReadingLimits(size=16 << 20, depth=100, nodes=400_000, any_key=True)


def read_description(data: bytes, file: str) -> Document:
    """What the file says. Never raises for what stands in it: see `Document.problems`."""
    if data.lstrip()[:1] == b"{" and len(data) <= DESCRIPTIONS.size:
        try:
            text = data.decode()
            return Document(file, text, None, read(text), ())
        except ValueError:
            pass                        # read as YAML, which JSON is too: its problems have places
    return read_yaml(data, file, DESCRIPTIONS)

