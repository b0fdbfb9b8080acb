"""`sop inbox`, `sop answer`: what runs ask people, and what people say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metaflow_agents.cli.options import WORKSPACE, Json, RunName, Workspace
from metaflow_agents.cli.output import page, say, say_json
from metaflow_agents.errors import JournalError, UsageError

if TYPE_CHECKING:
    from metaflow_agents.questions.inbox import Open
    from metaflow_agents.questions.question import Answer


def inbox(name: Annotated[str | None, typer.Argument(metavar="[RUN]", help="Only questions of this run.")] = None,
          number: Annotated[int | None, typer.Argument(
              metavar="[QUESTION]", help="Show this question in full; lists shorten long texts.")] = None,
          workspace: Workspace = WORKSPACE,
          json: Json = False) -> int:
    """List the open questions of runs, the oldest first."""
    from metaflow_agents.journal.places import journal_path, run_names
    from metaflow_agents.questions.inbox import numbered, open_questions
    from metaflow_agents.views.questions import inbox_lines

    found: list[Open] = []
    damaged: list[str] = []
    for one in run_names(workspace) if name is None else [name]:
        try:
            found += open_questions(journal_path(workspace, one))
        except JournalError as error:                          # one that can't be read hides none of the others
            if name is not None:
                raise
            damaged.append(f"{one}: {error}")
    found.sort(key=lambda question: question.at)
    if number is not None and name is not None:
        found = [numbered(found, name, number)]
    if json:
        say_json([question.as_json() for question in found])
    else:
        of = f"run `{name}`" if name else f"no run in {workspace}/"
        say(inbox_lines(found, page(), _where(workspace), whole=number is not None)
            or [f"{of} asks {'nothing' if name else 'anything'}"])
        say(damaged)
    return 0


def answer(name: RunName,
           words: Annotated[list[str] | None, typer.Argument(
               metavar="[QUESTION] [TEXT]", help="Number of the question, if there are several; then the answer.")] = None,
           yes: Annotated[bool, typer.Option("--yes", help="Allow, approve or confirm.")] = False,
           no: Annotated[bool, typer.Option("--no", help="Deny or reject.")] = False,
           choice: Annotated[str | None, typer.Option("--choice", metavar="CHOICE", help="Answer with this choice.")] = None,
           reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Reason, passed to the role that asked.")] = "",
           scope: Annotated[str, typer.Option(
               "--for", metavar="SCOPE",
               help="Scope of an allowed action: once, run (equal actions too), rule (all that the rule covers).")] = "once",
           arguments: Annotated[str | None, typer.Option(
               "--arguments", metavar="JSON", help="With --yes: use these arguments for the action.")] = None,
           resume: Annotated[bool, typer.Option("--resume", help="Resume the run immediately.")] = False,
           workspace: Workspace = WORKSPACE,
           json: Json = False) -> int:
    """Answer a question of a run. A running run continues by itself, another one with `sop resume`."""
    import asyncio

    from metaflow_agents.journal.places import journal_path
    from metaflow_agents.questions.answering import answer_of, give
    from metaflow_agents.questions.inbox import chosen, open_questions
    from metaflow_agents.settings import Settings
    from metaflow_agents.views.questions import ways

    if yes and no:
        raise UsageError("`--yes` and `--no` are two answers: give one")
    path = journal_path(workspace, name)
    questions = open_questions(path)
    number, text = _split(words or [], questions, said=yes or no or choice is not None)
    if choice is not None and text is not None:
        raise UsageError(f"`--choice {choice}` and {text!r} are two answers: give one")
    question = chosen(questions, name, number)
    try:
        found = answer_of(question.question, text=text if choice is None else choice, reason=reason, scope=scope,
                          verdict="yes" if yes else "no" if no else None, arguments=arguments)
    except UsageError as error:
        if question.question.kind != "effect":
            raise
        raise UsageError(f"{error}; " + ", or ".join(f"`{way}`" for way in ways(question, _where(workspace)))) from None
    taken = asyncio.run(give(path, question.question, found, Settings.read()))
    if resume and not taken:
        return _resumed(name, workspace, json)
    left = sum(not one.given for one in questions) - 1
    _tell(name, question, found, taken, left, workspace, json=json)
    return 0


def _split(words: list[str], questions: list[Open], *, said: bool) -> tuple[int | None, str | None]:
    """Question and text. One word is the text, unless an option says the answer already. Raises UsageError."""
    if len(words) > 2 or (said and len(words) > 1):
        raise UsageError(f"`{words[-1]}` is one word too many: an answer of several words stands in quotes")
    if not words:
        return None, None
    if len(words) == 1 and not said:
        number = next((one.number for one in questions if str(one.number) == words[0]), None)
        if number is not None:
            raise UsageError(f"`{words[0]}` is a question's number, and the answer is missing; where it is the answer, write the "
                             f"number before it, as in `sop answer RUN {number} {words[0]}`")
        return None, words[0]
    if not words[0].isdecimal():
        raise UsageError(f"`{words[0]}` is no number of a question: `sop inbox` lists them")
    return int(words[0]), words[1] if len(words) == 2 else None


def _resumed(name: str, workspace: Path, json: bool) -> int:
    from metaflow_agents.api.run import go_on
    from metaflow_agents.cli.drive import drive
    from metaflow_agents.cli.options import collector

    return drive(go_on(name, workspace=workspace), workspace, json=json, otel=collector(None, content=False))


def _tell(name: str, question: Open, answer: Answer, taken: str, left: int, workspace: Path, *, json: bool) -> None:
    if json:
        say_json({"run": name, "number": question.number, "key": question.question.key, "open": left,
                  "handed_over": bool(taken), "answer": answer.model_dump(mode="json", exclude_defaults=True)})
        return
    more = f"; {left} more to answer" if left else ""
    if taken:
        say([f"question {question.number} is answered: {taken}, which takes it in{more}"])
    else:
        onward = "" if left else f"; go on: sop resume {name}{_where(workspace)}"
        say([f"question {question.number} of {name} is answered{more}{onward}"])


def _where(workspace: Path) -> str:
    return "" if workspace == WORKSPACE else f" --workspace {workspace}"
