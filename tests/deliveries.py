# ruff: noqa: E501
"""Products as they are handed over, and the same with one thing broken: what is broken, by which name it has to be told."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

Files = dict[str, str]


def free_port() -> int:
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        return int(line.getsockname()[1])


def pyproject(name: str, *, dependencies: str = "", data: str = "", script: bool = True) -> str:
    return f"""[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = [{dependencies}]
{f'''
[project.scripts]
{name} = "{name}.cli:main"
''' if script else ""}
[tool.setuptools.packages.find]
where = ["src"]
{f'''
[tool.setuptools.package-data]
{name} = ["{data}"]
''' if data else ""}"""


TALLY: Files = {
    "pyproject.toml": pyproject("tally", data="units.json"),
    "examples/spent.csv": "day;what;amount\n2026-01-02;bread;3,20\n2026-01-03;café;4,50\n",
    "README.md": """# tally

    pip install .

A first session:

```console
$ tally sum examples/spent.csv
7,70 EUR
$ tally sum examples/spent.csv --unit CHF
7,70 CHF
$ tally list examples/spent.csv
2026-01-02 · bread
2026-01-03 · café
$ tally sum nothing.csv
tally: nothing.csv: there is no such file
$ tally sum YOURS.csv
```

With the result in a file of its own:

```sh
cd examples
tally list spent.csv > listed.txt
tally list spent.csv | head -n 1
```

Exit status: 0, or 1 where a file can't be read.
""",
    "src/tally/__init__.py": '"""Adds up."""\n',
    "src/tally/money.py": '''"""The rules: amounts are hundredths."""

from __future__ import annotations

import csv


def cents(text: str) -> int:
    whole, _, part = text.partition(",")
    return int(whole) * 100 + int(part or 0)


def rows(lines):
    """(day, what, cents) of each record, and the numbers of those that can't be read."""
    found, damaged = [], []
    for number, row in enumerate(csv.reader(lines, delimiter=";"), 1):
        if number == 1:
            continue
        try:
            day, what, amount = row
            found.append((day, what, cents(amount)))
        except ValueError:
            damaged.append(number)
    return found, damaged
''',
    "src/tally/units.json": '{"EUR": "euro", "CHF": "franc"}\n',
    "src/tally/cli.py": '''"""The command."""

from __future__ import annotations

import argparse
import json
import sys
from importlib.resources import files

from tally.money import rows


def main() -> None:
    sys.stdout.reconfigure(errors="replace")
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["sum", "list"])
    parser.add_argument("file")
    parser.add_argument("--unit", default="EUR", choices=sorted(json.loads((files("tally") / "units.json").read_text())))
    told = parser.parse_args()
    try:
        with open(told.file, encoding="utf-8") as lines:
            found, damaged = rows(lines)
    except FileNotFoundError:
        sys.exit(f"tally: {told.file}: there is no such file")
    for number in damaged:
        print(f"tally: {told.file}:{number}: can't be read, and is left out", file=sys.stderr)
    if told.what == "list":
        for day, what, _ in found:
            print(f"{day} · {what}")
    else:
        total = sum(one[2] for one in found)
        print(f"{total // 100},{total % 100:02} {told.unit}")
''',
}

_SERVER = '''"""The server."""

from __future__ import annotations

import argparse
import html
import json
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path

from shelf.books import Books

KEPT = Path.home() / "shelf.json"


class Shelf(BaseHTTPRequestHandler):
    books = Books(KEPT)

    def answer(self, status, text, kind="text/html; charset=utf-8"):
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def ours(self):
        if self.headers.get("Host", "").partition(":")[0] in ("127.0.0.1", "localhost"):
            return True
        self.answer(403, "this server answers to its own name alone")
        return False

    def do_GET(self):
        if not self.ours():
            return
        path, _, query = self.path.partition("?")
        if path == "/":
            told = "".join(f'<li class="book"><a href="/book?n={n}">{html.escape(one)}</a></li>'
                           for n, one in enumerate(self.books.all()))
            self.answer(200, f'<!doctype html><link rel="stylesheet" href="/style.css"><main class="page"><h1 class="head">Shelf</h1>'
                             f'<ul class="list">{told}</ul><a class="all" href="/export">export</a></main>')
        elif path == "/book":
            number = query.removeprefix("n=")
            if number.isdecimal() and int(number) < len(self.books.all()):
                self.answer(200, f"<p class=book>{html.escape(self.books.all()[int(number)])}</p>")
            else:
                self.answer(404, "there is no such book")
        elif path == "/style.css":
            self.answer(200, (files("shelf") / "static" / "style.css").read_text(), "text/css")
        elif path == "/export":
            self.answer(200, json.dumps(self.books.all()), "application/json")
        else:
            self.answer(404, "there is no such page")

    def do_POST(self):
        if not self.ours():
            return
        if self.path != "/books":
            self.answer(404, "there is no such page")
            return
        try:
            title = json.loads(self.rfile.read(min(int(self.headers.get("Content-Length", 0)), 10_000)))["title"]
        except (ValueError, KeyError, TypeError):
            self.answer(400, "send a title as JSON")
            return
        self.books.add(str(title))
        self.answer(201, "kept")

    def log_message(self, *_):
        pass


def stop(*_):
    sys.exit(0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=PORT)
    told = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    server = ThreadingHTTPServer(("127.0.0.1", told.port), Shelf)
    print(f"http://127.0.0.1:{told.port}/")
    server.serve_forever()
'''
SHELF: Files = {
    "pyproject.toml": pyproject("shelf", data="static/*"),
    "README.md": """# shelf

The books that you have, in a page of your own.

    pip install .
    shelf

Then open <http://127.0.0.1:PORT/>. Ctrl-C ends it. Books are kept in `~/shelf.json`.

| | |
| --- | --- |
| `GET /export` | all books, as JSON |
| `GET /book?n=9999` | 404 where there is none |
| `POST /books` | `{"title": "…"}`; 400 without a title |
""",
    "src/shelf/__init__.py": '"""Books."""\n',
    "src/shelf/books.py": '''"""What is kept."""

import json
import os


class Books:
    def __init__(self, path):
        self.path = path

    def all(self):
        return json.loads(self.path.read_text()) if self.path.exists() else ["Emma", "Middlemarch"]

    def add(self, title):
        beside = self.path.with_suffix(".new")
        beside.write_text(json.dumps([*self.all(), title]))
        os.replace(beside, self.path)
''',
    "src/shelf/static/style.css": ".page{margin:auto}.head{font-size:2rem}.list{padding:0}.book{list-style:none}.all{color:#036}\n",
    "src/shelf/cli.py": _SERVER,
}

BEACON: Files = {
    "pyproject.toml": pyproject("beacon", dependencies='"starlette"'),
    "README.md": """# beacon

Tells the time of day of a place, as JSON.

```sh
beacon --port PORT
```

`GET /places` gives all places; `GET /places/none` gives 404; `POST /places` gives 405.
""",
    "src/beacon/__init__.py": '"""Times."""\n',
    "src/beacon/cli.py": '''"""The service."""

import argparse
import asyncio
import json
import signal

from starlette.datastructures import Headers

PLACES = {"bern": 1, "lima": -5}


def respond(method, path, host):
    if host.partition(":")[0] not in ("127.0.0.1", "localhost"):
        return 421, {"error": "another host"}
    if path == "/":
        return 200, {"places": "/places"}
    if path == "/places":
        return (200, sorted(PLACES)) if method == "GET" else (405, {"error": "GET alone"})
    name = path.removeprefix("/places/")
    return (200, {"offset": PLACES[name]}) if name in PLACES else (404, {"error": "there is none"})


async def serve(reader, writer):
    head = (await reader.readuntil(b"\\r\\n\\r\\n")).decode("latin-1").split("\\r\\n")
    method, path, _ = head[0].split(" ")
    told = Headers(dict(line.split(": ", 1) for line in head[1:] if line))
    status, value = respond(method, path.partition("?")[0], told.get("host", ""))
    body = json.dumps(value).encode()
    writer.write(f"HTTP/1.1 {status} x\\r\\nContent-Type: application/json\\r\\nContent-Length: {len(body)}\\r\\n"
                 "Connection: close\\r\\n\\r\\n".encode() + body)
    await writer.drain()
    writer.close()


async def run(port):
    over = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    server = await asyncio.start_server(serve, "127.0.0.1", port)
    print(f"listening on http://127.0.0.1:{port}")
    async with server:
        await over.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8000)
    asyncio.run(run(parser.parse_args().port))
''',
}

SLUGS: Files = {
    "pyproject.toml": pyproject("slugs", script=False),
    "README.md": """# slugs

```python
from slugs import Slugs, slug

slug("Grüße aus Bern")
```

```pycon
>>> Slugs("-").of("A b")
'a-b'
```

With your own table:

```python
made = Slugs("_", table=your_table)
```
""",
    "src/slugs/__init__.py": '''"""Names for addresses."""

import re


class Slugs:
    """Names with one sign between words."""

    def __init__(self, sign, table=None):
        self.sign, self.table = sign, table or {}

    def of(self, text):
        """The name of a text."""
        return self.sign.join(re.findall(r"\\w+", "".join(self.table.get(one, one) for one in text.lower())))


def slug(text):
    """The name of a text, with `-`."""
    return Slugs("-").of(text)
''',
}

HILO: Files = {
    "pyproject.toml": pyproject("hilo"),
    "README.md": "# hilo\n\nGuess the number.\n\n    pip install .\n    hilo --help\n    hilo\n    echo 50 | hilo --seed 3\n\n"
                 "Keys: a number and Enter; Ctrl-D leaves.\n",
    "src/hilo/__init__.py": '"""A game."""\n',
    "src/hilo/cli.py": '''"""The game at a terminal."""

import argparse
import random


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int)
    wanted = random.Random(parser.parse_args().seed).randint(1, 100)
    print("1 to 100. Which number?")
    while True:
        try:
            told = input("> ")
        except (EOFError, KeyboardInterrupt):
            print("\\nUntil the next time.")
            return
        if not told.strip().isdecimal():
            print("A number, please.")
        elif int(told) == wanted:
            print("Yes!")
            return
        else:
            print("Higher." if int(told) < wanted else "Lower.")
''',
}
SOUND = {"tally": ("cli", TALLY), "shelf": ("web", SHELF), "beacon": ("service", BEACON), "slugs": ("library", SLUGS),
         "hilo": ("game", HILO)}


@dataclass(frozen=True)
class Plant:
    """One thing broken: in a file of a product, `old` became `new` (None: the file is gone). `kind`: the name of the fault."""

    id: str
    product: str
    kind: str
    path: str
    old: str
    new: str | None

    def files(self) -> Files:
        files = dict(SOUND[self.product][1])
        if self.new is None:
            del files[self.path]
            return files
        text = files.get(self.path, "")
        if self.old not in text:
            raise ValueError(f"{self.id}: {self.path} does not hold {self.old!r}")
        return {**files, self.path: text.replace(self.old, self.new) if self.old else text + self.new}


def lay_out(files: Files, folder: Path, port: int) -> Path:
    """A product in a folder, `PORT` in it a port of its own."""
    for path, text in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text.replace("PORT", str(port)), encoding="utf-8")
    return folder


_CLI, _SERVES, _README = "src/tally/cli.py", "src/shelf/cli.py", "README.md"
PLANTS = [
    # A command of the README that fails.
    Plant("an option that is not there", "tally", "readme", _README, "--unit CHF\n7,70 CHF", "--currency CHF\n7,70 CHF"),
    Plant("a subcommand that is not there", "tally", "readme", _README, "$ tally list examples/spent.csv", "$ tally show examples/spent.csv"),
    Plant("a sample that is not there", "tally", "readme", _README, "$ tally sum examples/spent.csv\n", "$ tally sum examples/spend.csv\n"),
    Plant("a choice that is not there", "tally", "readme", _README, "--unit CHF\n7,70 CHF", "--unit USD\n7,70 USD"),
    Plant("a command that was renamed", "tally", "readme", "pyproject.toml", 'tally = "tally.cli:main"', 'tallyho = "tally.cli:main"'),
    Plant("an entry point to nothing", "tally", "traceback", "pyproject.toml", "tally.cli:main", "tally.cli:start"),
    Plant("a traceback for a missing file", "tally", "traceback", _CLI, "except FileNotFoundError", "except PermissionError"),
    Plant("python of the README that fails", "slugs", "readme", _README, "from slugs import Slugs, slug", "from slugs import Slugs, slugify"),
    Plant("a parameter that is not there", "slugs", "readme", _README, 'Slugs("-").of("A b")', 'Slugs("-", lower=True).of("A b")'),
    Plant("a method that is not there", "slugs", "readme", _README, 'Slugs("-").of("A b")', 'Slugs("-").make("A b")'),
    Plant("a status that it does not name", "tally", "readme", _CLI, "            found, damaged = rows", "            sys.exit(7)\n            found, damaged = rows"),
    # A wheel without a file that the program reads.
    Plant("no data in the wheel", "tally", "data_files", "pyproject.toml", '[tool.setuptools.package-data]\ntally = ["units.json"]', ""),
    Plant("another pattern of data", "tally", "data_files", "pyproject.toml", 'tally = ["units.json"]', 'tally = ["*.yaml"]'),
    Plant("no style sheet in the wheel", "shelf", "data_files", "pyproject.toml", 'shelf = ["static/*"]', 'shelf = ["static/*.js"]'),
    Plant("a folder of packages is left out", "shelf", "data_files", "pyproject.toml", '[tool.setuptools.package-data]\nshelf = ["static/*"]',
          "[tool.setuptools]\ninclude-package-data = false"),
    # What can't be installed.
    Plant("a version that is none", "tally", "install", "pyproject.toml", 'version = "0.1.0"', 'version = "first"'),
    Plant("a backend that is not there", "tally", "install", "pyproject.toml", "setuptools.build_meta", "setuptools.build"),
    Plant("a package that is not there", "tally", "install", "pyproject.toml", '[tool.setuptools.packages.find]\nwhere = ["src"]',
          '[tool.setuptools]\npackages = ["tallied"]'),
    # Imports.
    Plant("an undeclared dependency", "beacon", "imports", "pyproject.toml", 'dependencies = ["starlette"]', "dependencies = []"),
    Plant("an import from outside the lock", "tally", "imports", "src/tally/money.py", "import csv", "import csv\nimport no_such_pandas"),
    Plant("an undeclared import within a function", "slugs", "imports", "src/slugs/__init__.py", '    """The name of a text, with `-`."""',
          '    """The name of a text, with `-`."""\n    import yaml'),
    Plant("what builds it is imported", "tally", "imports", "src/tally/cli.py", "import argparse", "import argparse\nimport setuptools"),
    Plant("a module beside it that moved", "slugs", "imports", "src/slugs/__init__.py", "import re", "import re\nimport tables_of_slugs"),
    # Input that nobody gives.
    Plant("it waits for Enter", "tally", "waits", _CLI, "    if told.what ==", '    input("Press Enter")\n    if told.what =='),
    Plant("it asks before it reads", "tally", "waits", _CLI, "    try:\n        with open", '    told.unit = input("Unit: ") or told.unit\n    try:\n        with open'),
    Plant("a game that can't be left", "hilo", "hangs", "src/hilo/cli.py", "            return\n        if not told", "            told = ''\n        if not told"),
    Plant("a game that falls at the end of input", "hilo", "waits", "src/hilo/cli.py", "except (EOFError, KeyboardInterrupt)", "except KeyboardInterrupt"),
    Plant("a loop without an end", "tally", "hangs", _CLI, "    if told.what ==", "    while told.unit == 'CHF':\n        pass\n    if told.what =="),
    # Terminals.
    Plant("a sign that a terminal does not have", "tally", "encoding", _CLI, '    sys.stdout.reconfigure(errors="replace")\n    parser', "    print('\\u2713 tally')\n    parser"),
    Plant("an arrow in a list", "tally", "encoding", _CLI, '    sys.stdout.reconfigure(errors="replace")\n    parser', "    print('1 \\u2192 2')\n    parser"),
    Plant("a box around the head", "hilo", "encoding", "src/hilo/cli.py", '    print("1 to 100. Which number?")', '    print("\\u250c\\u2500\\u2510")'),
    # Files that grow.
    Plant("a log of each call", "tally", "grows", _CLI, "    told = parser.parse_args()", "    told = parser.parse_args()\n    open('tally.log', 'a').write(told.file)"),
    Plant("a history at home", "tally", "grows", _CLI, "    told = parser.parse_args()",
          "    told = parser.parse_args()\n    import pathlib\n    with open(pathlib.Path.home() / '.tally_history', 'a') as kept: kept.write(told.what)"),
    Plant("a file as large as the disk", "tally", "grows", _CLI, "    told = parser.parse_args()",
          "    told = parser.parse_args()\n    with open('big', 'wb') as big:\n        for _ in range(90): big.write(b'x' * 1_000_000)"),
    Plant("a log of each request", "shelf", "grows", _SERVES, "    def log_message(self, *_):\n        pass",
          "    def log_message(self, *_):\n        with open('access.log', 'a') as log: log.write(self.path)"),
    Plant("visits are kept", "shelf", "grows", _SERVES, '        if path == "/":', '        if path == "/":\n            self.books.add("visited")'),
    # Data that is dropped.
    Plant("damaged lines are dropped", "tally", "dropped", _CLI, "    for number in damaged:", "    for number in ():"),
    Plant("damaged lines are not counted", "tally", "dropped", "src/tally/money.py", "            damaged.append(number)", "            pass"),
    Plant("a damaged line ends it with a traceback", "tally", "traceback", "src/tally/money.py", "except ValueError", "except KeyError"),
    # A service that does not start, or elsewhere.
    Plant("it falls when it starts", "shelf", "starts", _SERVES, "    server = Threading", "    raise OSError('no')\n    server = Threading"),
    Plant("it ends at once", "shelf", "starts", _SERVES, "    server.serve_forever()", "    server.server_close()"),
    Plant("its start is not in the README", "shelf", "starts", _README, "    shelf\n", ""),
    Plant("an option of its start that is not there", "beacon", "starts", _README, "beacon --port", "beacon --listen"),
    Plant("another port than the README's", "shelf", "port", _SERVES, "default=PORT", "default=PORT + 1"),
    Plant("another port than it says", "beacon", "port", "src/beacon/cli.py", 'serve, "127.0.0.1", port)', 'serve, "127.0.0.1", port + 1)'),
    Plant("it listens on all addresses", "shelf", "everywhere", _SERVES, '("127.0.0.1", told.port)', '("", told.port)'),
    Plant("it starts only once", "shelf", "starts_again", _SERVES, "    signal.signal(signal.SIGTERM, stop)",
          "    lock = Path.home() / 'lock'\n    if lock.exists(): sys.exit('it runs')\n    lock.touch()\n    signal.signal(signal.SIGTERM, stop)"),
    Plant("it never ends", "shelf", "ends", _SERVES, "def stop(*_):\n    sys.exit(0)", "def stop(*_):\n    pass"),
    Plant("a thread keeps it", "shelf", "ends", _SERVES, "    server.serve_forever()",
          "    import threading, time\n    threading.Thread(target=time.sleep, args=(60,)).start()\n    server.serve_forever()"),
    Plant("Ctrl-C shows a traceback", "shelf", "traceback", _SERVES, "    signal.signal(signal.SIGINT, stop)\n", "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"),
    # Routes.
    Plant("a link to nowhere", "shelf", "routes", _SERVES, 'href="/export"', 'href="/exports"'),
    Plant("a route of the README that is missing", "shelf", "routes", _SERVES, 'elif path == "/export"', 'elif path == "/dump"'),
    Plant("a route that fails", "shelf", "routes", _SERVES, "json.dumps(self.books.all())", "json.dumps(self.books.all)"),
    Plant("a route with another status", "shelf", "routes", _SERVES, 'self.answer(404, "there is no such book")', 'self.answer(200, "there is no such book")'),
    Plant("a style sheet that is not served", "shelf", "routes", _SERVES, 'elif path == "/style.css"', 'elif path == "/styles.css"'),
    Plant("any path is answered", "shelf", "routes", _SERVES, 'self.answer(404, "there is no such page")\n\n    def do_POST', 'self.answer(200, "")\n\n    def do_POST'),
    Plant("a method that is missing", "shelf", "routes", _SERVES, 'if self.path != "/books"', 'if self.path != "/book"'),
    Plant("input that breaks it", "shelf", "routes", _SERVES, "except (ValueError, KeyError, TypeError)", "except KeyError"),
    Plant("no first page", "shelf", "routes", _SERVES, 'if path == "/":', 'if path == "/home":'),
    Plant("a service with another status", "beacon", "routes", "src/beacon/cli.py", "(404, {", "(200, {"),
    Plant("a service whose route is gone", "beacon", "routes", "src/beacon/cli.py", 'if path == "/places":', 'if path == "/place":'),
    # The names that it answers to.
    Plant("any host is answered", "shelf", "host", _SERVES, 'in ("127.0.0.1", "localhost")', 'or True'),
    Plant("any host of a service is answered", "beacon", "host", "src/beacon/cli.py", 'not in ("127.0.0.1", "localhost")', "== ''"),
    Plant("a part of a host is enough", "shelf", "host", _SERVES, '.partition(":")[0] in ("127.0.0.1", "localhost")', '.count(".")'),
]
