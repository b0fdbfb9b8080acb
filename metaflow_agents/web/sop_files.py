"""A SOP's file as the page edits it: read with its digest, written as one whole, never over what others wrote meanwhile."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

from metaflow_agents.errors import SOPNotFound, UsageError
from metaflow_agents.schema.model import digest
from metaflow_agents.sop.editing.line_endings import in_its_form, in_lines
from metaflow_agents.sop.library import read_bytes
from metaflow_agents.sop.reading import MAX_BYTES
from metaflow_agents.terminal import printing


class ChangedMeanwhile(UsageError):
    """The file is not what it was when the page read it."""


@dataclass(frozen=True, slots=True)
class SOPFile:
    """`text`: as a text field holds it; `fixed`: why the page may not change it, empty where it may."""

    path: Path
    data: bytes
    text: str
    fixed: str = ""

    @property
    def digest(self) -> str:
        """Of the file's bytes."""
        return digest(self.data)


def open_file(path: Path, folder: Path) -> SOPFile:
    """The file as it is now. `folder`: where the server was started: what lies elsewhere is not changed. Raises SOPNotFound."""
    data = read_bytes(path)
    try:
        text = in_lines(data)
    except UnicodeDecodeError as error:
        why = f"byte 0x{data[error.start]:02x} is not UTF-8: save the file as UTF-8"
        return SOPFile(path, data, data.decode(errors="replace"), why)
    return SOPFile(path, data, text, _fixed(path, data, text, folder))


def _fixed(path: Path, data: bytes, text: str, folder: Path) -> str:
    if len(data) > MAX_BYTES:
        return f"it has more than {MAX_BYTES:,} bytes"
    if not path.is_relative_to(folder.resolve()):
        return "it came with the package: copy it below the folder where `sop ui` was started, and edit the copy"
    if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        return "the file, or its folder, may not be written to"
    if printing.redacted(text) != text:
        return "it holds the value of a secret, which is not sent to a page: take the value out with another editor"
    return ""


def save(file: SOPFile, text: str, before: str) -> str:
    """Writes the text in the form of the file, and gives the new digest. `before`: the digest that the page knows.

    Raises ChangedMeanwhile where the file is another by now, UsageError where it can't be written.
    """
    if file.fixed:
        raise UsageError(f"{file.path.name} can't be changed here: {file.fixed}")
    if before != file.digest:
        raise ChangedMeanwhile(f"{file.path.name} was changed by somebody else since this page read it: look at the difference, "
                               "and save again to keep yours")
    try:
        data = in_its_form(file.data, text)
    except UnicodeEncodeError:
        raise UsageError("the text holds half of a character (a lone surrogate): take it out") from None
    if len(data) > MAX_BYTES:
        raise UsageError(f"the text has {len(data):,} bytes; a SOP has at most {MAX_BYTES:,}: keep long texts in templates")
    try:
        _replaced(file.path, data)
    except FileNotFoundError:
        raise SOPNotFound(f"the folder of {file.path} is gone") from None
    except OSError as error:
        raise UsageError(f"can't write {file.path}: {(error.strerror or str(error)).lower()}") from None
    return digest(data)


def _replaced(path: Path, data: bytes) -> None:
    """A new file in the place of the old one, with its mode: nobody ever reads half of it."""
    mode = stat.S_IMODE(path.stat().st_mode)
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as fresh:
        try:
            fresh.write(data)
            fresh.flush()
            os.fsync(fresh.fileno())
            os.chmod(fresh.name, mode)
            os.replace(fresh.name, path)
        except BaseException:
            os.unlink(fresh.name)
            raise
