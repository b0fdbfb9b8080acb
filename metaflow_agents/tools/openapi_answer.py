"""What a service answered → what a role is told, with whatever does not fit the service's own description said beside it."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from metaflow_agents.errors import AnswerInvalid
from metaflow_agents.network.client import Fetched
from metaflow_agents.schema.external_schema import widened
from metaflow_agents.schema.validation import Validator, validator
from metaflow_agents.texts.strict_json import NotJSON, read
from metaflow_agents.tools.openapi_document import Operation, is_json
from metaflow_agents.tools.port import ToolResult

_FAULTS = 8
_TEXTS = ("text/", "application/xml", "application/javascript", "application/yaml", "application/x-yaml")
_TOLD_HEADERS = ("location", "retry-after")


class OpenAPIAnswers:
    """Reads the answers of one operation. `document`: the description, in which references lead."""

    def __init__(self, operation: Operation, document: Any, untrusted: str) -> None:
        self._operation, self._document, self._untrusted = operation, document, untrusted
        self._validators: dict[tuple[str, str], Validator] = {}

    def result(self, fetched: Fetched) -> ToolResult:
        """The body, where the status says success; else the status as well. What comes back is never trusted."""
        success = 200 <= fetched.status < 300
        body, binary = _body(fetched)
        asked = "" if success else f"{self._operation.method} {self._operation.path}: "
        shown = f"[{binary}]" if binary else body
        head = "" if fetched.status == 200 and shown else f"{asked}{fetched.status} {_phrase(fetched.status)}"
        told = [f"{name.title()}: {value}" for name, value in fetched.headers if name in _TOLD_HEADERS]
        cut = f"cut: only the first {len(fetched.body):,} bytes were taken, and they were not checked" if fetched.cut else ""
        unfit = "" if fetched.cut else self._unfit(fetched)
        marks = (f"[{mark}]" if mark else "" for mark in (cut, unfit))
        text = "\n\n".join(part for part in ("\n".join(part for part in (head, *told) if part), shown, *marks) if part)
        return ToolResult(text, error=not success, untrusted=self._untrusted, content=body, lacks=binary or cut or unfit)

    def _unfit(self, fetched: Fetched) -> str:
        faults = self._faults(fetched)
        more = [f"… and {len(faults) - _FAULTS} more"] if len(faults) > _FAULTS else []
        return f"This does not fit the service's own description: {'; '.join([*faults[:_FAULTS], *more])}." if faults else ""

    def _faults(self, fetched: Fetched) -> list[str]:
        answers = self._operation.answers
        status = next((each for each in (str(fetched.status), f"{fetched.status // 100}XX", "default") if each in answers), None)
        if status is None:
            listed = ", ".join(answers) or "none"
            return [f"it knows no status {fetched.status} here; it names {listed}"]
        content = answers[status]
        if content is None or self._operation.method == "HEAD":
            return []
        if not fetched.body:
            return [f"there is no body; it promises {' or '.join(content)}"]
        media = _described_as(fetched.content_type, content)
        if media is None:
            return [f"the body is {fetched.content_type or 'of no said type'}; it promises {' or '.join(content)}"]
        if not is_json(fetched.content_type or media):
            return []
        return self._misfits(fetched.body, status, media, content[media])

    def _misfits(self, body: bytes, status: str, media: str, schema: Any) -> list[str]:
        if (status, media) not in self._validators:
            self._validators[status, media] = validator(widened(schema, self._document, hidden="writeOnly"), "the answer")
        try:
            self._validators[status, media].validate(read(body))
        except AnswerInvalid as error:
            return list(error.faults)
        except NotJSON as error:
            return [f"the body is no JSON: {error}"]
        return []


def _described_as(media: str, content: Mapping[str, Any]) -> str | None:
    """The described media type that an answer's own fits, ranges such as `text/*` included."""
    family = media.partition("/")[0]
    for each in (media, f"{family}/*", "*/*"):
        if each in content:
            return each
    both_json = [each for each in content if is_json(each)] if is_json(media) and media else []
    return both_json[0] if both_json else None


def _body(fetched: Fetched) -> tuple[str, str]:
    """The body as text; and what it is where it is none."""
    media = fetched.content_type
    if not fetched.body:
        return "", ""
    if (media and is_json(media)) or media.startswith(_TEXTS) or media.endswith("+xml"):
        return fetched.body.decode("utf-8", "replace"), ""
    if not media and b"\0" not in fetched.body:
        return fetched.body.decode("utf-8", "replace"), ""
    return "", f"{len(fetched.body):,} bytes of {media or 'no said type'}: no text"


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
