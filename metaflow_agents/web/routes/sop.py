"""The page of a SOP: text, graph, checks, edits, completion, preview; and saving it, with the difference shown before."""

from __future__ import annotations

from difflib import SequenceMatcher
from pathlib import Path
from threading import Lock
from typing import Any

from metaflow_agents.cli.told import hide_secrets
from metaflow_agents.errors import UsageError
from metaflow_agents.runtime.checking import check
from metaflow_agents.settings import Settings
from metaflow_agents.sop import library
from metaflow_agents.sop.configuration import read_configuration
from metaflow_agents.sop.editing.changes import change_of, edit
from metaflow_agents.sop.editing.completion import Known, complete
from metaflow_agents.sop.load import Reading, read_sop
from metaflow_agents.sop.reading import MAX_BYTES, read_yaml
from metaflow_agents.terminal import printing
from metaflow_agents.views.ui.sop_page import checked_json, outline
from metaflow_agents.web.asked import Asked, get, post
from metaflow_agents.web.places import sop_file
from metaflow_agents.web.previewing import previewed
from metaflow_agents.web.replies import refusal
from metaflow_agents.web.sop_files import ChangedMeanwhile, SOPFile, open_file, save

_CONTEXT = 3                            # lines around a change
_checking = Lock()                      # one at a time: each keystroke asks for one, and they would take the processor from runs


def page(asked: Asked) -> dict[str, Any]:
    """The SOP as it is saved."""
    file = _file(asked)
    reading = read_sop(file.path, start=asked.site.folder)
    sop = reading.loaded.program.sop if reading.loaded is not None else None
    if sop is not None:
        hide_secrets(sop.secrets)
        file = _file(asked)
    name = file.path.stem if sop is None else sop.sop
    return {**_checked(asked, reading, file.text), "file": str(file.path), "name": name, "text": file.text, "digest": file.digest,
            "writable": not file.fixed, "fixed": file.fixed, "describes": "" if sop is None else sop.description,
            "demo": name in library.shipped_demonstrations(), "roles": [] if sop is None else list(sop.roles)}


def checked(asked: Asked) -> dict[str, Any]:
    """The same of a text that is not saved, at its place."""
    path, text = _path(asked), _text(asked)
    return _checked(asked, _reading(asked, path, text), text)


def _checked(asked: Asked, reading: Reading, text: str) -> dict[str, Any]:
    with _checking:
        report = check(reading, start=asked.site.folder)
        folder = _path(asked).parent
        program = reading.loaded.program if reading.loaded is not None else None
        document = read_yaml(_bytes(text), report.file)
        return {**checked_json(report, reading.loaded),
                "outline": {**outline(document, program), "known_roles": library.Folders(folder).role_names}}


def edited(asked: Asked) -> dict[str, Any]:
    """A text with an edit of the graph in it."""
    path, text = _path(asked), _text(asked)
    change = asked.body.get("change")
    if not isinstance(change, dict):
        raise UsageError("`change` is missing: an object such as {\"do\": \"rename_step\", \"name\": …, \"to\": …}")
    found = edit(text, change_of(change), path.name, _reading(asked, path, text).loaded)
    if printing.redacted(found.text) != found.text:
        raise UsageError("the text holds the value of a secret, which is not sent to a page")
    return {"text": found.text, "changed": {"line": found.line, "column": found.column},
            "left": [{"file": one.file, "line": one.line, "why": one.why} for one in found.left]}


def completed(asked: Asked) -> dict[str, Any]:
    """What may stand at the cursor."""
    path, text = _path(asked), _text(asked)
    folder = path.parent
    known = Known(tuple(library.Folders(folder).role_names),
                  tuple(name.rpartition(".")[0] for name in library.file_names([folder], (".yaml", ".yml"))
                        if ".schema" not in name and name != path.name),
                  tuple(read_configuration(Settings.read().configuration).configuration.models))
    start, options = complete(text, asked.number("line", 1), asked.number("column", 1), known,
                              lambda marked: _reading(asked, path, marked).loaded)
    return {"from": start, "options": [{"text": one.text, "detail": one.detail} for one in options]}


def difference(asked: Asked) -> dict[str, Any]:
    """What saving would change, and the digest of the file as it is now."""
    file = _file(asked)
    return {"hunks": hunks(file.text, _text(asked)), "digest": file.digest}


def saved(asked: Asked) -> Any:
    """Writes the text; refused with status 409 where somebody else wrote meanwhile."""
    file = _file(asked)
    try:
        return {"digest": save(file, _text(asked), asked.text("digest"))}
    except ChangedMeanwhile as error:
        return refusal(str(error), 409)


def preview(asked: Asked) -> dict[str, Any]:
    """What a step would send."""
    path = _path(asked)
    values = tuple(asked.body.get(key, {}) for key in ("inputs", "given"))
    if not all(isinstance(one, dict) for one in values):
        raise UsageError("`inputs` and `given` are objects: {NAME: VALUE}")
    reading = _reading(asked, path, _text(asked)) if "text" in asked.body else read_sop(path, start=asked.site.folder)
    return previewed(reading, asked.text("step"), (values[0], values[1]), asked.site)


def hunks(before: str, after: str) -> list[dict[str, Any]]:
    """The difference of two texts: [{old, new, lines: [[sign, text]]}], numbers of lines counted from 1."""
    old, new = before.split("\n"), after.split("\n")
    found = []
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_CONTEXT):
        lines: list[list[str]] = []
        for tag, first, last, begin, end in group:
            if tag == "equal":
                lines += [[" ", line] for line in old[first:last]]
                continue
            lines += [["-", line] for line in old[first:last]]
            lines += [["+", line] for line in new[begin:end]]
        found.append({"old": group[0][1] + 1, "new": group[0][3] + 1, "lines": lines})
    return found


def _path(asked: Asked) -> Path:
    return sop_file(asked.site.folder, asked.text("file"))


def _file(asked: Asked) -> SOPFile:
    return open_file(_path(asked), asked.site.folder)


def _text(asked: Asked) -> str:
    text = asked.text("text")
    if len(text) > MAX_BYTES:
        raise UsageError(f"the text has {len(text):,} characters; a SOP has at most {MAX_BYTES:,} bytes")
    return text


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _reading(asked: Asked, path: Path, text: str) -> Reading:
    return read_sop(path, start=asked.site.folder, text=_bytes(text))


routes = [get("/api/sop", page), post("/api/sop/check", checked), post("/api/sop/edit", edited),
          post("/api/sop/complete", completed), post("/api/sop/diff", difference), post("/api/sop/save", saved),
          post("/api/sop/preview", preview)]
