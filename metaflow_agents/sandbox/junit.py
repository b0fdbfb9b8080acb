"""pytest's JUnit XML as data: counts and failures, without durations, addresses or anything that differs from run to run.

The file comes from a command that may run anybody's code: it is read by expat as a stream, and one that declares a
document type or entities (what XML bombs are made of) is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

from metaflow_agents.errors import AnswerInvalid

MESSAGE_CHARACTERS = 2000
MAX_BYTES = 4_000_000
MAX_CASES = 10_000
_PLACE = re.compile(r"^(?:E\s+)?(?:File \")?([^\s:\"][^:\"\n]*\.py)(?::|\", line )(\d+)(?:: (?:in )?([\w.]+))?", re.MULTILINE)
_ELSEWHERE = ("/", "../", "~")
"""How paths begin that lie in Python, its packages, or anywhere else outside the repository."""
_EXCEPTION = re.compile(r"([A-Za-z_][\w.]*)(?::|$)", re.MULTILINE)
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{4,}\b")
_NO_XML = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]|&#(?:x0*([0-9A-Fa-f]{1,8})|0*([0-9]{1,9}));")
"""Characters that XML 1.0 does not have, and references by number, which may be to one: node writes names as they are."""
_STAGE = re.compile(r"""failed on (?:setup|teardown) with (["'])(.*)\1""", re.DOTALL)


@dataclass(slots=True)
class _Case:
    name: str
    classname: str
    file: str
    outcomes: dict[str, tuple[str, str, str]] = field(default_factory=dict)     # kind → (message, type, text)


class _TooManyCases(Exception):
    """More than are read."""


class _Reader:
    """Handlers for expat that keep test cases and what became of them."""

    def __init__(self) -> None:
        self.cases: list[_Case] = []
        self._root = True
        self._open: _Case | None = None
        self._kind = ""
        self._message = self._type = ""
        self._text: list[str] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if self._root and tag not in ("testsuites", "testsuite"):
            raise AnswerInvalid([f"it starts with <{tag}> where <testsuites> is expected"])
        self._root = False
        if tag == "testcase":
            if len(self.cases) >= MAX_CASES:
                raise _TooManyCases
            self._open = _Case(attributes.get("name", ""), attributes.get("classname", ""), attributes.get("file", ""))
            self.cases.append(self._open)
        elif tag in ("failure", "error", "skipped") and self._open is not None:
            self._kind, self._text = tag, []
            self._message, self._type = attributes.get("message", ""), attributes.get("type", "")

    def text(self, data: str) -> None:
        if self._kind:
            self._text.append(data)

    def end(self, tag: str) -> None:
        if tag == self._kind and self._open is not None:
            self._open.outcomes.setdefault(tag, (self._message, self._type, "".join(self._text)))
            self._kind = ""
        elif tag == "testcase":
            self._open = None


def _sayable(xml: bytes) -> bytes:
    """With U+FFFD for each character that XML does not have (https://www.w3.org/TR/xml/#charsets)."""
    def said(found: re.Match[bytes]) -> bytes:
        code = int(found[1], 16) if found[1] else int(found[2]) if found[2] else 0
        fine = code in (9, 10, 13) or 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or 0x10000 <= code <= 0x10FFFF
        return found[0] if fine else b"&#xFFFD;"
    return xml if xml.startswith((b"\xff\xfe", b"\xfe\xff")) else _NO_XML.sub(said, xml)


def _refuse(*_: object) -> None:
    raise AnswerInvalid(["it declares a document type or entities, which no test report does"])


def parse_junit(xml: bytes, exit_code: int, file: str = "the JUnit file") -> dict[str, Any]:
    """The results in the shape of `JUNIT_RESULT`; `ok` where the exit code is 0, some test ran and none was red.

    Raises AnswerInvalid, naming `file`, for what is not such XML, and for more than `MAX_BYTES` or `MAX_CASES` of it.
    """
    if len(xml) > MAX_BYTES:
        raise AnswerInvalid([too_large(len(xml), file)])
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.CharacterDataHandler = reader.text
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = _refuse
    try:
        parser.Parse(_sayable(xml), True)
    except expat.ExpatError as error:
        raise AnswerInvalid([f"{file} is not JUnit XML: {error}"]) from error
    except _TooManyCases:
        raise AnswerInvalid([f"{file} holds more than {MAX_CASES:,} test cases: test in several steps"]) from None
    except AnswerInvalid as error:
        raise AnswerInvalid([f"{file} is not JUnit XML: {fault}" for fault in error.faults]) from None
    return _results(reader.cases, exit_code)


def too_large(size: int, file: str) -> str:
    """What is told of a report of so many bytes."""
    return (f"{file} has {size:,} bytes, and a test report may have {MAX_BYTES:,}: print less in the tests, "
            "or test in several steps")


def junit_job(xml: bytes, exit_code: int, file: str) -> dict[str, Any]:
    """`parse_junit` for a worker: its result, or the faults."""
    try:
        return {"result": parse_junit(xml, exit_code, file)}
    except AnswerInvalid as error:
        return {"faults": list(error.faults)}


def _results(cases: list[_Case], exit_code: int) -> dict[str, Any]:
    failures = [_failure(case, kind) for case in cases for kind in ("failure", "error") if kind in case.outcomes]
    errors = sum("error" in case.outcomes for case in cases)
    failed = sum("failure" in case.outcomes and "error" not in case.outcomes for case in cases)
    skipped = sum(set(case.outcomes) == {"skipped"} for case in cases)
    return {
        "ok": exit_code == 0 and not failures and len(cases) > 0,
        "exit_code": exit_code,
        "total": len(cases),
        "passed": len(cases) - errors - failed - skipped,
        "failed": failed,
        "errors": errors,
        "skipped": skipped,
        "failures": failures,
    }


def _failure(case: _Case, kind: str) -> dict[str, str]:
    message, type_, text = (_ADDRESS.sub("0x…", part) for part in case.outcomes[kind])
    stage = _STAGE.fullmatch(message.strip())
    if stage:
        message = stage[2]
    said = "\n".join(line[1:].strip() for line in text.splitlines() if line.startswith("E "))
    if not message.strip() or message == "collection failure":
        message = said or text.strip()
    everywhere = _PLACE.findall(text)
    places = [place for place in everywhere if not place[0].startswith(_ELSEWHERE)]      # the last that an author may mend
    path, line, _ = places[-1] if places else ("", "", "")
    name = everywhere[-1][2] if everywhere else ""
    exception = _exception(type_, message, said, name)
    return {
        "id": _identity(case, [place[0] for place in places]),
        "kind": kind,
        "exception": exception,
        "message": _bounded(message.strip().removeprefix(f"{exception}:").strip()),
        "place": f"{path.removeprefix('./')}:{line}" if path else "",
    }


def _exception(type_: str, message: str, said: str, at_place: str) -> str:
    """The exception's type name, from where pytest says it: a type attribute, the place, the first word of the message."""
    candidates = [type_, at_place]
    candidates += [match[1] for text in (message, said) if (match := _EXCEPTION.match(text))]
    for candidate in candidates:
        last = candidate.rpartition(".")[2]
        if last[:1].isupper() and last.isidentifier():
            return last
    return "AssertionError" if message.startswith("assert") else ""


def _identity(case: _Case, places: list[str]) -> str:
    """`tests/test_a.py::TestX::test_y`, from the file where the report names it, else from the dotted class name."""
    file, dotted = case.file, case.classname
    if not dotted and not file:                     # a file that could not be collected: its name is the module
        module = case.name.replace(".", "/")
        return case.name if case.name.endswith(".py") else f"{module}.py"
    if not dotted:
        return file or case.name
    if not file:
        file = next((place.removeprefix("./") for place in places
                     if f"{dotted}.".startswith(f"{place.removeprefix('./')[:-3].replace('/', '.')}.")), "")
    if not file:
        parts = dotted.split(".")
        end = next((at for at, part in enumerate(parts) if part[:1].isupper()), len(parts))
        file = "/".join(parts[:end]) + ".py"
    module = file.removesuffix(".py").replace("/", ".")
    inside = dotted[len(module) + 1:] if f"{dotted}.".startswith(f"{module}.") else ""
    return "::".join(part for part in (file, *inside.split("."), case.name) if part)


def _bounded(message: str) -> str:
    if len(message) <= MESSAGE_CHARACTERS:
        return message
    return f"{message[:MESSAGE_CHARACTERS]}\n… cut: {len(message) - MESSAGE_CHARACTERS} more characters"
