"""Which parsers of foreign text grow faster than their input: each is fed with texts that repeat what parsers stumble over.

python -m benchmarks.pumped               # what grows faster than the input, and how fast; some minutes
python -m benchmarks.pumped blocks marks  # of the parsers with such words in their names

Every pair of a parser and a pump runs in a process of its own, with a limit on its processor time. `tests/test_growth.py` runs the same
pairs at one size, where what is linear takes milliseconds and what is quadratic takes a minute.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from math import log2
from typing import Any

Pump = Callable[[int], str]
Parser = Callable[[str], Any]


def _again(unit: str, before: str = "", after: str = "") -> Pump:
    return lambda size: before + unit * max(1, (size - len(before) - len(after)) // max(1, len(unit))) + after


PUMPS: dict[str, Pump] = {
    **{f"{unit!r} again": _again(unit) for unit in (
        "<", ">", "(", ")", "[", "]", "{", "}", "()", "[]", "\"", "'", "`", "“", "”", "„", "‘", "«", "»", "=", "-", "–", "*", "**", "_", "~",
        "#", "|", "$", "$$", "\\", "/", ".", "...", ",", ";", ":", "!", "&", "0", "9", "a", "a ", "a.", "1.", "[1]", "[1,", "[^", "![", "[a](",
        "](", "\n", "\n\n", "a\n", "\u0301\u0316", "\n-", "\n>", "\n#", "\n|", "\n```", "\n===", " ", "\t", "\u0301", "e\u0301", "\ufb01", "\u200b", "\u00ad", "漢",
        "\U0001f468\u200d", "%41", "&lt;", "<a ", "<title>", "{{", "{%", "${A", "[S1", "[S1]", "“a” [S1] ", "a. ", " - ", " -- ", "-\n",
        "\"a\": 1, ", "{\"a\":", "x=", "0x", "0xffff ", "1 s ", "word ", "WordWord", "\r", "\x00", "\x1b[", "a/", "../", "*/", "?", "[a",
    )},
    **{f"{before!r} and spaces": _again(" ", before, after) for before, after in (
        ("=== x: ", ""), ("=== file: ", "x"), ("=== end", "x"), ("```", "x"), ("# ", "x"), ("> ", "x"), ("“", "”x"), ("a ", ". b"),
        ("\n```", "x"), ("a", "-b"), ("(S1, p. ", "x"), ("[S1, p. 1", "x]"), ("<a", "<"), ("1", "x"), ("Read(", "x"), ("a.", "b"))},
    "an open call": _again("{\"name\": \"a\", ", "```tool\n"),
    "calls": _again("```tool\n{\"name\": \"a\", \"arguments\": {}}\n```\n"),
    "broken calls": _again("```tool\n{\"name\": \"\n```\n"),
    "open calls": _again("```tool\n"),
    "open blocks": _again("=== file: a ===\n"),
    "unknown blocks": _again("=== fule: a ===\n"),
    "blocks": lambda size: "".join(f"=== file: f{number} ===\nx\n=== end ===\n" for number in range(size // 32)),
    "open edits": _again("<<<<<<< SEARCH\n", "=== edit: a ===\n", "=== end ===\n"),
    "edits": _again("<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n", "=== edit: a ===\n", "=== end ===\n"),
    "a long edit": lambda size: ("=== edit: a ===\n<<<<<<< SEARCH\n" + "".join(f"line {number}\n" for number in range(size // 10))
                                 + "=======\ny\n>>>>>>> REPLACE\n=== end ===\n"),
    "fences": lambda size: "\n".join("`" * (3 + number) for number in range(int((2 * size) ** 0.5))),
    "tildes": _again("~~~\n"),
    "lines": lambda size: "".join(f"line {number} of it\n" for number in range(size // 16)),
    "headings": lambda size: "".join(f"# h{number}\n\nx\n\n" for number in range(size // 12)),
    "many keys": lambda size: json.dumps({f"k{number}": number for number in range(size // 14)}),
    "equal keys": _again("\"a\": 1, ", "{", "\"b\": 1}"),
    "deep lists": lambda size: "[" * (size // 2) + "]" * (size // 2),
    "a period": _again("abcdefghijklmnopqrstu", "x"),
    "half periods": lambda size: "".join(f"abcdefghijklmnopqrst{number % 7}" for number in range(size // 21)),
    "quotations": lambda size: "".join(f"“a word of number {number} here” [S1]. " for number in range(size // 38)),
    "false quotations": lambda size: "".join(f"“not there {number} at all x” [S1]. " for number in range(size // 34)),
}


def _parsers() -> dict[str, Parser]:
    """Name → what is done with a text; what it raises is no matter."""
    from metaflow_agents import errors
    from metaflow_agents.agent import answers, applying, blocks
    from metaflow_agents.agent import truncation as continuing
    from metaflow_agents.agent.strategies.lasting import lasting
    from metaflow_agents.documents import decoding, folder
    from metaflow_agents.kits.planning.domains import read_domain
    from metaflow_agents.kits.python_package.declared import parsed as signature
    from metaflow_agents.kits.research import page, passages
    from metaflow_agents.kits.research.quotations.marks import find_marks
    from metaflow_agents.kits.research.quotations.normal import normal_text
    from metaflow_agents.kits.research.quotations.verify import verify
    from metaflow_agents.kits.research.values import Report, Section
    from metaflow_agents.memory.store import query
    from metaflow_agents.models import replay, text_form
    from metaflow_agents.models.calls import arguments_of
    from metaflow_agents.models.endpoint import waits, wording
    from metaflow_agents.models.port import ModelRequest
    from metaflow_agents.network import hosts
    from metaflow_agents.output.history.wording import one_line
    from metaflow_agents.policy import rules, shell
    from metaflow_agents.prompts import evaluate
    from metaflow_agents.sandbox import command
    from metaflow_agents.sandbox.sanitised import OutputSanitiser
    from metaflow_agents.schema import paths, shorthand, trust
    from metaflow_agents.schema.difference import unified
    from metaflow_agents.schema.external_schema import widened
    from metaflow_agents.schema.source import Source, SourcePage
    from metaflow_agents.tools import arguments, mcp_schema, mcp_text, openapi_document, retrieval
    from metaflow_agents.tools.secrets import Secrets
    from metaflow_agents.views import page as shown_page

    def source(text: str) -> Source:
        return Source(id="S1", path="a.md", title="A", kind="text", words=1, notes=(), pages=(SourcePage(text=text),))

    def request(text: str) -> ModelRequest:
        return ModelRequest(key="a", role="r", step="s", messages=({"role": "user", "content": text},), model="m")

    listed = ["src/a.py", "src/b.py", "README.md"]
    words = "a word of number {n} here that is said once and a second time and then no more in it"
    prose = source("\n".join(words.format(n=number) for number in range(300)))
    section = Section(id="a", heading="What it is", question="What is a word?", points=["a"], terms=["word"], sources=["S1"])
    report = {"title": "T", "language": "en", "question": "q", "sections": [], "sources": [], "quotations": [], "citations": 0,
              "unread": [], "faults": []}
    masks = Secrets(["A"], lambda _: "abcdefgh")
    places = OutputSanitiser([("/tmp/a", ".")])
    text_file = "".join(f"def f{number}(x): return x + {number}\n" for number in range(400))
    string = {"type": "object", "properties": {"a": {"type": "string"}}}
    return {
        "blocks": blocks.parse_blocks,
        "blocks: is there one": blocks.holds_block,
        "an edit that fits nowhere": lambda text: applying.apply_blocks(
            [blocks.Block("edit", "a", 1, edits=(blocks.Edit(tuple(text.split("\n")), (), 1),))], {"a": text_file}, ["**"]),
        "an edit of a text": lambda text: applying.apply_blocks(
            [blocks.Block("edit", "a", 1, edits=(blocks.Edit(tuple(text_file.split("\n")[:60]), (), 1),))], {"a": text}, ["**"]),
        "an edit of a text by its lines": lambda text: applying.apply_blocks(
            [blocks.Block("edit", "a", 1, edits=(blocks.Edit((*text.split("\n")[:-1], "no"), (), 1),))], {"a": text}, ["**"]),
        "blocks applied": lambda text: applying.apply_blocks(blocks.parse_blocks(text), {"a": "x\n" * 50}, ["**"]),
        "blocks said once more": lambda text: applying.apply_answers(
            applying.following((tuple(blocks.parse_blocks(text)),), blocks.parse_blocks(text)), {"a": "x\n" * 50}, ["**"]),
        "calls in text": text_form.read_blocks,
        "results in text": lambda text: text_form.in_text(request(text)),
        "an answer without its fence": answers.unfenced,
        "an answer gone on with": lambda text: continuing.joined(text, text, data=True),
        "an answer gone on with anew": lambda text: continuing.joined(text, text[len(text) // 2:] + "x", data=True),
        "what lasts": lasting,
        "did you mean": lambda text: errors.did_you_mean(text, listed),
        "did you mean one of many": lambda text: errors.did_you_mean("src/main.py", text.split("\n")),
        "did you mean a long one": lambda text: errors.did_you_mean(text, [text + "x", text[1:]]),
        "a document's bytes": lambda text: decoding.decoded(text.encode()),
        "a document's headings": lambda text: list(folder._headings(text)),
        "a document's about": lambda text: folder._about(source(text), 400),
        "a file's name": folder._stem,
        "marks of quotations": find_marks,
        "one form of a text": normal_text,
        "quotations in a source": lambda text: verify({"a": text}, [prose]),
        "a quotation of a source": lambda text: verify({"a": "“not one of the words that stand here” [S1]"}, [source(text)]),
        "a long quotation": lambda text: verify({"a": f"“{text} word” [S1]"}, [source(text + words)]),
        "passages": lambda text: passages.choose(section, [source(text)]),
        "a report's page": lambda text: page.set_page(Report(ok=True, summary=text, **report)),
        "a URL": hosts.parse, "a host": lambda text: hosts.parse(f"http://{text}/"),
        "what an endpoint says": lambda text: wording.told_in(text.encode(), None),
        "how long to wait": lambda text: waits.asked_wait({"retry-after": text}, text),
        "words of a refusal": lambda text: [pattern.search(text) for pattern in (
            wording.NO_MONEY, wording.TOO_LONG, wording.UNKNOWN_MODEL, wording.FORMAT, wording.THIS_SCHEMA, wording.NO_TOOLS)],
        "arguments": arguments_of,
        "arguments against a schema": lambda text: arguments.faults_of(string, {"a": text, text: 1}),
        "many arguments": lambda text: arguments.faults_of(string, {line: 1 for line in text.split("\n")}),
        "a path": lambda text: paths.refusal(text), "a path pattern": lambda text: paths.pattern_refusal(text),
        "many paths": lambda text: paths.clash(text.split("\n")),
        "a short schema": lambda text: shorthand.to_json_schema({text: text}),
        "a label": lambda text: trust.joined(text, text[1:]),
        "a foreign schema": lambda text: widened({"type": "object", "properties": {line: {"type": text[:50]} for line in text.split("\n")}}),
        "a server's schema": lambda text: mcp_schema.bounded({"type": "object", "properties": {line: {} for line in text.split("\n")}}),
        "a server's text": mcp_text.visible,
        "a description": lambda text: openapi_document.Description("a", {"openapi": "3.0.0", "paths": {
            f"/{line}": {"get": {"operationId": line}} for line in text.split("\n")}}),
        "words of a tool": retrieval.words,
        "a command": command.parse_argv, "a script": shell.commands, "a rule": rules.parse_rule,
        "a command's output": lambda text: places.of(text.encode()),
        "secrets": masks.masked,
        "a PDDL domain": lambda text: read_domain(text, "a.pddl"),
        "a signature": signature,
        "a subject": one_line, "a line for a terminal": lambda text: shown_page.cut(shown_page.safe(text), 80),
        "a search of memories": query,
        "a difference": lambda text: list(unified(text.split("\n"), text[::-1].split("\n"), "a", "b")),
        "a prompt that changed": lambda text: list(replay.difference(vars(request(text)), request(text[::-1]))),
        "a fence in a prompt": lambda text: evaluate("t | title", {"t": text}),
    }


def seconds(parser: Parser, pump: Pump, size: int, limit: float) -> float:
    """Processor time in a process of its own; the limit where it took longer."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        text = pump(size)
        signal.setitimer(signal.ITIMER_PROF, limit)
        begun = time.process_time()
        try:
            parser(text)
        except Exception as error:          # a refusal is an answer too; what is none of ours is told
            if type(error).__module__.partition(".")[0] not in ("metaflow_agents", "builtins", "pydantic_core"):
                sys.stderr.write(f"{type(error)}\n")
        os.write(writing, f"{time.process_time() - begun:.4f}".encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        said = told.read()
    os.waitpid(child, 0)
    return float(said) if said else limit


def pairs(words: list[str]) -> Iterator[tuple[str, str, Parser, Pump]]:
    """Every parser with every pump."""
    for name, parser in _parsers().items():
        if not words or any(word in name for word in words):
            for told, pump in PUMPS.items():
                yield name, told, parser, pump


def growing(words: list[str], *, limit: float = 20.0, largest: int = 64_000) -> Iterator[str]:
    """What grows faster than its input: (parser, pump), with the exponent over the last doubling, and seconds."""
    for name, told, parser, pump in pairs(words):
        if seconds(parser, pump, largest, limit) < 0.25:
            continue
        size = 500
        before = after = 0.0
        while after < 0.5 and size < largest:
            size *= 2
            before, after = after, seconds(parser, pump, size, limit)
        exponent = log2(after / before) if before > 0.002 else 9.0
        if exponent > 1.4 or (after >= 0.5 and size <= largest // 4):
            yield f"{name:32} {told:32} {size:>7,} characters {after:6.2f} s   size to the power of {exponent:.1f}"


if __name__ == "__main__":
    for line in growing(sys.argv[1:]):
        print(line, flush=True)
