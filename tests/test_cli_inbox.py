"""`sop inbox`, `sop answer`, exit status 4, `--yes`, and the terminal: from processes of their own."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Sequence
from fcntl import ioctl
from pathlib import Path

import pytest
from cli_desk import SOP, environment, sop
from patience import PATIENCE, until

from metaflow_agents.cli.asking import TerminalAsker
from metaflow_agents.journal.journal import Journal
from metaflow_agents.questions.question import Answer, Question
from metaflow_agents.schema.event import Answered, Asked
from metaflow_agents.terminal.reader import Terminal
from metaflow_agents.views.page import Page
from metaflow_agents.views.questions import LONGEST, cut_lines, question_lines

SHIP = """
sop: ship
inputs: {topic: {type: string, default: rain}}
roles: {writer: {profile: You write.}}
artifacts: {letter: {}, approval: {}, tone: {}, note: {}, stamped: {}}
models: {default: "python:desk.py:answer"}
steps:
  write: {role: writer, needs: [topic], makes: letter}
  approve: {human: approve, needs: [letter], makes: approval, task: "Shall this go out?\\n{{ letter }}"}
  pick: {human: {choice: [warm, cold]}, needs: [topic], makes: tone, task: "Which tone for {{ topic }}?"}
  say: {human: text, needs: [topic], makes: note, task: "What shall be added?"}
  stamp: {value: "[letter, tone.choice, note.text] | join('/')", needs: [letter, approval, tone, note], makes: stamped}
success: approval.approved
"""
DESK = '''
import asyncio, pathlib
async def answer(request):
    return "Dear \\x1b[31myou"
async def slow(request):
    while not pathlib.Path("go").exists():
        await asyncio.sleep(0.02)
    return "Dear you"
'''


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "ship.yaml").write_text(SHIP)
    (tmp_path / "desk.py").write_text(DESK)
    return tmp_path


def waiting(home: Path, *words: str) -> None:
    ended = sop(home, "run", "ship.yaml", "--name", "one", *words)
    assert ended.returncode == 4, ended.stderr


def who_answered(home: Path) -> list[str]:
    with Journal.read(home / "workspace" / ".journals" / "one.db") as journal:
        return [event.by for _, event in journal.events(Answered)]


def numbers(home: Path) -> dict[str, int]:
    """Step → the number of its open question."""
    return {one["step"]: one["number"] for one in json.loads(sop(home, "inbox", "one", "--json").stdout)}


@pytest.mark.slow
def test_days_later_from_another_process(home: Path) -> None:
    waiting(home)
    told = sop(home, "show", "one").stdout
    assert "a person has to answer" in told and "sop inbox one" in told and "sop answer one" in told
    listed = sop(home, "inbox").stdout
    for words in ("pick asks for a choice", "choices: warm, cold", "approve asks for approval", "sop answer one",
                  "--choice …", "Dear ␛[31myou"):
        assert words in listed
    assert "\x1b" not in listed and listed == sop(home, "inbox", "one").stdout
    number = numbers(home)
    first = sop(home, "answer", "one", str(number["pick"]), "--choice", "warm")
    assert first.returncode == 0 and first.stdout.endswith("is answered; 2 more to answer\n")
    second = sop(home, "answer", "one", str(number["say"]), "a stamp")
    assert second.returncode == 0, second.stderr
    again = sop(home, "resume", "one")
    assert again.returncode == 4 and "Shall this go out?" in again.stdout
    last = sop(home, "answer", "one", "--yes", "--resume")
    assert last.returncode == 0 and "one: success" in last.stdout, last.stdout + last.stderr
    assert sop(home, "show", "one", "stamped").stdout == "Dear \x1b[31myou/warm/a stamp\n"
    assert who_answered(home) == ["answer"] * 3
    assert sop(home, "inbox").stdout == "no run in workspace/ asks anything\n"


REFUSED = [
    (["one", "--yes"], "asks 3 questions: say which, 1, 2, 3"),
    (["one", "9", "--yes"], "has no open question 9: there is 1, 2, 3"),
    (["one", "PICK", "wram"], "did you mean `warm`"),
    (["one", "PICK"], "is a question's number, and the answer is missing"),
    (["one", "PICK", "--yes"], "the question wants one of its choices: warm, cold, and no --yes"),
    (["one", "APPROVE", "fine"], "wants --yes or --no"),
    (["one", "APPROVE", "--yes", "--no"], "are two answers"),
    (["one", "PICK", "warm", "cold"], "`cold` is one word too many"),
    (["one", "PICK", "--choice", "warm", "cold"], "`cold` is one word too many"),
    (["one", "SAY", "--for", "run"], "the question's number"),
    (["two", "--yes"], "no run `two`"),
    (["one", "warm"], "asks 3 questions"),
    (["one", "x", "--choice", "warm"], "`x` is no number of a question"),
]


@pytest.mark.slow
def test_what_is_no_answer_is_one_line_and_changes_nothing(home: Path) -> None:
    waiting(home)
    number = {step.upper(): str(one) for step, one in numbers(home).items()}
    for words, told in REFUSED:
        if told == "the question's number":
            told = "is a question's number"
        ended = sop(home, "answer", *(number.get(word, word) for word in words))
        assert ended.returncode == 2 and ended.stderr.count("\n") == 1 and told in ended.stderr, (words, ended.stderr)
    assert who_answered(home) == []
    assert sop(home, "answer", "one", number["APPROVE"], "--no", "--reason", "too dull").returncode == 0
    twice = sop(home, "answer", "one", number["APPROVE"], "--yes")
    assert twice.returncode == 2 and f"has no open question {number['APPROVE']}" in twice.stderr


@pytest.mark.one_in(6)
def test_a_run_that_asks_nothing(home: Path) -> None:
    sop(home, "run", "ship.yaml", "--name", "one", "--model", "dry")
    ended = sop(home, "answer", "one", "--yes")
    assert ended.returncode == 2 and ended.stderr == (
        "sop: run `one` asks nothing: there is nothing to answer; to change an earlier answer, branch off before the step that "
        "asked: `sop fork one --at STEP@1`\n")


@pytest.mark.one_in(12, always=False)
def test_a_run_that_is_under_way_takes_answers_in(home: Path) -> None:
    with subprocess.Popen([*SOP, "run", "ship.yaml", "--name", "one", "--model", "python:desk.py:slow"], cwd=home,
                          env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:
        try:
            until(lambda: (home / "workspace/.journals/one.db").exists() and len(numbers(home)) == 2, "two questions are open")
            number = numbers(home)
            handed = sop(home, "answer", "one", str(number["pick"]), "cold")
            assert handed.returncode == 0 and f"open in process {process.pid}, which takes it in" in handed.stdout
            until(lambda: "pick" not in numbers(home), "it is taken in while others work")
            assert sop(home, "answer", "one", "a word").returncode == 0
            (home / "go").touch()
            out, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode == 4, err
    assert who_answered(home) == ["answer", "answer"] and not (home / "workspace/.journals/one.db.answers").exists()
    assert list(numbers(home)) == ["approve"] and "sop answer one" in out


@pytest.mark.one_in(12, always=False)
def test_an_answer_that_came_too_late_for_a_process_is_taken_in_by_the_next(home: Path) -> None:
    waiting(home)
    from metaflow_agents.questions.answer_queue import AnswerQueue, Letter
    from metaflow_agents.questions.inbox import open_questions

    path = home / "workspace/.journals/one.db"
    (pick,) = [one.question for one in open_questions(path) if one.question.step == "pick"]
    AnswerQueue(path).put(Letter(key=pick.key, question=pick.digest, answer=Answer(text="warm")))
    assert "it is answered" in sop(home, "inbox").stdout
    number = {one.question.step: one.number for one in open_questions(path)}["pick"]
    twice = sop(home, "answer", "one", str(number), "cold")
    assert twice.returncode == 2 and "is answered already" in twice.stderr
    assert sop(home, "resume", "one").returncode == 4
    assert who_answered(home) == ["answer"] and "pick" not in numbers(home)


@pytest.mark.one_in(8, always=False)
def test_yes_approves_and_leaves_other_questions_open(home: Path) -> None:
    waiting(home, "--yes")
    assert set(numbers(home)) == {"pick", "say"} and who_answered(home) == ["--yes"]


@pytest.mark.one_in(8)
def test_resume_takes_yes_too(home: Path) -> None:
    waiting(home)
    assert sop(home, "resume", "one", "--yes").returncode == 4
    assert set(numbers(home)) == {"pick", "say"}


@pytest.mark.one_in(6)
def test_one_damaged_run_hides_no_question_of_the_others(home: Path) -> None:
    waiting(home)
    (home / "workspace/.journals/bad.db").write_bytes(b"no database")
    ended = sop(home, "inbox")
    assert ended.returncode == 0 and "pick asks" in ended.stdout and "bad: " in ended.stdout


@pytest.mark.one_in(8, always=False)
def test_the_log_tells_who_asked_and_who_answered(home: Path) -> None:
    waiting(home, "--yes")
    told = sop(home, "log", "one").stdout
    assert "pick@1: asks a person" in told and "approve@1: is answered by `--yes`" in told
    full = sop(home, "log", "one", "--kind", "asked", "--full").stdout
    assert "Which tone for rain?" in full


# -- the terminal

def played(words: Sequence[str], folder: Path, script: Sequence[tuple[str, str]], width: int = 90) -> tuple[str, int]:
    """A command at a terminal of its own; each answer is typed once its prompt stands there. Its screen, and its status."""
    pid, file = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execvpe(words[0], list(words), environment({"TERM": "xterm-256color"}))
    ioctl(file, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    seen, mark, left = b"", 0, list(script)
    deadline = time.monotonic() + 2 * PATIENCE
    while time.monotonic() < deadline:
        if select.select([file], [], [], 0.1)[0]:
            try:
                data = os.read(file, 65536)
            except OSError:
                break
            if not data:
                break
            seen += data
        if left and left[0][0].encode() in seen[mark:]:
            mark = len(seen)
            os.write(file, left.pop(0)[1].encode())
    else:
        os.kill(pid, 9)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(file)
    assert not left, f"was never asked for: {left[0][0]!r} in\n{seen.decode(errors='replace')}"
    return seen.decode(errors="replace").replace("\r\n", "\n"), status


@pytest.mark.one_in(8)
def test_at_a_terminal_people_are_asked_there(home: Path) -> None:
    seen, status = played([*SOP, "run", "ship.yaml", "--name", "one"], home, [
        ("(Ctrl-D: later)> ", "hot\n"), ("(Ctrl-D: later)> ", "2\n"), ("(Ctrl-D: later)> ", "a stamp\n"),
        ("[l] later", "maybe\n"), ("[l] later", "yse\n"), ("[l] later", "y\n")])
    assert status == 0, seen
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen)
    assert "'hot' is no choice" in shown and "[2] cold" in shown and "did you mean `y`?" in shown
    assert "\x1b[31m" not in shown and "Dear ␛[31myou" in shown                  # what a model wrote commands no terminal
    assert who_answered(home) == ["terminal"] * 3
    assert sop(home, "show", "one", "stamped").stdout == "Dear \x1b[31myou/cold/a stamp\n"


@pytest.mark.one_in(8, always=False)
@pytest.mark.parametrize("typed", ["\n", "  \n", "\x04"])
def test_what_may_be_assumed_is_passed_over_by_enter(tmp_path: Path, typed: str) -> None:
    (tmp_path / "ask.yaml").write_text(
        "sop: ask\nartifacts: {said: {}}\nsteps: {ask: {human: text, task: What else?, on_no_answer: assume, makes: said}}\n")
    seen, status = played([*SOP, "run", "ask.yaml", "--name", "one"], tmp_path, [("answer (Enter: it is assumed)> ", typed)])
    assert status == 0 and "it is assumed" in seen.rpartition("> ")[2] and "put off" not in seen and "was nothing" not in seen
    assert json.loads(sop(tmp_path, "show", "one", "said", "--json").stdout) == {"text": "", "assumed": True}


@pytest.mark.one_in(12)
def test_what_is_put_off_at_the_terminal_is_answered_later(home: Path) -> None:
    seen, status = played([*SOP, "run", "ship.yaml", "--name", "one"], home, [
        ("(Ctrl-D: later)> ", "warm\n"), ("(Ctrl-D: later)> ", "\x04"), ("[l] later", "n\n"), ("why", "too dull\n")])
    assert status == 4 and "sop answer one" in seen
    assert list(numbers(home)) == ["say"]
    assert json.loads(sop(home, "show", "one", "approval", "--json").stdout) == {
        "approved": False, "reason": "too dull", "assumed": False}
    seen, status = played([*SOP, "answer", "one", "a stamp", "--resume"], home, [])
    assert status == 1 and "success: approval.approved" in seen


@pytest.mark.one_in(8)
def test_a_model_that_is_a_person_and_questions_take_turns(home: Path) -> None:
    seen, status = played([*SOP, "run", "ship.yaml", "--name", "one", "--model", "manual"], home, [
        ("in the role of writer", "Dear you\n.\n"), ("(Ctrl-D: later)> ", "warm\n"), ("(Ctrl-D: later)> ", "x\n"),
        ("[l] later", "yes\n")])
    assert status == 0, seen


ACTION = Question(
    key="write@1~0/turn.0/tool.0", kind="action", text="", role="writer", step="write", tool="send", action="mcp(mail.send)",
    arguments={"to": "a\u202eb", "body": "x" * 5000, "copy": ["c"]}, rule="ask mcp(mail.*) of the SOP",
    untrusted="fetched from https://evil.example\x1b[2J")


def asked(question: Question, typed: str) -> tuple[Answer | None, str]:
    """What the terminal makes of what is typed, and what it shows."""
    read, write = os.pipe()
    os.write(write, typed.encode())
    os.close(write)
    shown: list[str] = []
    answer = asyncio.run(TerminalAsker(Terminal(read), shown.append)(question, 7))
    os.close(read)
    return answer, "".join(shown)


TYPED = [
    ("y\n", Answer(verdict="yes")),
    ("allow\n", Answer(verdict="yes")),
    ("r\n", Answer(verdict="yes", scope="run")),
    ("rule\n", Answer(verdict="yes", scope="rule")),
    ('e\n{"to": "b"}\n', Answer(verdict="yes", arguments={"to": "b"})),
    ('e\n{to: b}\ne\n{"to": "c"}\n', Answer(verdict="yes", arguments={"to": "c"})),
    ("n\nnot to him\n", Answer(verdict="no", text="not to him")),
    ("no\n\n", Answer(verdict="no")),
    ("\nl\n", None),
    ("", None),
    ("e\n", None),
    ("y", None),                                    # Ctrl-D behind what was typed and not entered: later, and no yes
    ("n\nnot to", None),
    ("e\n" + json.dumps({"to": "b" * 4096}) + "\nl\n", None),       # a terminal would have cut it
]


@pytest.mark.parametrize(("typed", "answer"), TYPED, ids=[repr(typed[:20]) for typed, _ in TYPED])
def test_what_is_typed_about_an_action(typed: str, answer: Answer | None) -> None:
    assert asked(ACTION, typed)[0] == answer


def test_an_action_is_shown_with_all_that_decides() -> None:
    shown = "\n".join(question_lines(ACTION, Page()))
    for words in ("writer in write wants to act", "mcp(mail.send)", "asked because: ask mcp(mail.*) of the SOP",
                  f"({5000 - LONGEST:,} characters more)", 'copy: ["c"]', "it has read from outside: fetched from"):
        assert words in shown
    assert "\u202e" not in shown and "\x1b" not in shown


def test_a_long_text_hides_nothing_that_stands_beside_it() -> None:
    body = {"note": "x" * 5000, "to": ["the attacker"]}
    shown = "\n".join(question_lines(ACTION.model_copy(update={"arguments": {"body": body}}), Page()))
    assert '"to": ["the attacker"]' in shown and "x" * 1000 not in shown and "characters more)" in shown


@pytest.mark.one_in(12, always=False)
def test_a_question_that_is_cut_says_so_and_is_seen_whole(home: Path) -> None:
    """In its text, by lines and by characters; what is short says nothing of it."""
    (home / "topic.txt").write_text("".join(f"line {number}\n" for number in range(70)) + "x" * (LONGEST + 1) + "THE END")
    waiting(home, "--topic", "@topic.txt")
    number = numbers(home)
    listed = sop(home, "inbox").stdout
    assert "(11 lines more)" in listed and "THE END" not in listed
    assert listed.count("this is not all of it") == 1
    assert f"this is not all of it: `sop inbox one {number['pick']}` shows the whole" in listed
    seen = sop(home, "inbox", "one", str(number["pick"])).stdout
    assert "line 69" in seen and "THE END" in seen and "not all" not in seen and "--choice …" in seen and "approve" not in seen
    only = json.loads(sop(home, "inbox", "one", str(number["say"]), "--json").stdout)
    assert [one["step"] for one in only] == ["say"]
    none = sop(home, "inbox", "one", "9")
    assert none.returncode == 2 and none.stderr == "sop: run `one` has no open question 9: there is 1, 2, 3; others are " \
                                                   "answered or unknown\n"


LONG = "x" * 5000 + "THE END"
CUT = [{"arguments": {"body": LONG}}, {"arguments": {"body": {"to": ["b", LONG]}}}, {"text": LONG}, {"text": "x\n" * 70 + LONG},
       {"action": f"mcp(mail.send {LONG})", "text": ""}]


@pytest.mark.parametrize("held", CUT, ids=["text argument", "data argument", "text", "lines", "action"])
def test_all_that_is_cut_of_a_question_stands_in_the_whole(held: dict[str, object]) -> None:
    short = {"arguments": {}, "action": "mcp(mail.send)", "text": "Send?"}
    question, plain = ACTION.model_copy(update={**short, **held}), ACTION.model_copy(update=short)
    page = Page()
    assert "THE END" not in "".join(question_lines(question, page)) and cut_lines(question, page, "sop inbox one 1")
    assert "THE END" in "".join(question_lines(question, page, whole=True)).replace("\n", "")
    assert cut_lines(plain, page, "sop inbox one 1") == []
    told = "this is not all of it: `sop inbox RUN 7` shows the whole"
    assert told in " ".join(asked(question, "")[1].split()) and told not in asked(plain, "")[1]


def test_an_effect_asks_whether_it_has_happened() -> None:
    question = ACTION.model_copy(update={"kind": "effect"})
    answer, shown = asked(question, "n\n")
    assert answer == Answer(verdict="no") and "[n] it has not" in shown and "why" not in shown
    assert asked(question, "y\n")[0] == Answer(verdict="yes")
    answer, shown = asked(question.model_copy(update={"role": "", "answer_schema": {"type": "integer"}}), "y\nseven\ny\n7\n")
    assert answer == Answer(verdict="yes", text="7") and "what it gave (integer, as JSON)> " in shown and "not JSON" in shown


@pytest.mark.one_in(4)
def test_nothing_that_was_typed_before_a_question_stands_there_answers_it(home: Path) -> None:
    """Whoever hits `y` twice, or types while the board is drawn, has not read the next question."""
    seen, status = played([*SOP, "run", "ship.yaml", "--name", "one"], home, [
        ("(Ctrl-D: later)> ", "warm\na stamp\n"), ("(Ctrl-D: later)> ", "ink\ny\ny\n"), ("[l] later", "n\n"), ("why", "\n")])
    assert status == 1, seen
    with Journal.read(home / "workspace/.journals/one.db") as journal:
        said = [json.loads(journal.blob(event.answer)) for _, event in journal.events(Answered)]
    assert said == [{"text": "warm"}, {"text": "ink"}, {"verdict": "no"}]


@pytest.mark.one_in(12)
def test_interrupted_while_a_question_waits_it_stands_and_is_asked_again(home: Path) -> None:
    seen, status = played([*SOP, "run", "ship.yaml", "--name", "one"], home, [("(Ctrl-D: later)> ", "\x03")])
    assert status == 130 and "sop resume one" in seen and "Traceback" not in seen, seen
    assert "pick" in numbers(home)
    seen, status = played([*SOP, "resume", "one"], home, [
        ("(Ctrl-D: later)> ", "warm\n"), ("(Ctrl-D: later)> ", "x\n"), ("[l] later", "y\n")])
    assert status == 0, seen


def test_a_question_fits_a_narrow_terminal() -> None:
    page = Page(width=40)
    narrow = ACTION.model_copy(update={"text": "May `writer` do `mcp(mail.send)`?", "arguments": {"to": "b"}})
    lines = question_lines(narrow, page)
    assert all(len(line) <= 40 for line in lines if " " in line.strip()), lines
    assert "\n".join(lines).count("mcp(mail.send)") == 1                          # the question says it already
    assert page.packed(["[y] allow once", "[r] for this run", "[n] refuse"]) == ["[y] allow once  [r] for this run", "[n] refuse"]


@pytest.mark.one_in(8, always=False)
def test_without_a_standard_input_nobody_is_asked(home: Path) -> None:
    ended = subprocess.run(["sh", "-c", 'exec "$@" <&-', "sh", *SOP, "run", "ship.yaml", "--name", "one"], cwd=home,
                           env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 4 and "Traceback" not in ended.stderr, ended.stderr
    assert set(numbers(home)) == {"pick", "say", "approve"}


@pytest.mark.one_in(4)
def test_questions_are_in_the_journal_before_anybody_is_asked(home: Path) -> None:
    waiting(home)
    with Journal.read(home / "workspace/.journals/one.db") as journal:
        assert len(list(journal.events(Asked))) == 3 and set(journal.state.questions) == {"pick@1~0", "say@1~0", "approve@1~0"}
