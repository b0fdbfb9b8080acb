"""The media type of a file, told from its bytes alone: a name may claim anything.

A name refines what the bytes are only within the formats that share a container: what begins like a ZIP archive and is called
`a.xlsx` is a workbook; what does not is none, whatever its name. Signatures: https://mimesniff.spec.whatwg.org/#matching-a-mime-type-pattern,
https://www.iana.org/assignments/media-types.
"""

from __future__ import annotations

import mimetypes

UNKNOWN = "application/octet-stream"
TEXT = "text/plain"
HEAD = 512
"""How many bytes at the beginning of a file decide what it is."""

_OFFICE = "application/vnd.openxmlformats-officedocument."
_OPEN = "application/vnd.oasis.opendocument."
_IN_ZIP = {
    "docx": f"{_OFFICE}wordprocessingml.document", "xlsx": f"{_OFFICE}spreadsheetml.sheet",
    "pptx": f"{_OFFICE}presentationml.presentation", "odt": f"{_OPEN}text", "ods": f"{_OPEN}spreadsheet",
    "odp": f"{_OPEN}presentation", "epub": "application/epub+zip", "jar": "application/java-archive"}
_IN_RIFF = {b"WAVE": "audio/wav", b"WEBP": "image/webp", b"AVI ": "video/x-msvideo"}
_BEGINNINGS: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF87a", "image/gif"), (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"), (b"II*\0", "image/tiff"), (b"MM\0*", "image/tiff"), (b"\0\0\1\0", "image/x-icon"),
    (b"%PDF-", "application/pdf"), (b"PK\3\4", "application/zip"), (b"PK\5\6", "application/zip"),
    (b"\x1f\x8b", "application/gzip"), (b"BZh", "application/x-bzip2"), (b"\xfd7zXZ\0", "application/x-xz"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"), (b"Rar!\x1a\7", "application/vnd.rar"),
    (b"\0\1\0\0\0", "font/ttf"), (b"true", "font/ttf"), (b"OTTO", "font/otf"), (b"ttcf", "font/collection"),
    (b"wOFF", "font/woff"), (b"wOF2", "font/woff2"), (b"OggS", "audio/ogg"), (b"fLaC", "audio/flac"), (b"ID3", "audio/mpeg"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"), (b"\x7fELF", "application/x-elf"), (b"\0asm", "application/wasm"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"), (b"%!PS", "application/postscript"))


def ending(type_: str) -> str:
    """What the name of a file of such a type ends with, without the dot."""
    of_office = {found: name for name, found in _IN_ZIP.items()}
    return of_office.get(type_) or (mimetypes.guess_extension(type_) or ".bin")[1:]


def media_type(head: bytes, name: str = "") -> str:
    """The type of a file that is no text, from its first bytes (`HEAD` of them are enough); `UNKNOWN` where they tell nothing.

    `name` counts only to tell formats apart that are ZIP archives.
    """
    if head.startswith(b"RIFF"):
        return _IN_RIFF.get(head[8:12], UNKNOWN)
    found = next((type_ for beginning, type_ in _BEGINNINGS if head.startswith(beginning)), UNKNOWN)
    if found == "application/zip":
        return _IN_ZIP.get(name.rpartition(".")[2].lower(), found)
    return found
