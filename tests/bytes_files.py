# ruff: noqa: E501  (SOPs and file formats stand here as people write them)
"""Files that are no text, made here by the standard library as their formats say; and the SOP that takes them along every path."""

from __future__ import annotations

import gzip
import io
import random
import sqlite3
import struct
import tarfile
import wave
import zipfile
import zlib
from hashlib import sha256
from pathlib import Path


def png(width: int = 2, height: int = 2, colour: int = 2, seed: int = 0) -> bytes:
    """A PNG of random pixels: colour type 0 grey, 2 RGB, 6 RGBA."""
    channels, rng = {0: 1, 2: 3, 6: 4}[colour], random.Random(seed)
    rows = b"".join(b"\0" + rng.randbytes(width * channels) for _ in range(height))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)) \
        + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def gif(width: int = 1, height: int = 1) -> bytes:
    """A GIF of one frame, all of one colour."""
    assert width * height == 1
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff" \
        + b"," + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x02\x02\x44\x01\0;"


def bmp() -> bytes:
    """A bitmap of one pixel."""
    return b"BM" + struct.pack("<IHHI", 58, 0, 0, 54) + struct.pack("<IiiHHIIiiII", 40, 1, 1, 1, 24, 0, 4, 0, 0, 0, 0) + b"\1\2\xff\0"


def pdf(text: str) -> bytes:
    """A PDF of one page, its content deflated."""
    content = zlib.compress(f"BT /F1 24 Tf 72 720 Td ({text}) Tj ET".encode())
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
               b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
               b"<</Length %d/Filter/FlateDecode>>\nstream\n%b\nendstream" % (len(content), content),
               b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
    data, places = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n", []
    for number, one in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%b\nendobj\n" % (number, one)
    start = len(data)
    rows = b"".join(b"%010d 00000 n \n" % place for place in places)
    return data + b"xref\n0 6\n0000000000 65535 f \n" + rows + b"trailer\n<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % start


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A ZIP archive."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return held.getvalue()


def xlsx(*values: int) -> bytes:
    """A workbook with one sheet and one row."""
    main, office = "http://schemas.openxmlformats.org/spreadsheetml/2006/main", "http://schemas.openxmlformats.org/officeDocument/2006"
    package, kind = "http://schemas.openxmlformats.org/package/2006", "application/vnd.openxmlformats-officedocument.spreadsheetml"
    cells = "".join(f"<c><v>{value}</v></c>" for value in values)
    return zipped({
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"><Default Extension="rels" ContentType="application/vnd.'
        f'openxmlformats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/>'
        f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{kind}.worksheet+xml"/></Types>'.encode(),
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" Type="{office}/relationships/'
        'officeDocument" Target="xl/workbook.xml"/></Relationships>'.encode(),
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}/relationships"><sheets><sheet name="A" sheetId="1" r:id="r1"/>'
        "</sheets></workbook>".encode(),
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" Type="{office}/'
        'relationships/worksheet" Target="worksheets/sheet1.xml"/></Relationships>'.encode(),
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main}"><sheetData><row>{cells}</row></sheetData></worksheet>'.encode()})


def epub() -> bytes:
    """A book of no chapter: what makes it one is its first, stored entry."""
    return zipped({"mimetype": b"application/epub+zip", "META-INF/container.xml": b"<container/>"}, zipfile.ZIP_STORED)


def wav(width: int, channels: int, frames: bytes) -> bytes:
    """Sound: `width` bytes a sample."""
    held = io.BytesIO()
    with wave.open(held, "wb") as sound:
        sound.setnchannels(channels)
        sound.setsampwidth(width)
        sound.setframerate(8000)
        sound.writeframes(frames)
    return held.getvalue()


def font(begin: bytes = b"\0\1\0\0") -> bytes:
    """An OpenType font with one table, `head`."""
    head = struct.pack(">IIIIHHQQhhhhHHhhh", 0x10000, 0, 0, 0x5F0F3CF5, 0, 1000, 0, 0, 0, 0, 1, 1, 0, 8, 2, 0, 0).ljust(56, b"\0")
    total = sum(struct.unpack(f">{len(head) // 4}I", head)) & 0xFFFFFFFF
    return begin + struct.pack(">HHHH", 1, 16, 0, 0) + b"head" + struct.pack(">III", total, 28, 54) + head


def tarred(name: str, data: bytes) -> bytes:
    """A tar archive, of text alone: it is no text for the NULs in it."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return held.getvalue()


def database() -> bytes:
    """A SQLite file with a row."""
    with sqlite3.connect(":memory:") as made:
        made.execute("create table a (b)")
        made.execute("insert into a values (1)")
        return made.serialize()


def real() -> dict[str, bytes]:
    """Name → bytes of files that programs read: pictures, documents, archives, sound, fonts."""
    return {
        "grey.png": png(3, 5, 0), "rgb.png": png(16, 9, 2, 1), "rgba.png": png(7, 7, 6, 2), "dot.gif": gif(), "dot.bmp": bmp(),
        "one.pdf": pdf("one"), "two.pdf": pdf("two pages of nothing"), "sums.xlsx": xlsx(1, 2, 3), "empty.xlsx": xlsx(),
        "book.epub": epub(), "packed.zip": zipped({"a.txt": b"a" * 500, "b/c.bin": bytes(range(256))}),
        "stored.zip": zipped({"a.txt": b"plain"}, zipfile.ZIP_STORED), "nothing.zip": zipped({}),
        "silence.wav": wav(1, 1, b"\0" * 64), "noise.wav": wav(2, 2, random.Random(3).randbytes(400)),
        "sans.ttf": font(), "sans.otf": font(b"OTTO"), "text.gz": gzip.compress(b"text\n" * 50, mtime=0),
        "text.tar": tarred("text.txt", b"text\n"), "rows.sqlite": database(), "truncated.png": png(9, 9)[:40]}


def noise(count: int, seed: int) -> dict[str, bytes]:
    """Files of random bytes, of 0 to 2,000 bytes; some of them begin like another format, some are all but text."""
    rng, found = random.Random(seed), {}
    begins = (b"", b"", b"\x89PNG\r\n\x1a\n", b"PK\3\4", b"%PDF-1.7\n", b"\xef\xbb\xbf", b"\xff\xfe", b"text\r\n")
    for number in range(count):
        data = rng.choice(begins) + rng.randbytes(rng.choice((0, 1, 3, 17, 255, 2000)))
        found[f"n{number:03}.{rng.choice(('bin', 'png', 'txt', 'xlsx', 'py'))}"] = data
    return found


def lay(folder: Path, files: dict[str, bytes]) -> Path:
    """Writes them below a folder, which is given back."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def found_in(folder: Path) -> dict[str, bytes]:
    """Path → bytes of all files of a folder, its repository left out."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*"))
            if path.is_file() and ".git" not in path.relative_to(folder).parts}


def named(prefix: str, files: dict[str, bytes]) -> dict[str, bytes]:
    """The same files in another folder."""
    return {f"{prefix}/{name}": data for name, data in files.items()}


def listed(files: dict[str, bytes]) -> list[str]:
    """A line for each file, as the command of the SOP prints it: digest and name."""
    return [f"{sha256(data).hexdigest()} {name}" for name, data in sorted(files.items())]


SOP = """
    sop: bytes_paths
    inputs: {things: {type: folder}, one: {type: file}}
    roles: {clerk: {profile: You copy., accepts: [text, image], tools: [run, read, list, search]}}
    artifacts:
      taken: {files: "v/**"}
      called: {files: "c/**"}
      single_files: {files: "e/**"}
      tooled: {files: "r/**"}
      inner: {files: "s/**"}
      seen: {}
      single: {file: single.bin}
      double: {file: double.bin}
      through: {file: through.bin}
      items: {each: {}}
      sizes: {schema: {count: integer, first: string}, file: sizes.json}
    steps:
      take: {value: things, needs: [things], makes: taken}
      call: {call: "fns:moved", needs: [taken], makes: called, args: {to: c, files: "{{ taken }}"}}
      split: {call: "fns:one_of", needs: [called], makes: {single_files: "e/**"}, foreach: {in: called | items, as: pair, key: "pair[0]"}, args: {path: "{{ pair[0] }}", data: "{{ pair[1] }}"}}
      see: {run: "python3 -c 'import hashlib, pathlib; [print(hashlib.sha256(p.read_bytes()).hexdigest(), p) for p in sorted(pathlib.Path().rglob(\\"*\\")) if p.is_file()]'",
            needs: [called], makes: seen}
      tool: {role: clerk, needs: [called], makes: tooled, task: Copy c to r.}
      nest: {sop: inside, needs: [called, one], inputs: {things: called, one: one}, output: made, makes: inner}
      nest_one: {sop: inside, needs: [called, one], inputs: {things: called, one: one}, output: picked, makes: through}
      pick: {value: one, needs: [one], makes: single}
      twice: {call: "fns:twice", needs: [single], makes: double}
      gather: {value: "pair[1]", needs: [called], foreach: {in: called | items, as: pair, key: "pair[0]"}, makes: items}
      count: {value: "{'count': called | length, 'first': one.media_type}", needs: [called, one], makes: sizes}
    outputs: [taken, single_files, tooled, inner, seen, double, through, items, sizes]
"""
INSIDE = """
    sop: inside
    inputs: {things: {type: folder}, one: {type: file}}
    artifacts: {made: {files: "s/**"}, picked: {}}
    steps:
      move: {call: "fns:moved", needs: [things], makes: made, args: {to: s, files: "{{ things }}"}}
      pick: {value: one, needs: [one], makes: picked}
    outputs: [made, picked]
"""
FNS = """
    def moved(files: dict[str, bytes], to: str):
        return {to + path[1:]: data for path, data in files.items()}

    def one_of(path: str, data: str | bytes):
        return {"e" + path[1:]: data}

    def twice(single: bytes):
        assert isinstance(single, bytes)
        return single + single
"""
CHANGED = SOP.replace('pick: {value: one, needs: [one]', 'pick: {call: "fns:changed", needs: [one]').replace("one: one", "one: single").replace(
    "needs: [called, one], inputs", "needs: [called, single], inputs")
CHANGING = FNS.replace("data for path", "data + to.encode() + b'\\xfe' for path") + """
    def changed(one: bytes):
        return one + b"\\xfe"
"""
"""For the scene of kills: no step makes what an input holds, whose bytes `crash_prefixes.py` takes for written when they come again."""
