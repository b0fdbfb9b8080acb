"""What runs ask people, and the answers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from metaflow_agents.errors import JournalError, UsageError
from metaflow_agents.journal.places import journal_path
from metaflow_agents.questions.answering import answer_of, give
from metaflow_agents.questions.inbox import chosen, open_questions
from metaflow_agents.settings import Settings
from metaflow_agents.web.asked import Asked, get, post

_KEYS = ("text", "verdict", "choice", "arguments")


def inbox(asked: Asked) -> dict[str, Any]:
    """The open questions of all runs, the oldest first."""
    site, found, damaged = asked.site, list[dict[str, Any]](), list[str]()
    for row in site.listing.rows():
        if not row["questions"]:
            continue
        try:
            found += site.watched.run(row["run"]).questions()
        except (JournalError, UsageError) as error:     # one that can't be read hides none of the others
            damaged.append(f"{row['run']}: {error}")
    return {"questions": sorted(found, key=lambda question: question["at"]), "damaged": damaged}


def answer(asked: Asked) -> dict[str, Any]:
    """`sop answer`: `answer` has `text`, `choice` or `verdict` (yes, no), and of an action `arguments` in place of its own."""
    path = journal_path(asked.site.workspace, asked.text("run"))
    given = asked.body.get("answer")
    if not isinstance(given, dict) or not set(given) <= set(_KEYS):
        raise UsageError(f"`answer` is an object with {', '.join(_KEYS)}")
    if "choice" in given and "text" in given:
        raise UsageError("`choice` and `text` are two answers: give one")
    question = chosen(open_questions(path), path.stem, asked.number("number"))
    text, arguments, verdict = given.get("text", given.get("choice")), given.get("arguments"), given.get("verdict")
    if verdict not in (None, "yes", "no"):
        raise UsageError(f"`verdict` is {verdict!r:.80}: yes or no")
    if text is not None and not isinstance(text, str):
        text = json.dumps(text, ensure_ascii=False)
    found = answer_of(question.question, text=text, verdict=verdict, reason=asked.text("reason", ""),
                      scope=asked.text("for", "once"),
                      arguments=None if arguments is None else json.dumps(arguments, ensure_ascii=False))
    taken = asyncio.run(give(path, question.question, found, Settings.read(), by="sop ui"))
    return {"handed_over": bool(taken)}


routes = [get("/api/inbox", inbox), post("/api/answer", answer)]
