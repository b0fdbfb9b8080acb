"""A server that a command of the README starts: where it listens, what it answers, how it ends."""

from __future__ import annotations

import html.parser
import http.client
import json
import re
import signal
import subprocess
import sys
import time
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote, urljoin, urlsplit

from metaflow_agents.kits.company.probe.desk import ENDS, ProbeDesk, ProbeRan
from metaflow_agents.kits.company.probe.findings import TRACEBACK, Findings, end_of
from metaflow_agents.kits.company.probe.readme import Command, Readme

ADDRESSES, BYTES, SECONDS = 40, 1 << 20, 5.0
"""Paths that are asked for; the most of one answer, and its time: a stream has no end."""
LOOKS, LOOKING = 5, 60
"""Pages that are opened in a browser, and the seconds that one has."""
_GONE = (404, 405, 410)
_ENDING = re.compile(r"shutdown|stop|quit|exit|logout|restart")


class Service:
    """Asks the first server that is started. `seen`: whether there was one. `browse`: the module that looks at pages in a browser
    (`browse.py`), or None where there is none.
    """

    def __init__(self, readme: Readme, desk: ProbeDesk, findings: Findings, kind: str, browse: Path | None = None) -> None:
        self._readme, self._desk, self._findings, self._kind, self._browse = readme, desk, findings, kind, browse
        self.seen = False

    def started(self, command: Command, ran: ProbeRan, where: Path) -> None:
        """All that is tried with it; then it runs no more. `where`: the folder in which it was started."""
        if self.seen:
            return
        self.seen = True
        place = f"README.md:{command.line}"
        printed = self._readme.addresses(ran.out + ran.err)
        written = [] if re.search(r"\d{4}", command.text) else self._readme.addresses(self._readme.text)
        ports = sorted(ran.ports, key=lambda one: (one[1] not in {port for _, port, _ in printed}, one[1]))
        address, port = ports[0]
        if address == "everywhere":
            self._findings.fault("everywhere", place,
                                 f"`{command.text}` listens on all addresses of the machine; 127.0.0.1 is enough")
        host, start = next(((host, path) for host, one, path in printed if one == port), ("127.0.0.1", "/"))
        asked = Asking(port, "::1" if address == "::1" else "127.0.0.1", host.replace("0.0.0.0", "127.0.0.1"))
        self._findings.trying("what its server answers", lambda: self._answers(asked, start, place))
        self._ends(command, signal.SIGTERM)
        again = self._desk.run(command.text, where)
        if not again.ports:
            self._findings.fault("starts_again", place,
                                 f"`{command.text}` does not start a second time: {end_of(again.err or again.out)}")
        for told, who in ((written, "the README"), (printed, "what it prints")):
            fixed = again.ports == ran.ports                    # else it takes one that is free
            if told and fixed and port not in {one for _, one, _ in told}:
                self._findings.fault("port", place, f"`{command.text}` listens on {port}, and {who} says "
                                                    f"{', '.join(sorted({str(one) for _, one, _ in told}))}")
        self._ends(command, signal.SIGINT)

    def _answers(self, asked: Asking, start: str, place: str) -> None:
        status, _, _ = asked.get(start)
        if status == 0 or status >= 500 or (status >= 400 and self._kind == "web"):
            self._findings.fault("routes", place, f"GET {start} gives {asked.told(status)}")
        if status:
            pages = self._pages(asked, start, place)
            self._changes(asked)
            self._strangers(asked, start, place)
            self._growth(asked, start, place)
            if self._browse:                                    # last, as it clicks
                self._findings.trying("its pages in a browser", lambda: self._in_a_browser(asked, pages))

    def _pages(self, asked: Asking, start: str, place: str) -> list[str]:
        """The first page, what the README says can be got, and what pages link to. Gives the paths of those that are HTML."""
        routes = {one.path: one for one in self._readme.routes() if one.method == "GET"}
        waiting = [(start, place), *((one.path, f"README.md:{one.line}") for one in routes.values())]
        seen, pages = set[str](), list[str]()
        while waiting and len(seen) < ADDRESSES and not self._findings.time_is_up:
            path, source = waiting.pop(0)
            if path in seen or _ENDING.search(path):
                continue
            seen.add(path)
            status, text, kind = asked.get(path)
            route = routes.get(path)
            demanded = route.demanded if route else None
            named = route.named if route else frozenset[int]()
            fine = status in named or (not demanded and status in (200, 201, 204))
            missing = status in _GONE and not (route and route.is_example)
            if not fine and (status == 0 or status >= 500 or missing or demanded):
                self._findings.fault("routes", source, f"GET {path} gives {asked.told(status)}" + (
                    f", and is said to give {demanded}" if demanded else ""))
            if status == 200 and (saved := _saved(path, kind)):
                self._findings.page(saved, text)
            pages += [path] if "html" in kind and status == 200 else []
            if "html" in kind and len(waiting) < ADDRESSES:
                waiting += [(link, path) for link in _links(path, text)]
        return pages

    def _in_a_browser(self, asked: Asking, pages: list[str]) -> None:
        """What is seen on the first pages, and what is wrong with them then."""
        for path in pages[:LOOKS]:
            if self._findings.time_is_up:
                break
            ran = subprocess.run([sys.executable, str(self._browse), f"http://{asked.host}{path}"], capture_output=True,
                                 timeout=LOOKING)
            if ran.returncode:
                said = ran.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
                raise RuntimeError(f"{path}: {said}")
            self._findings.sights.append({"path": path} | json.loads(ran.stdout))

    def _changes(self, asked: Asking) -> None:
        """What the README says can be posted: it is there, and survives a request without a body."""
        for one in self._readme.routes():
            if one.method in ("GET", "HEAD") or _ENDING.search(one.path) or self._findings.time_is_up:
                continue
            status, _, _ = asked.get(one.path, method=one.method)
            missing = status in (404, 405) and not (status == 404 and one.is_example)
            if (status == 0 or missing or status >= 500) and status not in one.named:
                self._findings.fault("routes", f"README.md:{one.line}",
                                     f"{one.method} {one.path} without a body gives {asked.told(status)}")

    def _strangers(self, asked: Asking, start: str, place: str) -> None:
        """A path that nobody made, and a page of another site that asks under its own name."""
        status, _, _ = asked.get("/no-such-page-anywhere")
        if not asked.moved and (0 < status < 400 or status >= 500):
            self._findings.fault("routes", place, f"a path that does not exist gives {asked.told(status)}; it must give 404")
        if 200 <= asked.get(start, host="evil.example")[0] < 300:
            self._findings.fault(
                "host", place, "a request with the header `Host: evil.example` is answered: any page that the user opens reads "
                "and writes by DNS rebinding; answer to the names of the loopback alone")

    def _growth(self, asked: Asking, start: str, place: str) -> None:
        """Files that grow by being looked at."""
        sizes, over = [], time.monotonic() + 3 * SECONDS
        for _ in range(3):
            for _ in range(25):
                asked.get(start)
                if time.monotonic() > over:
                    return
            sizes.append(self._desk.sizes())
        for path, size in sizes[0].items():
            if size < sizes[1].get(path, 0) < sizes[2].get(path, 0):
                self._findings.fault("grows", place, f"`{path.name}` grows with each request of GET {start}, without end")

    def _ends(self, command: Command, number: signal.Signals) -> None:
        """Ends the server as a system or a user does."""
        name = "Ctrl-C" if number == signal.SIGINT else number.name
        before = self._desk.printed()
        if not self._desk.end(number):
            self._findings.fault("ends", f"README.md:{command.line}",
                                 f"`{command.text}` does not end within {ENDS:.0f} s at {name}")
        elif TRACEBACK in (said := self._desk.said(before)[1]):
            self._findings.fault("traceback", f"README.md:{command.line}",
                                 f"`{command.text}` shows a traceback at {name}: {end_of(said)}")
        self._desk.kill()


class Asking:
    """A server on the loopback, asked as one browser: its cookies are kept, redirections followed. `moved`: whether the last
    answer came by one; `host`: its name and port.
    """

    def __init__(self, port: int, address: str, host: str) -> None:
        self._port, self._address, self.host = port, address, f"{host}:{port}"
        self._cookies: dict[str, str] = {}
        self._last = ""
        self.moved = False

    def get(self, path: str, *, host: str = "", method: str = "GET") -> tuple[int, str, str]:
        """(status, text, type) of an answer; the status is 0 where there is none."""
        self.moved = False
        for _ in range(6):
            try:
                answer, text = self._once(path, host or self.host, method)
                moved = answer.getheader("Location")
                full = urlsplit(urljoin(f"http://{self.host}{path}", moved or ""))
                here = full.port == self._port
            except (OSError, http.client.HTTPException, ValueError) as error:
                self._last = str(error) or type(error).__name__
                return 0, "", ""
            if answer.status not in (301, 302, 303, 307, 308) or not moved or method != "GET" or not here:
                return answer.status, text, answer.getheader("Content-Type") or ""
            self.moved = True
            path = _sent(full.path, full.query)
        return HTTPStatus.LOOP_DETECTED, "", ""

    def _once(self, path: str, host: str, method: str) -> tuple[http.client.HTTPResponse, str]:
        line = http.client.HTTPConnection(self._address, self._port, timeout=SECONDS)
        told = {"Host": host, "Origin": f"http://{self.host}", "Accept": "text/html, */*"}
        if self._cookies and host == self.host:
            told["Cookie"] = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        data, over = b"", time.monotonic() + SECONDS
        try:
            line.request(method, path, headers=told)
            answer = line.getresponse()
            endless = "event-stream" in (answer.getheader("Content-Type") or "")
            while not endless and time.monotonic() < over and len(data) < BYTES:
                try:
                    part = answer.read1(1 << 16)
                except TimeoutError:                            # its head is there: that is an answer
                    break
                data += part
                if not part:
                    break
        finally:
            line.close()
        for name, value in answer.getheaders():
            if name.lower() == "set-cookie":
                key, _, rest = value.partition(";")[0].partition("=")
                self._cookies[key] = rest
        return answer, data.decode("utf-8", "replace")

    def told(self, status: int) -> str:
        """A status in words."""
        return f"{status} {http.client.responses.get(status, '')}".strip() if status else f"no answer ({self._last})"


class _Links(html.parser.HTMLParser):
    """The addresses that a reader of a page, or a browser, asks for; what stands in a template is none yet."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._templates = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes one."""
        told = dict(attrs)
        self._templates += tag == "template"
        if self._templates:
            return
        if tag == "form" and (told.get("method") or "get").lower() == "get":
            self.found.append(told.get("action") or "")
        elif tag in ("a", "link", "script", "img", "source"):
            self.found.append(told.get("href") or told.get("src") or "")

    def handle_endtag(self, tag: str) -> None:
        """Leaves a template."""
        self._templates -= tag == "template" and self._templates > 0


def _saved(path: str, kind: str) -> str:
    """What a browser would call a page, a style sheet or a script that it saves; empty for what is none."""
    ending = next((one for word, one in (("html", ".html"), ("css", ".css"), ("javascript", ".js")) if word in kind), "")
    return ending and (path.strip("/") or "index").removesuffix(ending) + ending


def _links(path: str, text: str) -> list[str]:
    """The paths on this server that a page names, as a browser sends them."""
    page, found = _Links(), []
    try:
        page.feed(text[:200_000])
    except AssertionError:                                      # html.parser, on some of what is no HTML
        pass
    for one in page.found[:4 * ADDRESSES]:
        try:
            full = urlsplit(urljoin(f"http://here{path}", one))
        except ValueError:
            continue
        if one and (full.scheme, full.netloc) == ("http", "here"):
            found.append(_sent(full.path, full.query))
    return found


def _sent(path: str, query: str) -> str:
    """A path and its query as a browser sends them."""
    return quote(path or "/", safe="/%:+,;@!$'()*~=&") + (f"?{quote(query, safe='/%:+,;@!$()*~=&?')}" if query else "")
