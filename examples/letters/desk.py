"""A model that is a plain function, and a run of a SOP with it from Python.

usage: python desk.py [LETTER.txt]
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

from metaflow_agents import run
from metaflow_agents.models.port import ModelRequest

HERE = Path(__file__).parent


def answer(request: ModelRequest) -> Any:
    """Stands in for a language model: is told who is asked for what, and gives text or a value of the schema."""
    asked = request.messages[-1]["content"]
    if request.step == "read_letter":
        return read(asked)
    to = re.search(r"Answer the letter of (.+) in at most", asked)
    return f"Dear {to[1] if to else 'reader'},\n\nthank you for your letter; it is seen to today.\n\nThe library\n"


def read(asked: str) -> dict[str, Any]:
    """The facts of the letter that stands somewhere in a prompt, as the artifact `facts` wants them."""
    found = re.search(r"Dear .*?\nYours,\s+(?P<sender>[^\n]+)", asked, re.DOTALL)
    letter = found[0] if found else ""
    complaint = re.search(r"\b(complain|sorry to say|wrong|broken)\b", letter)
    loan = re.search(r"\b(borrow|borrowed|keep|renew)\b", letter)
    return {
        "sender": found["sender"].strip() if found else None,
        "kind": "complaint" if complaint else "loan" if loan else "other",
        "books": re.findall(r'"([^"\n]+)"', letter),
    }


async def main(letter: str) -> int:
    """Runs the SOP on one letter and prints the reply."""
    result = await run(HERE / "letters.yaml", letter=letter, model=answer)
    sys.stdout.write(result["reply"])
    return 0


if __name__ == "__main__":
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "letter.txt"
    sys.exit(asyncio.run(main(path.read_text(encoding="utf-8"))))
