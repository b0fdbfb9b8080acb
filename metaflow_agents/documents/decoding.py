"""Bytes to text. An encoding is taken from what the file says of itself and from nothing else: a guess that is wrong
would put words into a quotation that no reader of the document has seen.
"""

from __future__ import annotations

import codecs
import re

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
          (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))        # UTF-32 first: its mark begins with UTF-16's
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")
_SAMPLE = 4096
# The names under which the HTML standard means windows-1252 (WHATWG Encoding, "Names and labels").
_WESTERN = {"iso8859-1", "ascii", "cp1252"}


class Unreadable(Exception):
    """A file that can't be taken as a document. The message says why, and the mend; the file's name goes before it."""


def decoded(data: bytes, declared: str | None = None) -> str:
    """The text of a file: by its byte order mark, else by the encoding that it declares, else as UTF-8 or plain UTF-16.

    Line ends become line feeds. Raises Unreadable for what is no text, or in an encoding that nothing tells.
    """
    for mark, name in _MARKS:
        if data.startswith(mark):
            return _clean(_decode(data.removeprefix(mark) if name == "utf-8" else data, name))
    if b"\0" in data[:_SAMPLE]:
        return _clean(_decode(data, _unmarked_utf16(data[:_SAMPLE])))
    if declared is not None:
        return _clean(_decode(data, codec(declared)))
    return _clean(_decode(data, "utf-8"))


def codec(label: str) -> str:
    """Python's name for an encoding that a document declares. Raises Unreadable for an unknown one."""
    try:
        name = codecs.lookup(label).name
    except LookupError:
        raise Unreadable(f"declares the encoding `{label}`, which is unknown; save it as UTF-8") from None
    if name.startswith("utf-16") or name.startswith("utf-32"):
        return "utf-8"                          # it was read as bytes of one letter each so far: it can't be UTF-16
    return "cp1252" if name in _WESTERN else name


def is_utf8(data: bytes) -> bool:
    """Whether the bytes are UTF-8."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode(name)
    except UnicodeDecodeError as error:
        raise Unreadable(f"is not {name.upper()} (at byte {error.start}), and nothing in it tells another encoding; "
                         "save it as UTF-8") from None
    except LookupError:                         # codecs that give no text, such as `hex`
        raise Unreadable(f"declares the encoding `{name}`, which is none for text; save it as UTF-8") from None


def _unmarked_utf16(sample: bytes) -> str:
    """UTF-16 of mostly Latin text has a zero in every second place; other zeros are no text."""
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    half = len(sample) // 2
    if odd > 0.4 * half and even < 0.1 * half:
        return "utf-16-le"
    if even > 0.4 * half and odd < 0.1 * half:
        return "utf-16-be"
    raise Unreadable("is no text, Markdown, HTML or PDF; leave it out of the folder, or save it as one of these")


def _clean(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    if len(_CONTROLS.findall(text[:_SAMPLE * 4])) > max(3, len(text[:_SAMPLE * 4]) // 500):
        raise Unreadable("is no text, Markdown, HTML or PDF; leave it out of the folder, or save it as one of these")
    return _CONTROLS.sub("", text)
