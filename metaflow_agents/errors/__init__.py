"""Every error that this package raises, split by whose fault it is.

The tree::

    MetaflowError
    ├── SOPError                 what you wrote has to change            exit status 2
    │   ├── SOPInvalid           the file has problems, all listed
    │   ├── SOPNotFound          no such SOP, role, template or schema file
    │   ├── UsageError           wrong option, missing input, unknown run
    │   │   └── NotHere          a secret is not set, no sandbox holds
    │   └── RunBusy              the run is open in another process
    ├── RunError                 the run could not go on                 exit status 1
    │   ├── StepFailed           an activation failed for good
    │   ├── AttemptFailed        a doer failed: a function raised, a model gave nothing
    │   │   ├── Stuck            the same came again and again: no further attempt is made
    │   │   │   └── Halted       a person stopped the run where it was about to act
    │   │   │       └── Screened a screen of the policy refuses what is said
    │   │   ├── ForeignRefused   what somebody else wrote takes too long, too much memory, or breaks its parser
    │   │   └── Unexpected       something was raised in the attempt that no rule speaks of: a fault of the code
    │   ├── AnswerInvalid        what a doer gave back breaks its schema, rules or paths
    │   │   └── FilesInvalid     files that break rules, or of which some paths may not be written
    │   ├── ExpressionError      an expression or template failed on the values it met
    │   ├── PromptChanged        a recorded call's prompt is another one now
    │   ├── FetchFailed          a host can't be reached, or its answer can't be taken
    │   │   └── FetchRefused     it may not be reached: an odd or private host, one that is not granted
    │   ├── JournalError         the journal can't be read or written (disk full, damaged)
    │   └── MemoryFault          the project's memory file can't, or an index over it is not installed
    ├── BudgetExceeded           a cap stops the run                     exit status 3
    ├── Waiting                  a person has to answer first            exit status 4
    └── ModelMissing             no model to ask                         exit status 5
        └── EndpointRefused      its endpoint refuses every call: a wrong key, an unknown model

A message names the value, where it stands, the choices that exist, and the mend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from itertools import islice
from traceback import format_exception
from types import TracebackType
from typing import Literal

from metaflow_agents.errors.encodable import encodable, words_of

Severity = Literal["error", "warning"]
_LONGEST = 4000                     # characters of what a problem tells
_CAPS = 3                           # caps that a run which met several tells of
_SAID = 2000                        # characters of what an exception of somebody else's code says
_FRAMES = 12                        # of a traceback, the innermost
_TRACE = 8000                       # characters of a traceback that is kept
_LONGEST_NAME = 120                 # characters of a name that is compared with others, or told whole
_MOST_NAMES = 2000                  # that one is compared with
_WORK = 400_000                     # pairs of letters that are compared for one name: what is like it has been seen by then
_LIKE = 0.6


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding about a file that a person wrote.

    `line` and `column` count from 1; 0 means the file as a whole.
    """

    code: str
    message: str
    mend: str
    file: str
    line: int = 0
    column: int = 0
    severity: Severity = "error"

    def __post_init__(self) -> None:
        for field in ("message", "mend"):
            text = getattr(self, field)
            if len(text) > _LONGEST:        # a name of a megabyte is not told back whole
                object.__setattr__(self, field, f"{text[:_LONGEST // 2]} … {text[-_LONGEST // 2:]}")

    @property
    def place(self) -> str:
        """`file:line:column`, as editors and terminals link it."""
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    def __str__(self) -> str:
        mend = f"\n    fix: {self.mend}" if self.mend else ""
        return f"{self.place}: {self.severity}[{self.code}]: {self.message}{mend}"

    def as_json(self) -> dict[str, object]:
        """The form that `sop check --json` prints."""
        return asdict(self)


class MetaflowError(Exception):
    """Base of all errors raised by this package. `exit_status` is what the command line ends with."""

    exit_status = 1


class SOPError(MetaflowError):
    """What a person wrote has to change before anything can run."""

    exit_status = 2


class SOPInvalid(SOPError):
    """A SOP (or a file that it names) has problems; `problems` holds all of them. `what` names the file's kind for people."""

    def __init__(self, problems: Iterable[Problem], what: str = "the SOP") -> None:
        self.problems, self.what = tuple(problems), what
        super().__init__("\n".join(str(problem) for problem in self.problems))


class SOPNotFound(SOPError):
    """No file of that name: a SOP, a role, a template or a schema."""


class UsageError(SOPError):
    """The command or the call can't be carried out as it was given."""


class NotHere(UsageError):
    """What a run wants is not there on this machine: a secret that is not set, a sandbox that holds."""


class RunSucceeded(UsageError):
    """The run has succeeded, and nothing is left to go on with."""


class RunBusy(SOPError):
    """The run's journal is open in another process."""


class RunError(MetaflowError):
    """The run could not go on. `untrusted`: what of its words came from outside the user, as `schema/trust.py` says it."""

    untrusted: str = ""


class StepFailed(RunError):
    """An activation failed for good: all its attempts are used up, or (`halted`) a person or a screen stopped it."""

    def __init__(self, activation: str, error: str, *, halted: bool = False) -> None:
        self.activation, self.error, self.halted = activation, error, halted
        super().__init__(f"{activation}: {error}")


class AttemptFailed(RunError):
    """A step failed at one attempt: its function raised, its model gave nothing, its time was up."""


class Stuck(AttemptFailed):
    """The same came again and again, whatever was tried; the message says what. No further attempt is made."""


class Halted(Stuck):
    """A person stopped the run where it was about to act. It stops whatever `on_fail` says, and a resume asks again."""


class Screened(Halted):
    """A screen of the policy refuses what was given, asked of a tool, got from it or made; the message names the rule."""


class Unexpected(AttemptFailed):
    """An exception of no kind that the code foresees: told with its type, its words and its place, and with the end of its
    traceback in `trace`. It fails the attempt in which it was raised like any other failure, and is never passed over.
    """

    def __init__(self, error: BaseException) -> None:
        self.trace = _trace(error)
        super().__init__(f"unexpected {raised(error)}")

class ForeignRefused(AttemptFailed):
    """Bytes that somebody else wrote take more processor time or memory than they are given, or break their parser.

    The message goes on from the name of what was read: `took more than 10 s of processor time`.
    """


class AnswerInvalid(RunError):
    """What a step gave back does not fit its artifact. `faults` are told to its author, word for word."""

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(self.faults))


class FilesInvalid(AnswerInvalid):
    """Files that can't be taken as they are. `refused`: the paths that may not be written, or not so."""

    def __init__(self, faults: Iterable[str], refused: Iterable[str]) -> None:
        super().__init__(faults)
        self.refused = frozenset(refused)


class ExpressionError(RunError):
    """An expression or a template failed on the values that it met."""


class PromptChanged(RunError):
    """A call that is in the journal would now be asked with another prompt."""


class FetchFailed(RunError):
    """A host could not be reached, or what it answered can't be taken."""


class FetchRefused(FetchFailed):
    """A host may not be reached: it is written in an odd way, lies in a private range, or is not granted."""


class JournalError(RunError):
    """The journal could not be written or read."""


class MemoryFault(RunError):
    """The project's memory file can't be read or written, or what an index over it takes is not installed."""


class BudgetExceeded(MetaflowError):
    """A cap on calls, tokens, money or time ends the run, once all else has come to its end; its state is kept.

    `told`: each cap in words, or what gives them: of the caps on calls, tokens and money once nothing is under way any more.
    """

    exit_status = 3

    def __init__(self, *told: str | Callable[[], str]) -> None:
        super().__init__(*told)
        self.told = told

    def __str__(self) -> str:
        said = list(dict.fromkeys(one if isinstance(one, str) else one() for one in self.told))
        return "; ".join(said[:_CAPS]) + (f"; … ({len(said)} in all)" if len(said) > _CAPS else "")


class Waiting(MetaflowError):
    """Work can't go on before a person has answered; `keys` are those of the questions. It is no failure: the run resumes."""

    exit_status = 4

    def __init__(self, keys: Iterable[str]) -> None:
        self.keys = tuple(dict.fromkeys(keys))
        super().__init__(f"waiting for an answer to {', '.join(self.keys)}")


class ModelMissing(MetaflowError):
    """A role needs a model and none is configured."""

    exit_status = 5


class EndpointRefused(ModelMissing):
    """An endpoint refuses what every other call would ask too: a wrong key, an unknown model, a limit that holds for hours."""


ATTEMPT = (AnswerInvalid, AttemptFailed, ExpressionError, FetchFailed)
"""What fails an attempt; every other error of this package stops the run: an attempt can't have caused it."""


def raise_first(errors: Iterable[BaseException]) -> None:
    """Of what went wrong side by side, the first fault; else, all questions that are waited for; nothing where nothing did."""
    listed = list(errors)
    for error in listed:
        if not isinstance(error, Waiting):
            raise error
    if listed:
        raise Waiting(key for error in listed if isinstance(error, Waiting) for key in error.keys)


def nearest(name: str, choices: Iterable[str], *, like: float = _LIKE) -> str | None:
    """The existing name that a mistyped one probably meant, or None. `like`: how much they have in common at least, 0 to 1.

    The work is bounded: very long names are like nothing, and of very many choices the first count.
    """
    if len(name) > _LONGEST_NAME:
        return None
    best: tuple[float, str] | None = None
    work = _WORK
    matcher = SequenceMatcher(b=name)
    for choice in islice(choices, _MOST_NAMES):
        if len(choice) > _LONGEST_NAME:
            continue
        matcher.set_seq1(choice)
        least = like if best is None else best[0]
        if matcher.real_quick_ratio() < least or matcher.quick_ratio() < least:
            continue
        work -= len(name) * len(choice)
        if work < 0:
            break
        found = matcher.ratio(), choice
        if found[0] >= like and (best is None or found > best):
            best = found
    return None if best is None else best[1]


def did_you_mean(name: str, choices: Iterable[str], *, limit: int = 12) -> str:
    """A mend that names the nearest choice and then the choices that exist."""
    names = list(dict.fromkeys(choices))
    close = nearest(name, names)
    shown = [one if len(one) <= _LONGEST_NAME else f"{one[:_LONGEST_NAME]}…" for one in names[:limit]]
    listed = ", ".join(shown) + (f", … ({len(names)} in all)" if len(names) > limit else "")
    first = f"did you mean `{close}`? " if close else ""
    return f"{first}there is: {listed}" if names else f"{first}there is none"


def raised(error: BaseException) -> str:
    """What somebody else's code raised, in a line: type, message, and the innermost frame's place: module:line in this package,
    file:line elsewhere. Never fails, and is never long.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    said = words_of(error, _SAID)
    return encodable(f"{type(error).__name__}{': ' if said else ''}{said}{'' if trace is None else f' ({_place(trace)})'}")


def _place(trace: TracebackType) -> str:
    module = str(trace.tb_frame.f_globals.get("__name__", ""))
    file = trace.tb_frame.f_code.co_filename.rsplit("/", 1)[-1]
    return f"{module if module.startswith('metaflow_agents.') else file}:{trace.tb_lineno}"


def _trace(error: BaseException) -> str:
    """The innermost frames of a traceback, in a bounded text."""
    try:
        written = encodable("".join(format_exception(error, limit=-_FRAMES)))
    except Exception as failure:                # of an exception that can't be told, by how that failed
        return f"the traceback can't be written: {type(failure).__name__}"
    return written if len(written) <= _TRACE else f"{written[:_TRACE // 4]}\n…\n{written[-_TRACE * 3 // 4:]}"


def failure_of(error: BaseException) -> MetaflowError:
    """What something raised in an attempt means: of what went wrong at once, what stops the run, else the first failure, else
    the questions that are waited for. What is no error of this package is Unexpected.
    """
    if isinstance(error, MetaflowError):
        return error
    if not isinstance(error, BaseExceptionGroup):
        return Unexpected(error)
    found = [failure_of(inner) for inner in error.exceptions]
    listed = [one for one in found if not isinstance(one, Waiting)]
    stopping = [one for one in listed if not isinstance(one, ATTEMPT)]
    if listed:
        return (stopping or listed)[0]
    return Waiting(key for one in found if isinstance(one, Waiting) for key in one.keys)
