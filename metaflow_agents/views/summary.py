"""What a run made, what it cost, what never fired and why, and how to go on."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from metaflow_agents.journal.ledger import KINDS, Ledger, ledger
from metaflow_agents.journal.places import artifacts_of
from metaflow_agents.journal.projection import Outline
from metaflow_agents.journal.repeats import as_sent, repeated
from metaflow_agents.journal.values import Values
from metaflow_agents.models.pricing import dollars
from metaflow_agents.output.history.standing import Standing
from metaflow_agents.questions.question import Answer, Question
from metaflow_agents.schema import acting_files
from metaflow_agents.schema.payload import Collection, Data, Files, Held
from metaflow_agents.schema.program import Program
from metaflow_agents.views.calling import tries_told
from metaflow_agents.views.event_log import OUTCOMES, repair_told, spoken
from metaflow_agents.views.gave import held_told
from metaflow_agents.views.outputs import outputs_lines
from metaflow_agents.views.page import Page, columns, safe, table
from metaflow_agents.views.roles_table import cast, cast_told
from metaflow_agents.views.wording import amount, duration, moment, money

_SANDBOXES = {"none": "none: commands run unconfined"}
_NAMED = 12                         # files that are named for one reason
_STYLES = {"success": "green", "until": "green", "running": "cyan"}


@dataclass(frozen=True, slots=True)
class Told:
    """A run as its journal tells it; `home` is the workspace, as it was given; `events` reads its rows by kind."""

    name: str
    program: Program
    outline: Outline
    values: Values
    home: Path
    events: Callable[..., Iterator[tuple[int, Mapping[str, Any]]]] = lambda *_: iter(())

    def costs(self) -> Ledger:
        """What it cost, by step, role, model and item."""
        return ledger(self.events(*KINDS))

    def repeated(self) -> float:
        """The share of its prompts that repeats the beginning of an earlier one to the same model."""
        return repeated((event["model"], as_sent(self.values.data(event["request"]))) for _, event in self.events("reserved"))

    @property
    def standing(self) -> str:
        """An outcome, `running` or `killed`."""
        return self.outline.glance.state

    @property
    def folder(self) -> Path:
        """Where the run's files lie."""
        return self.home / self.name

    @property
    def journal(self) -> Path:
        """Where its journal lies."""
        return self.home / ".journals" / f"{self.name}.db"

    def as_json(self) -> dict[str, Any]:
        """What `sop show --json` and `sop run --json` print; values of outputs are asked for one by one."""
        run, glance = self.outline, self.outline.glance
        return {
            "run": self.name,
            "sop": self.program.sop.sop,
            "file": run.location,
            "state": glance.state,
            "reason": glance.reason,
            "folder": str(self.folder),
            "journal": str(self.journal),
            "began": glance.began,
            "seconds": glance.seconds,
            "activations": glance.activations,
            "calls": glance.calls,
            "tokens": glance.tokens,
            "tokens_cached": glance.tokens_cached,
            "cost": glance.usd,
            "estimated": glance.estimated > 0,
            "unpriced": glance.unpriced,
            "unanswered": glance.unanswered,
            "tries": {"failed": dict(run.tries), "waited": run.waited},
            "left_out": run.left_out,
            "untaken": run.untaken,
            "kept": run.kept,
            "kept_without": run.kept_without,
            "models": dict(run.models),
            "sandbox": run.sandbox,
            "roles": cast(self.program, run.models),
            "artifacts": {name: {"version": len(made), "made_by": made[-1].firing, "untrusted": made[-1].untrusted,
                                 **self._where(name, made[-1].payload)}
                          for name, made in run.versions.items() if name not in self.program.sop.inputs},
            "steps": {name: run.fired.get(name, 0) for name in self.program.sop.steps},
            "inside": dict(run.inside),
            "never": dict(run.never),
            "staged": None if run.staged is None else [
                {"key": one.key, "action": one.action, "verdict": one.verdict, "arguments": self.values.plain(one.arguments)}
                for one in run.staged],
            "looked_up": run.looked_up,
            "repaired": self.repaired(),
            "assumed": {key: self.answer(digest).model_dump(mode="json", exclude_defaults=True)
                        for key, digest in run.assumed.items()},
            "answered_by_yes": [{"key": key, "kind": one.kind, "action": one.action or one.text, "rule": one.rule,
                                 "untrusted": one.untrusted} for key, one in self.by_yes().items()],
        }

    def by_yes(self) -> dict[str, Question]:
        """The questions that `--yes` answered, by key."""
        return {key: Question.model_validate_json(self.values.data(digest)) for key, digest in self.outline.by_yes.items()}

    def repaired(self) -> dict[str, dict[str, Any]]:
        """Call whose answer was not in its form → `changes`, in words, or `refused`: why it was not repaired."""
        found = {key: self.values.plain(digest) for key, digest in self.outline.repaired.items()}
        return {key: {word: part for word, part in one.items() if word != "text"} for key, one in found.items()}

    def answer(self, digest: str) -> Answer:
        """What somebody said, or what was assumed."""
        return Answer.model_validate_json(self.values.data(digest))

    def _where(self, artifact: str, payload: str) -> dict[str, Any]:
        held = self.values.payload(payload)
        if isinstance(held, Files):
            return {"files": list(held.files), "missing": list(held.missing)}
        spec = self.program.sop.artifacts.get(artifact)
        found: dict[str, Any] = {"file": spec.file if spec else None}
        if documents := _documents(held):
            found["documents"] = list(documents)
        if isinstance(held, Collection):
            found |= {"keys": [key for key, _ in held.items], "missing": list(held.missing)}
        return found


def ending_lines(told: Told, page: Page) -> list[str]:
    """What stands at the end of `sop run` and `sop resume`."""
    word, colon, reason = _standing(told).partition(":")
    style = _STYLES.get(told.standing, "red")
    lines = [f"{page.paint(told.name, 'bold')}: {page.paint(word, style, 'bold')}{colon}{safe(reason, lines=True)}",
             *kept_lines(told.outline.kept, told.outline.kept_without, page), *_left_out(told, page), *_made(told, page),
             *outputs_lines(told.program, told.outline, told.values, str(told.folder), page),
             *_acting(told, page), *_repaired(told, page), *_assumed(told, page), *_by_yes(told, page), *_staged(told, page)]
    never = told.outline.never
    if never:
        lines += ["never fired:", *table([[name, why] for name, why in never.items()], page, indent="  ")]
    lines += page.wrapped(f"cost: {_cost(told)}, {duration(told.outline.glance.seconds)}")
    lines += [line for fact in _tries(told) for line in page.wrapped(f"failed tries: {fact}")]
    if told.outline.sandbox == "none":
        lines += page.wrapped(page.paint("commands ran unconfined, as `--sandbox none` allows", "yellow"))
    return [*lines, *_onward(told, page)]


def show_lines(told: Told, history: Standing, page: Page) -> list[str]:
    """`sop show RUN`."""
    run, glance = told.outline, told.outline.glance
    facts = [
        ["SOP", f"{told.program.sop.sop}  {run.location}".rstrip()],
        ["state", _standing(told)],
        ["began", f"{moment(glance.began)}, {'its last event after' if told.standing == 'running' else 'under way for'} "
                  f"{duration(glance.seconds)}"],
        ["cost", _cost(told)],
        *[["tries", f"failed: {fact}"] for fact in _tries(told)],
        *[["" if number else "models", line] for number, line in enumerate(cast_told(told.program, run.models) or ["none"])],
        *([["sandbox", _SANDBOXES.get(run.sandbox, run.sandbox)]] if run.sandbox else []),
        ["folder", f"{told.folder}/"],
        ["history", _history(told, history)],
        ["journal", str(told.journal)],
    ]
    lines = [page.paint(told.name, "bold")]
    lines += [line for word, fact in facts for line in page.wrapped(safe(fact, lines=True), f"  {word:<9}")]
    lines += ["", *kept_lines(run.kept, run.kept_without, page), *_left_out(told, page),
              *(_made(told, page) or ["nothing was made"]), *_acting(told, page), *_repaired(told, page),
              *_assumed(told, page), *_by_yes(told, page), *_staged(told, page)]
    rows = []
    for name in told.program.sop.steps:
        fired = name in run.fired
        rows.append([name, amount(run.fired[name], "firing") if fired else "never",
                     _items(told, name) if fired else run.never.get(name, "")])
        if fired:
            rows += _inside(told.program, name, name, run.inside)
    lines += ["", *table(rows, page, headings=("step", "fired", ""), indent="  ")]
    onward = _onward(told, page)
    return [*lines, "", *onward] if onward else lines


def _history(told: Told, history: Standing) -> str:
    """How far the git history is, and what writes the rest."""
    last = f"the last {history.head} {history.subject}"
    if history.written == history.commits:
        text = f"{amount(history.commits, 'commit')} on main, {last}"
    elif history.head and history.written is None:
        text = f"main is at a commit that is not the run's: {history.head} {history.subject}"
    elif told.standing == "running":
        text = f"{history.written} of {amount(history.commits, 'commit')}; the rest is written when the run rests"
    else:
        command = f"sop history {told.name}{_where(told)}"
        text = f"{history.written} of {amount(history.commits, 'commit')}; `{command}` writes the rest"
    kept = f"; what somebody else committed is on {', '.join(history.kept)}" if history.kept else ""
    return text + kept


def _where(told: Told) -> str:
    return "" if told.home == Path("workspace") else f" --workspace {told.home}"


def _items(told: Told, step: str) -> str:
    active = next((firing for firing in told.outline.active.values() if firing.step == step), None)
    if active is not None:
        how = "under way" if told.standing in ("running", "waiting") else "unfinished"
        return how if active.items is None else f"{how}, {active.done:,} of {amount(len(active.items), 'item')}"
    return amount(told.outline.walked.get(step, 0), "item") if told.program.sop.steps[step].foreach else ""


def _inside(program: Program, step: str, path: str, fired: Mapping[str, int]) -> list[list[str]]:
    """The steps of a step that is a SOP, as rows of their own."""
    rows: list[list[str]] = []
    inner = program.sops.get(program.sop.steps[step].sop or "")
    for name in () if inner is None else inner.sop.steps:
        own = f"{path}/{name}"
        rows.append([own, amount(fired[own], "firing") if own in fired else "never", ""])
        if own in fired and inner is not None:
            rows += _inside(inner, name, own, fired)
    return rows


def _cost(told: Told) -> str:
    glance = told.outline.glance
    paid = [money(glance.cost, glance.estimated)] if glance.cost else []
    if glance.unpriced and paid:
        paid[0] += f" and {amount(glance.unpriced, 'call')} whose price is not known"
    cached = f" ({glance.tokens_cached:,} of them cached)" if glance.tokens_cached else ""
    return ", ".join([*paid, amount(glance.calls, "call"), f"{amount(glance.tokens, 'token')}{cached}",
                      amount(glance.activations, "activation")]) + _unanswered(told)


def _tries(told: Told) -> list[str]:
    fact = tries_told(told.outline.tries, told.outline.waited)
    return [fact] if fact else []


def _unanswered(told: Told) -> str:
    """Calls that were sent and not answered: they may have cost something, and stand against the caps."""
    glance = told.outline.glance
    if not glance.open_calls:
        return ""
    most = f"at most {amount(glance.open_tokens, 'token')}{f' and {dollars(glance.open_cost)}' if glance.open_cost else ''}"
    if told.standing == "running":
        return f"; {amount(glance.open_calls, 'call')} under way, {most}"
    return f"; {amount(glance.open_calls, 'call')} never answered, {most}, not counted here"


def _standing(told: Told) -> str:
    """How the run stands, and why where that says more."""
    word, reason = OUTCOMES[told.standing], told.outline.glance.reason
    return f"{word}: {reason}" if reason not in ("", word) else word


def _made(told: Told, page: Page) -> list[str]:
    rows = []
    for name, made in told.outline.versions.items():
        if name not in told.program.sop.inputs:
            last = made[-1]
            told_of = [_place(told, name, last.payload), f"untrusted: {safe(last.untrusted)}" if last.untrusted else ""]
            rows.append([f"{name}@{len(made)}", last.firing or "given", ", ".join(filter(None, told_of))])
    return table(rows, page, headings=("made", "by", f"in {told.folder}/"), indent="  ") if rows else []


def kept_lines(kept: Mapping[str, str], without: Mapping[str, Mapping[str, str]], page: Page) -> list[str]:
    """Which inputs were read from what an earlier run left, and which runs were passed over (`RunOpened.kept_without`)."""
    told = [f"`{name}` is kept from {source}" for name, source in kept.items()]
    told += [f"nothing was kept for `{name}`: it has its default" for name in without if name not in kept]
    lines = [line for one in told for line in page.wrapped(safe(one))]
    for name, runs in without.items():
        if runs:
            listed = ", ".join(f"`{run}` ({OUTCOMES.get(standing, standing)})" for run, standing in runs.items())
            one = f"not in `{name}`: what runs make that began later: {listed}; to have it, let them succeed and begin anew"
            lines += page.wrapped(page.paint(safe(one), "yellow"))
    return lines


def _left_out(told: Told, page: Page) -> list[str]:
    """What of folders was not read."""
    lines = [f"left out of `{name}`: {', '.join(listed)}; `--everything` takes all"
             for name, listed in told.outline.left_out.items()]
    lines += [f"left out of `{name}` ({why}): {', '.join(listed)}"
              for name, reasons in told.outline.untaken.items() for why, listed in reasons.items()]
    return [line for one in lines for line in page.wrapped(safe(one))]


def _acting(told: Told, page: Page) -> list[str]:
    """Files in the run's folder that programs obey by their names: those that were written in the run. Of a folder that a person
    gave, what stands there as it was is none.
    """
    paths: list[str] = []
    folders = [held.files for name in told.program.sop.inputs for made in told.outline.versions.get(name, ())[:1]
               if isinstance(held := told.values.payload(made.payload), Files)]
    for name, made in told.outline.versions.items():
        spec = told.program.sop.artifacts.get(name)
        if spec is not None and spec.file is not None:
            paths += (spec.file, *spec.documents)
        elif spec is not None and isinstance(held := told.values.payload(made[-1].payload), Files):
            paths += [path for path, blob in held.files.items() if all(files.get(path) != blob for files in folders)]
    found: dict[str, list[str]] = {}
    for path, why in acting_files.told(paths).items():
        found.setdefault(why, []).append(path)
    lines = [line for why, names in found.items() for line in page.wrapped(safe(f"{why}: {_some(names)}"), "  ")]
    return ["files that act:", *lines] if lines else []


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _place(told: Told, artifact: str, payload: str) -> str:
    """Where a version lies in the run's folder, or what it holds."""
    held = told.values.payload(payload)
    spec = told.program.sop.artifacts.get(artifact)
    if isinstance(held, Files):
        lost = f", {len(held.missing)} missing" if held.missing else ""
        if len(held.files) == 1:
            return f"{next(iter(held.files))}{lost}"
        common = _common(held.files)
        where = f"{common}/: " if common.parts else ""
        return f"{where}{amount(len(held.files), 'file')}{lost}"
    if spec is not None and spec.file is not None:
        return ", ".join((spec.file, *_documents(held)))
    if isinstance(held, Collection):
        return amount(len(held.items), "item") + (f", {len(held.missing)} missing" if held.missing else "")
    return safe(held_told(held))


def _documents(held: Held) -> Mapping[str, str]:
    return held.documents if isinstance(held, Data) else {}


def _repaired(told: Told, page: Page) -> list[str]:
    """Answers that were taken although they were not in their form, and what was changed in them."""
    rows = [[spoken(key), repair_told(one)] for key, one in told.repaired().items() if "changes" in one]
    shown = [[key, safe(words)] for key, words in rows[:_NAMED]]
    more = [f"  and {len(rows) - _NAMED} more: `sop log {told.name}{_where(told)} --kind observed`"] if len(rows) > _NAMED else []
    return [f"repaired, {amount(len(rows), 'answer')}:", *table(shown, page, indent="  "), *more] if rows else []


def _assumed(told: Told, page: Page) -> list[str]:
    """What nobody answered, and what was taken for the answer."""
    if not told.outline.assumed:
        return []
    rows = [[key, _taken(told.answer(answer))] for key, answer in told.outline.assumed.items()]
    return ["assumed, since nobody answered:", *table(rows, page, indent="  ")]


def _by_yes(told: Told, page: Page) -> list[str]:
    """What `--yes` answered; each question of trust with what had been read, since nobody looked at it."""
    asked = told.by_yes()
    rows = [[one.role or one.step, one.action or one.text, one.untrusted] for one in asked.values() if one.untrusted]
    lines = [f"`--yes` answered {amount(len(asked), 'question')}, {len(rows) or 'none'} of them after reading from outside"
             f"{':' if rows else ''}"] if asked else []
    return [*lines, *table(rows, page, indent="  ")]


def _staged(told: Told, page: Page) -> list[str]:
    """What acting tools would have done."""
    if told.outline.staged is None:
        return []
    counted = Counter(told.outline.looked_up)
    looked = [line for action, times in counted.items() for line in page.wrapped(
        safe(f"{action}{f', {times} times' if times > 1 else ''}"), "  ")]
    looked = ["staged: looked up, since the SOP says that it changes nothing (`effect: none`):", *looked] if looked else []
    if not told.outline.staged:
        return looked or ["staged: no acting tool was called"]
    lines = [*looked, "staged: nothing of this was done:"]
    for one in told.outline.staged:
        asks = " (a person would be asked first)" if one.verdict == "ask" else ""
        arguments = json.dumps(told.values.plain(one.arguments), ensure_ascii=False)
        lines += [*page.wrapped(safe(f"{one.action}{asks}"), "  "), *page.wrapped(safe(arguments), "    ")]
    return lines


def _taken(answer: Answer) -> str:
    return {"no": "no", "yes": "yes"}.get(answer.verdict) or answer.text or "nothing"


def _common(files: Mapping[str, str]) -> PurePosixPath:
    folders = [PurePosixPath(path).parent.parts for path in files]
    shared = []
    for parts in zip(*folders, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return PurePosixPath(*shared)


def _onward(told: Told, page: Page) -> list[str]:
    """How to go on: always how to look, and how to resume where something is left to do."""
    where = _where(told)
    if told.standing == "running":
        return []
    ways = [(f"sop show {told.name} ARTIFACT{where}", "an artifact's value"),
            (f"sop log {told.name}{where}", "the event log")]
    if artifacts_of(told.folder).is_dir():
        ways.append((f"ls {shlex.quote(str(artifacts_of(told.folder)))}", "artifacts that have no file in the run's folder"))
    if any(getattr(told.values.payload(made[-1].payload), "missing", ()) for made in told.outline.versions.values()):
        ways.append((f"sop log {told.name} --kind failed{where}", "what failed, and why"))
    if told.standing == "success":
        pass
    elif told.standing == "budget":
        measure = _cap(told)
        ways.insert(0, (f"sop resume {told.name} --budget {measure}=…{where}", "goes on with a higher cap") if measure else
                    (f"sop resume {told.name} --accept-changes{where}", "goes on once the SOP gives it a higher cap"))
    elif told.standing == "waiting":
        ways[:0] = [(f"sop inbox {told.name}{where}", "what is asked"),
                    (f"sop answer {told.name} …{where}", "answers, also days later"),
                    (f"sop resume {told.name}{where}", "goes on once it is answered, or asks here")]
    elif told.standing == "failure":
        at = told.outline.last or "FIRING"
        ways.insert(0, (f"sop fork {told.name} --at {at}{where}", "branches off before a firing"))
    else:
        ways.insert(0, (f"sop resume {told.name}{where}", "goes on where it stands"))
    if page.width is None or all(columns(command) + 26 <= page.width for command, _ in ways):
        return table(ways, page, indent="  ", styles={0: lambda _: "cyan"})
    return [f"  {page.paint(safe(command), 'cyan')}" for command, _ in ways]       # a command that is cut helps nobody


def _cap(told: Told) -> str | None:
    """The cap that was reached, as `--budget` has it: `calls`, `build/time`; None for a role's, which its file has."""
    found = re.search(r"--budget ((?:\w+/)*(?:usd|tokens|calls|time))=", told.outline.glance.reason)
    return None if found is None else found[1]
