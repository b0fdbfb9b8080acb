"""`sop memory add`, `export`, `clear`: what a person lays down is recalled, what they clear is gone."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from scripted import finished
from test_cli_process import Terminal
from test_memory_shared import LETTERS, RECALLS, desk, serving

from metaflow_agents import run
from metaflow_agents.cli import command
from metaflow_agents.memory.owners import is_owner, owned_by
from metaflow_agents.memory.store import PLACE, MemoryDatabase, StoredMemory

JOURNALS = "journals of runs are not touched: what was said in a run stays in {}/.journals/"
ADA, BOB = "[customer Ada]", "[customer Bob]"


class Sop:
    """`sop memory …` in a folder, whose workspace is the folder itself."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys, self.err = folder, capsys, ""

    def __call__(self, *words: str, status: int = 0) -> list[str]:
        """The lines that it prints; what it complains of stands in `err`."""
        found = command(["memory", *words, "--workspace", str(self.folder)])
        printed = self._capsys.readouterr()
        self.err = printed.err
        assert found == status, (found, printed)
        return printed.out.splitlines()

    def kept(self) -> list[StoredMemory]:
        with closing(MemoryDatabase(self.folder / PLACE)) as store:
            return store.listed()


@pytest.fixture
def sop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Sop:
    return Sop(tmp_path, capsys)


async def served(sop: Sop, **given: Any) -> Any:
    """The replies of one run of the desk."""
    name = given.pop("name", None)
    result = await run(desk(sop.folder, RECALLS), **{"letters": [], "customers": ["Ada", "Bob"], **given}, model=serving(),
                       workspace=sop.folder, name=name)
    assert result.ok, result.reason
    return dict(result["replies"])


async def test_what_a_person_lays_down_is_recalled_by_its_owner_alone(sop: Sop) -> None:
    said = sop("add", ADA, "Secret: honey", "--new")
    assert said == [f"{ADA} remembers it: {sop.kept()[0].key}"]
    assert await served(sop) == {"Ada": "honey", "Bob": ""}
    assert sop("add", ADA, " Secret: honey ") == [f"{ADA} remembers it already: {sop.kept()[0].key}"]
    shown = sop("show", "--kind", "note")
    assert "note of [customer Ada], by a person, " in shown[0] and shown[1:] == ["  Secret: honey"]


async def test_a_note_from_outside_makes_whoever_recalls_it_untrusted(sop: Sop) -> None:
    sop("add", ADA, "Secret: honey", "--new")
    await served(sop, name="own")
    sop("add", ADA, "Secret: pepper", "--untrusted", "a mail\nof Eve")
    await served(sop, name="mailed")
    labels = {name: {key: event.untrusted for key, event in finished(sop.folder, name).items() if key.startswith("mend")}
              for name in ("own", "mailed")}
    assert set(labels["own"].values()) == {""}
    assert "a mail of Eve" in labels["mailed"]["mend@1[Ada]~0"] and labels["mailed"]["mend@1[Bob]~0"] == ""


@pytest.mark.parametrize("from_", ["role", "project"])
async def test_what_is_pinned_is_always_recalled_and_takes_nobody_s_place(from_: str, sop: Sop) -> None:
    """`top: 1`: one of the notes that are newer or more to the point is told, and the pin beside it."""
    recalls = f", memory: {{window: 1 tokens, recall: {{from: {from_}, top: 1, importance: 0, recency: 0.1}}}}"
    path = desk(sop.folder, recalls)
    for text, *more in (("Secret: honey", "--pin"), ("kept Secret: salt",), ("kept Secret: pepper",), ("Secret: clove",)):
        sop("add", ADA, text, "--new", *more)
    replies = (await run(path, letters=[], customers=["Ada", "Bob"], model=serving(), workspace=sop.folder))["replies"]
    assert "honey" in replies["Ada"].split() and len(replies["Ada"].split()) == 2, replies
    assert "honey" not in replies["Bob"]
    assert "pin of [customer Ada], by a person, " in sop("show", "--kind", "pin")[0]


async def test_a_pin_is_by_a_person_and_keeps_its_label(sop: Sop) -> None:
    sop("add", ADA, "Secret: honey", "--new", "--pin", "--untrusted", "a mail of Eve")
    model = serving()
    await run(desk(sop.folder, RECALLS), letters=[], customers=["Ada"], model=model, workspace=sop.folder, name="one")
    assert '<memory of="you" by="a person" kind="pin">\nSecret: honey' in model.said("mend@1[Ada]~0/turn.0")
    assert "a mail of Eve" in str(finished(sop.folder, "one")["mend@1[Ada]~0"].untrusted)
    alone = RECALLS.replace("window:", "over: run, window:")
    apart = await run(desk(sop.folder, alone), letters=[], customers=["Ada"], model=serving(), workspace=sop.folder)
    assert dict(apart["replies"]) == {"Ada": ""}, "a role that recalls no other run is told no note"


@pytest.mark.one_in(8)
def test_a_note_becomes_a_pin_and_there_are_not_too_many(sop: Sop) -> None:
    sop("add", ADA, "It rains.", "--new")
    assert "remembers it already" in sop("add", ADA, "It rains.")[0]
    assert "remembers it: " in sop("add", ADA, "It rains.", "--pin")[0]
    assert "remembers it already" in sop("add", ADA, "It rains.")[0] and [one.kind for one in sop.kept()] == ["pin"]
    for number in range(19):
        sop("add", ADA, f"It rains {number} times.", "--pin")
    sop("add", ADA, "It snows.", "--pin", status=2)
    assert "[customer Ada] has 20 pins" in sop.err and "--kind pin` lists them" in sop.err and len(sop.kept()) == 20
    assert "already" in sop("add", ADA, "It rains.", "--pin")[0]
    sop("forget", sop.kept()[0].key)
    sop("add", ADA, "It snows.", "--pin")
    assert sop("clear", ADA, "--yes")[0] == f"{ADA}: 20 pins"


async def test_what_is_forgotten_stands_in_the_journal_and_that_is_said(sop: Sop) -> None:
    await served(sop, letters=LETTERS, name="one")
    gone, said = sop("forget", "--run", "one")
    assert gone.endswith("memories are forgotten") and said == JOURNALS.format(sop.folder) and sop.kept() == []
    assert sop("forget", "--run", "one") == ["0 memories are forgotten"]
    assert b"figs" in (sop.folder / ".journals/one.db").read_bytes()


@pytest.mark.one_in(4)
def test_an_owner_that_is_not_known_is_refused(sop: Sop) -> None:
    sop("add", ADA, "x", status=2)
    assert "nobody called '[customer Ada]' remembers anything in" in sop.err and "there is none; `--new` lets a new" in sop.err
    assert not (sop.folder / ".memory").exists()
    sop("add", ADA, "x", "--new")
    for words in (("add", "[customer Ad]", "y"), ("export", "[customer Ad]"), ("clear", "[customer Ad]", "--yes"),
                  ("clear", ADA, "[customer Ad]", "--yes")):
        sop(*words, status=2)
        assert "nobody called '[customer Ad]'" in sop.err and "did you mean `[customer Ada]`?" in sop.err, words
    assert len(sop.kept()) == 1
    for owner in ("customer Ada", "[ Ada]", "[]", "clerk[]", "Clerk(x)", "", "clerk\n", "[a", "x]", f"[{'x' * 201}]", "[a\nb]"):
        sop("add", owner, "x", "--new", status=2)
        assert "is no owner of memories: write a role, `clerk`" in sop.err and not is_owner(owner)
    assert all(map(is_owner, ("clerk", "clerk[Ada]", "[Ada]", owned_by("a] [b"), f"[{'x' * 200}]")))


def test_a_note_that_is_empty_or_too_long_is_refused(sop: Sop) -> None:
    for text, told in ((" ", "this one has 0: write"), ("x" * 20_001, "this one has 20,001: split it")):
        sop("add", "clerk", text, "--new", status=2)
        assert "a note has 1 to 20,000 characters" in sop.err and told in sop.err
    for words in (("[a\udcff]", "x"), ("clerk", "a\udcff"), ("clerk", "x", "--untrusted", "\udcff")):
        sop("add", *words, "--new", status=2)
        assert "these are no letters of UTF-8" in sop.err
    sop("add", "clerk", "x", "--new", "--untrusted", "y" * 201, status=2)
    assert "in 200 characters at most" in sop.err and not (sop.folder / ".memory").exists()


async def test_export_is_a_line_for_each_memory_in_a_stable_order(sop: Sop) -> None:
    await served(sop, letters=LETTERS)
    sop("add", BOB, "A line.\nAnother — \u202e.")
    lines = sop("export")
    assert lines == sop("export") and len(lines) == len(sop.kept()) == 6
    read = [json.loads(line) for line in lines]
    assert [(one["role"], one["kind"], one["run"], one["activation"]) for one in read] == [
        (one.role, one.kind, one.name, one.activation) for one in sop.kept()]
    assert read[-1]["text"] == "A line.\nAnother — \u202e." and set(read[0]) == set(sop.kept()[0].as_json())
    assert [json.loads(line)["role"] for line in sop("export", BOB)] == [BOB] * 3
    assert sop("export", "--run", "nothing") == []


async def test_clear_says_what_it_deleted_and_leaves_the_rest(sop: Sop) -> None:
    await served(sop, letters=LETTERS)
    sop("add", ADA, "Secret: honey")
    assert sop("clear", ADA, "--yes") == [f"{ADA}: 3 turns, 1 note", "4 memories deleted", JOURNALS.format(sop.folder)]
    assert {one.role for one in sop.kept()} == {BOB}
    assert json.loads("\n".join(sop("clear", "--run", "service-1", "--yes", "--json")))["deleted"] == 2
    assert sop("clear", "--all", "--yes") == [f"nothing is remembered there: {sop.folder}"]
    assert await served(sop) == {"Ada": "", "Bob": ""}


async def test_a_note_that_was_cleared_may_be_laid_down_again(sop: Sop) -> None:
    sop("add", ADA, "Secret: honey", "--new")
    sop("clear", ADA, "--yes")
    assert sop.kept() == []
    sop("add", ADA, "Secret: honey", "--new")
    assert (await served(sop))["Ada"] == "honey"


@pytest.mark.one_in(8, always=False)
def test_clear_asks_before_it_deletes(sop: Sop) -> None:
    sop("add", "clerk", "It rains.", "--new")
    sop("clear", "clerk", status=2)
    assert "nobody is here who could agree that it is deleted (clerk: 1 note): `--yes` deletes" in sop.err
    sop("clear", status=2)
    assert "say what to delete: owners, `--run`, or `--all`" in sop.err
    sop("clear", "clerk", "--all", "--yes", status=2)
    assert "`--all` deletes all: leave out" in sop.err
    for typed, status, left in (("no", 1, 1), ("\x04", 1, 1), ("yes", 0, 0)):
        seen = Terminal(sop.folder, "memory", "clear", "clerk", "--workspace", str(sop.folder))
        seen.read_until("Delete this for good? [y/N]")
        seen.type(typed if typed == "\x04" else typed + "\n")
        assert seen.ended() == status and "clerk: 1 note" in seen.screen
        assert ("1 memory deleted" in seen.screen, len(sop.kept())) == (not left, left), seen.screen
