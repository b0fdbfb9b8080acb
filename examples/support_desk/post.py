"""Sends answers: here into `state/outbox.jsonl`, a line for each."""

import json
from pathlib import Path

OUTBOX = Path(__file__).parent / "state" / "outbox.jsonl"


def send_mail(to: str, subject: str, text: str) -> str:
    """Send an answer to a customer."""
    OUTBOX.parent.mkdir(exist_ok=True)
    with OUTBOX.open("a", encoding="utf-8") as box:
        box.write(json.dumps({"to": to, "subject": subject, "text": text}, ensure_ascii=False) + "\n")
    return f"sent to {to}"
