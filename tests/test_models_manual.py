"""Somebody answers by hand: through files in a folder, or at a terminal (a real one, a pseudo-terminal)."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scripted import events, write

from metaflow_agents import Run, resume, run, start
from metaflow_agents.errors import UsageError
from metaflow_agents.models import manual
from metaflow_agents.models.manual import FolderModel, TerminalModel, conversation, fitting, prompt_text, stem
from metaflow_agents.models.port import ModelRequest
from metaflow_agents.models.recording import read_recording
from metaflow_agents.schema.event import Reserved, Settled
from metaflow_agents.settings import Settings

DESK = """
    sop: desk
    inputs: {topic: string}
    roles: {ann: {profile: You plan.}, bob: {profile: You write.}}
    artifacts: {plan: {schema: [string]}, parts: {each: string}}
    steps:
      plan_it:  {role: ann, needs: [topic], makes: plan, task: "Plan a book on {{ topic }}."}
      write_it: {role: bob, needs: [plan], foreach: {in: plan}, makes: parts}
"""
QUIET = Settings()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FolderModel.__init__, "__defaults__", (0.01,))


def request_of(key: str = "write@1~0/turn.0", said: str = "Write.", **more: Any) -> ModelRequest:
    return ModelRequest(key=key, role="ann", step="write", messages=({"role": "system", "content": "You write."},
                                                                     {"role": "user", "content": said}), model="manual", **more)


@asynccontextmanager
async def going_on(folder: Path, **options: Any) -> AsyncIterator[Run]:
    async with start(write(folder, DESK), topic="moss", model=f"manual:{folder}/calls", workspace=folder, settings=QUIET,
                     name="first", **options) as going:
        yield going


def listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


async def prompts(folder: Path, count: int) -> list[Path]:
    """The prompts without an answer, once they are so many."""
    async with asyncio.timeout(20):
        while True:
            names = listed(folder)
            found = [name for name in names if name.endswith(".prompt.md")
                     and name.replace(".prompt.md", ".answer.md") not in names]
            if len(found) >= count:
                assert len(found) == count, found
                return [folder / name for name in found]
            await asyncio.sleep(0.01)


def reply(prompt: Path, text: str) -> None:
    """As the prompt's own first lines ask for: written under another name, then renamed to the name that stands there."""
    lines = prompt.read_text(encoding="utf-8").splitlines()
    (name,) = [line.strip() for line in lines[:8] if line.startswith("    ")]
    draft = prompt.with_name("a draft")
    draft.write_text(text, encoding="utf-8")
    draft.rename(prompt.with_name(name))


# -- a folder

async def test_a_run_is_answered_through_files_several_at_once(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    async with going_on(tmp_path) as going:
        (plan,) = await prompts(calls, 1)
        assert plan.name.startswith("plan_it@1~0.turn.0.")
        reply(plan, '["a/b", "c"]\n')
        one, two = await prompts(calls, 2)                          # both items wait at the same time
        assert one.name.startswith("write_it@1[a%2Fb]~0.turn.0.")
        reply(two, "on c\n\n")
        reply(one, "on a\r\nand b")
        result = await going.result()
    assert result["parts"] == {"a/b": "on a\nand b", "c": "on c\n"}
    settled = events(tmp_path, "first", Settled)
    assert all(event.estimated and event.tokens_in > 0 for event in settled) and len(settled) == 3
    assert sum(name.endswith(".answer.md") for name in os.listdir(calls)) == 3


async def test_a_prompt_file_says_what_to_do_and_holds_the_whole_prompt(tmp_path: Path) -> None:
    async with going_on(tmp_path) as going:
        (plan,) = await prompts(tmp_path / "calls", 1)
        text = plan.read_text(encoding="utf-8")
        (reserved,) = events(tmp_path, "first", Reserved)
        request = going.journal.blob(reserved.request).decode()
    first = text[:text.index("-----")]
    assert "Write the answer, and nothing but the answer" in first and "rename it to" in first and "as the ann that" in first
    assert plan.name.replace(".prompt.md", ".answer.md") in first
    assert re.findall(r"^----- (.*) -----$", text, re.MULTILINE) == [
        "message 1 of 2: system", "message 2 of 2: user", "the answer is one JSON value that fits this JSON Schema"]
    assert "You plan." in text and "Plan a book on moss." in text and text.count('"type": "array"') == 1
    assert "Plan a book on moss." in request and str(tmp_path) not in text


@pytest.mark.parametrize("more", [0, 1])
def test_an_answer_is_cut_where_its_prompt_says_that_no_more_is_taken(more: int) -> None:
    request = ModelRequest(key="a@1~0/turn.0", role="ann", step="a", messages=({"role": "user", "content": "Write."},),
                           model="manual")
    told = re.search(r"of which ([\d,]+)\s+bytes\s+are\s+taken", prompt_text(request, "a.answer.md"))
    assert told
    longest = int(told[1].replace(",", ""))
    reply = fitting(request, "x" * (longest + more))
    assert (reply.said, reply.cut, reply.tokens) == ("x" * longest, bool(more), request.worst_tokens)
    half = fitting(request, "x" * (longest - 1) + "é")                     # and never within a character
    assert (half.said, half.cut) == ("x" * (longest - 1), True)


@pytest.mark.one_in(4)
async def test_an_answer_that_is_too_long_is_gone_on_with(tmp_path: Path) -> None:
    calls, text = tmp_path / "calls", "-".join(map(str, range(30_000)))
    async with going_on(tmp_path) as going:
        (plan,) = await prompts(calls, 1)
        reply(plan, '["a"]')
        (one,) = await prompts(calls, 1)
        reply(one, text)
        (more,) = await prompts(calls, 1)
        shown = more.read_text(encoding="utf-8")
        taken = next(at for at in range(len(text), 0, -1) if text[:at] in shown)
        assert 100_000 < taken < len(text) and "/more.1" in more.name.replace(".more", "/more") and text[:taken + 1] not in shown
        reply(more, text[taken:])
        result = await going.result()
    assert result["parts"] == {"a": text}


async def test_a_stopped_run_takes_its_prompt_away_and_asks_again(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    async with going_on(tmp_path) as going:
        reply((await prompts(calls, 1))[0], '["a", "b"]')
        one, _ = await prompts(calls, 2)
        reply(one, "on a")
        async for event in going.events():
            if event.kind == "finished" and "[a]" in event.activation:
                break
        going.stop()
        assert (await going.result()).outcome == "interrupted"
    assert not [name for name in os.listdir(calls) if name.startswith("write_it@1[b]")]
    went_on = asyncio.create_task(resume("first", workspace=tmp_path, settings=QUIET))
    (left,) = await prompts(calls, 1)                                # the others are answered by the journal
    assert left.name.startswith("write_it@1[b]~0.turn.0.")
    reply(left, "on b")
    assert (await went_on)["parts"] == {"a": "on a", "b": "on b"}


async def test_an_answer_that_was_given_while_nobody_waited_is_taken(tmp_path: Path) -> None:
    request = request_of()
    (tmp_path / f"{stem(request)}.answer.md").write_text("there already")
    assert (await FolderModel("manual:x", tmp_path).ask(request)).text == "there already"


async def test_the_answer_to_another_prompt_of_the_same_call_is_not(tmp_path: Path) -> None:
    (tmp_path / f"{stem(request_of(said='Write less.'))}.answer.md").write_text("little")
    asking = asyncio.create_task(FolderModel("manual:x", tmp_path).ask(request_of()))
    (prompt,) = await prompts(tmp_path, 1)
    reply(prompt, "much")
    assert (await asking).text == "much"


async def settled_down(asking: asyncio.Task[Any], looks: int = 12) -> bool:
    """Whether the answer is still not taken after many looks."""
    for _ in range(looks):
        await asyncio.sleep(0.012)
    return not asking.done()


async def test_a_half_written_answer_is_never_taken(tmp_path: Path) -> None:
    request = request_of()
    asking = asyncio.create_task(FolderModel("manual:x", tmp_path).ask(request))
    await prompts(tmp_path, 1)
    answer = tmp_path / f"{stem(request)}.answer.md"
    with open(answer, "w", encoding="utf-8") as file:               # noqa: ASYNC230  (the slow writer that is meant)
        assert await settled_down(asking)                            # empty
        file.write("the first half,")
        file.flush()
        assert await settled_down(asking), "taken while its writer still has it open"
        file.write(" and the second")
    assert (await asking).text == "the first half, and the second"


async def test_an_answer_that_grows_is_taken_once_it_stands_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manual, "_open_elsewhere", lambda file: False)         # as where the system can't tell
    seen: list[tuple[int, ...] | None] = []
    looked = manual._looked_at
    monkeypatch.setattr(manual, "_looked_at", lambda path: seen.append(looked(path)) or seen[-1])
    request = request_of()
    asking = asyncio.create_task(FolderModel("manual:x", tmp_path).ask(request))
    await prompts(tmp_path, 1)
    answer = tmp_path / f"{stem(request)}.answer.md"
    for number in range(5):
        count = len(seen)
        with open(answer, "a", encoding="utf-8") as file:           # noqa: ASYNC230
            file.write(f"line {number}\n")
        while len(seen) == count and not asking.done():              # noqa: ASYNC110  (one look between two writes)
            await asyncio.sleep(0)
    assert (await asking).text == "line 0\nline 1\nline 2\nline 3\nline 4"


async def test_what_is_no_file_yet_is_waited_for(tmp_path: Path) -> None:
    request = request_of()
    answer = tmp_path / f"{stem(request)}.answer.md"
    answer.mkdir()
    asking = asyncio.create_task(FolderModel("manual:x", tmp_path).ask(request))
    assert await settled_down(asking)
    answer.rmdir()
    os.mkfifo(answer)
    assert await settled_down(asking)
    answer.unlink()
    answer.write_text(" \n")
    assert await settled_down(asking)
    answer.write_text("now")
    assert (await asking).text == "now"


async def test_an_answer_that_is_no_text_fails_the_attempt(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    async with going_on(tmp_path) as going:
        (plan,) = await prompts(calls, 1)
        plan.with_name(plan.name.replace(".prompt.md", ".answer.md")).write_bytes(b"caf\xe9")
        result = await going.result()
    assert result.outcome == "stopped" and "is no UTF-8 text: byte 0xe9 at 3" in result.reason


async def test_a_folder_that_can_not_be_written_stops_the_run_and_names_another(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file; name a folder"):
        await run(write(tmp_path, DESK), topic="x", model=f"manual:{tmp_path}/file", workspace=tmp_path, settings=QUIET)
    result = await run(write(tmp_path, DESK), topic="x", model=f"manual:{tmp_path}/file/in", workspace=tmp_path, settings=QUIET)
    assert result.exit_status == 5 and "name another folder: `sop resume RUN --model manual:FOLDER`" in result.reason


def test_names_of_files_are_safe_short_and_different() -> None:
    octopus = "%F0%9F%90%99"
    keys = ["write@1[a/b]~0/turn.0", "write@1[a%2Fb]~0/turn.0", "write@1[../../x]~0/turn.0", f"write@1[{octopus * 60}]~0/turn.0",
            f"write@1[{octopus * 61}]~0/turn.0", "write@1~0/turn.0", "write@1~0/turn.0/repair.1", "write@1~1/turn.0"]
    stems = [stem(request_of(key)) for key in keys]
    assert len(set(stems)) == len(keys)
    assert all(re.fullmatch(r"[\w@%\[\]~.-]+", name) and not name.startswith(".") and len(name) < 200 for name in stems)


async def test_what_was_answered_by_hand_replays(tmp_path: Path) -> None:
    async with going_on(tmp_path, until="plan_it") as going:
        reply((await prompts(tmp_path / "calls", 1))[0], '["a"]')
        await going.result()
    recording = read_recording(tmp_path / ".journals" / "first.db")
    assert [call.reply.text for calls in recording.calls.values() for call in calls.values() if call.reply] == ['["a"]']


# -- a terminal

@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """The two ends of a pseudo-terminal: a person's, and the program's."""
    ends = pty.openpty()
    yield ends
    for end in ends:
        os.close(end)


class Shown(list[str]):
    """What a terminal showed."""

    async def until(self, text: str) -> None:
        async with asyncio.timeout(20):
            while text not in "".join(self):                         # noqa: ASYNC110
                await asyncio.sleep(0.005)


async def test_prompts_are_answered_one_at_a_time(terminal: tuple[int, int]) -> None:
    person, program = terminal
    shown = Shown()
    model = TerminalModel(program, shown.append)
    asking = [asyncio.create_task(model.ask(request_of(f"write@1[{item}]~0/turn.0", f"Write {item}."))) for item in "abc"]
    await shown.until("Write a.")
    assert "End it with a line that holds only `.`, or with Ctrl-D" in "".join(shown)
    os.write(person, b"one\n\ntwo\n.\n")
    async with asyncio.timeout(20):
        first = await asking[0]
    assert first.text == "one\n\ntwo" and "message 2 of 2: user -----\n\nWrite a." in "".join(shown)
    await shown.until("Write b.")
    await shown.until("in the role of ann; 1 more waiting -----")
    assert "Write c." not in "".join(shown)
    os.write(person, b"three\n\x04")                                 # Ctrl-D
    second = await asking[1]
    assert second.text == "three" and second.tokens_out == 2 and second.estimated
    await shown.until("Write c.")
    os.write(person, b"four\n.\n")
    assert (await asking[2]).text == "four"


async def test_nothing_is_asked_for_again_and_three_times_nothing_ends_it(terminal: tuple[int, int]) -> None:
    person, program = terminal
    shown = Shown()
    model = TerminalModel(program, shown.append)
    asking = asyncio.create_task(model.ask(request_of()))
    os.write(person, b"\x04")
    await shown.until("That was nothing")
    os.write(person, b"well\n.\n")
    assert (await asking).text == "well"
    asking = asyncio.create_task(model.ask(request_of()))
    for _ in range(3):
        os.write(person, b"\x04")
    with pytest.raises(Exception, match="the terminal gives no answer"):
        await asking


async def test_a_line_that_a_terminal_cuts_is_told(terminal: tuple[int, int]) -> None:
    person, program = terminal
    shown = Shown()
    asking = asyncio.create_task(TerminalModel(program, shown.append).ask(request_of()))
    await shown.until("your answer")
    for piece in (b"x" * 4000, b"y" * 500 + b"\n", b".\n"):
        os.write(person, piece)
        await asyncio.sleep(0)
    await shown.until("was cut")
    os.write(person, b"short\n.\n")
    assert (await asking).text == "short"


async def test_a_question_at_a_terminal_can_be_stopped(terminal: tuple[int, int]) -> None:
    shown = Shown()
    asking = asyncio.create_task(TerminalModel(terminal[1], shown.append).ask(request_of(said="\x1b]0;owned\x07Write.")))
    await shown.until("your answer")
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert "\x1b" not in "".join(shown)
    assert not asyncio.get_running_loop().remove_reader(terminal[1]), "somebody still listens"


@pytest.mark.one_in(8)
async def test_sop_run_asks_at_a_terminal(tmp_path: Path, terminal: tuple[int, int]) -> None:
    """The real command with a terminal for stdin, stdout and stderr: no board is drawn over the questions."""
    person, program = terminal
    write(tmp_path, DESK)
    code = "import sys; from metaflow_agents.cli import main; sys.argv = ['sop', *sys.argv[1:]]; main()"
    words = ["run", "desk.yaml", "--topic", "moss", "--model", "manual"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, *words, cwd=tmp_path, stdin=program, stdout=program, stderr=program, start_new_session=True,
        env={**os.environ, "TERM": "xterm"})
    os.set_blocking(person, False)
    seen = ""

    async def until(text: str, after: int = 0) -> None:
        nonlocal seen
        async with asyncio.timeout(60):
            while text not in seen[after:]:
                await asyncio.sleep(0.02)
                try:
                    seen += os.read(person, 65536).decode("utf-8", "replace")
                except BlockingIOError:
                    continue

    try:
        await until("your answer to plan_it@1~0/turn.0, in the role of ann")
        await until("beginning of a line.")
        os.write(person, b'["a", "b"]\n.\n')
        await until("your answer to write_it@1[a]~0/turn.0")
        os.write(person, b"on a\n.\n")
        await until("write_it@1[b]~0/turn.0")
        os.write(person, b"on b\n.\n")
        await until("success")
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert "\x1b[2K" not in seen and "\x1b[1A" not in seen


def test_the_schema_of_an_answer_is_told_once() -> None:
    asked = replace(request_of(), schema={"type": "array", "items": {"type": "string"}})
    told = conversation(asked)
    assert told.count('"array"') == 1 and "the answer is one JSON value that fits this JSON Schema" in told
    assert "the answer is one JSON value" not in conversation(replace(asked, schema={"type": "string"}))
