"""The page of a SOP, server side: checks of unsaved texts, edits, completion, saving, preview; over HTTP, on loopback."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from web_desk import Client, Said, serving

from metaflow_agents.sop.library import shipped_folder

LETTER = """\
# yaml-language-server: $schema=sop.schema.json
sop: letter
description: A letter, and what comes of it.
inputs:
  customer: {type: string, description: Whom it is to}   # a person
  tone: {type: kind | firm, default: kind}
  copies: {type: integer, minimum: 1, default: 2}
  also: {type: [string], default: []}
  papers: {type: folder, optional: true}
  urgent: {type: boolean, default: false}
  record: {type: {id: string}, optional: true}
roles:
  clerk: {}
artifacts:
  letter: {file: letter.md}      # what is sent
  verdict: {schema: {ok: boolean, why: string}}
steps:
  write:
    role: clerk
    needs: [customer]
    sees: [tone, copies, also, papers, urgent, record]
    rounds: 2
    wants: [verdict]
    makes: letter
    task: |
      Write to {{ customer }}, and be {{ tone }}.
  judge: {role: clerk, needs: [letter], makes: verdict, task: "Judge {{ letter }}", rounds: 2}
outputs: [letter]
success: verdict.ok
tests:
  walks: {inputs: {customer: Ann, papers: {note.txt: an old letter}}, given: {letter: Dear Ann}, expect: letter is defined}
"""


def lay_out(folder: Path) -> None:
    (folder / "letter.yaml").write_bytes(LETTER.encode())
    (folder / "roles").mkdir()
    (folder / "roles" / "clerk.yaml").write_text("role: clerk\nprofile: You write letters.\nprompt: clerk.md.j2\n")
    (folder / "roles" / "clerk.md.j2").write_text("You are {{ role.name }}.\n{% if step == 'judge' %}{{ letter }}{% endif %}\n")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("sops")
    lay_out(folder)
    with serving(folder, env={"DEMO_KEY": "sesame-open-4711"}) as found:
        found.folder = folder                                   # type: ignore[attr-defined]
        yield found


@pytest.fixture
def file(client: Client) -> Iterator[Path]:
    """The SOP, which the test may write to."""
    path: Path = client.folder / "letter.yaml"                  # type: ignore[attr-defined]
    path.write_bytes(LETTER.encode())
    yield path


def page(client: Client, name: str = "letter.yaml") -> dict[str, Any]:
    said = client.get(f"/api/sop?{urlencode({'file': name})}")
    assert said.status == 200, said.data
    found: dict[str, Any] = said.json
    return found


def asked(client: Client, route: str, **body: Any) -> Said:
    return client.post(f"/api/sop/{route}", {"file": "letter.yaml", **body})


def test_the_page_of_a_sop(client: Client, file: Path) -> None:
    found = page(client)
    assert (found["name"], found["text"], found["writable"]) == ("letter", LETTER, True)
    assert found["problems"] == [] and found["describes"] == "A letter, and what comes of it."
    nodes = {node["id"] for node in found["graph"]["nodes"]}
    assert nodes >= {"step:write", "step:judge", "input:customer", "output:letter"}
    assert found["limits"]["steps"]["write"]["firings"] == 2
    lines = LETTER.splitlines()
    for part, name in (("steps", "write"), ("steps", "judge"), ("artifacts", "verdict"), ("inputs", "tone"), ("roles", "clerk")):
        where = found["outline"][part][name]
        assert lines[where["line"] - 1].startswith(f"  {name}:")
        assert not lines[where["end"]].startswith("    "), "the line behind its last"
    assert found["outline"]["steps"]["write"] | {"line": 0, "end": 0} == {
        "line": 0, "end": 0, "doer": "role", "who": "role clerk", "role": "clerk", "makes": "letter", "needs": ["customer"],
        "wants": ["verdict"], "sees": ["tone", "copies", "also", "papers", "urgent", "record"]}
    assert "clerk" in found["outline"]["known_roles"]


def test_inputs_as_a_form_shows_them(client: Client, file: Path) -> None:
    found = {one["name"]: one for one in page(client)["inputs"]}
    assert {name: one["type"] for name, one in found.items()} == {
        "customer": "string", "tone": "choice", "copies": "integer", "also": "list", "papers": "folder", "urgent": "boolean",
        "record": "json"}
    assert found["tone"]["choices"] == ["kind", "firm"] and found["tone"]["default"] == "kind"
    assert found["customer"]["required"] and "default" not in found["customer"]
    assert found["customer"]["description"] == "Whom it is to"
    assert found["copies"]["schema"]["minimum"] == 1 and not found["papers"]["required"]
    assert found["record"]["schema"]["properties"]["id"] == {"type": "string"}


def test_a_text_that_is_not_saved_is_checked_at_its_place(client: Client, file: Path) -> None:
    """Roles and templates are found as for the file; the file itself is not read, and not written."""
    text = LETTER.replace("needs: [letter]", "needs: [lettr]")
    found = asked(client, "check", text=text).json
    line = text.splitlines().index(next(one for one in text.splitlines() if "lettr" in one)) + 1
    assert [(one["code"], one["line"], one["severity"]) for one in found["problems"]][:1] == [("unknown-artifact", line, "error")]
    assert found["problems"][0]["mend"].startswith("did you mean `letter`") and found["limits"] is None
    assert found["graph"] is not None, "a graph is drawn of a SOP with errors"
    broken = asked(client, "check", text=LETTER.replace("steps:", "steps: [")).json
    assert broken["graph"] is None and broken["problems"][0]["code"] == "yaml-syntax"
    assert file.read_text() == LETTER
    template = asked(client, "check", text=LETTER.replace("verdict:", "judgement:")).json
    assert any(one["file"] == "letter.yaml" for one in template["problems"])


@pytest.mark.parametrize("text", [
    "", "a: [", "- 1", "sop: x\nsteps: {a: }\n", "sop: x\nsteps: {a: {makes: b}}\n", "\x00", "a" * 5000,
    "sop: x\nsteps: 1\nartifacts: []\nroles: x\ninputs: 3\ntests: q\nmodels: z\n"], ids=range(8))
def test_whatever_is_typed_is_checked_without_a_fault(client: Client, file: Path, text: str) -> None:
    said = asked(client, "check", text=text)
    assert said.status == 200 and said.json["problems"], said.data
    assert asked(client, "complete", text=text, line=1, column=1).status == 200
    said = asked(client, "edit", text=text, change={"do": "remove_step", "name": "a"})
    assert said.status == 400 and said.error


def test_an_edit_gives_the_text_and_what_stays_behind(client: Client, file: Path) -> None:
    found = asked(client, "edit", text=LETTER, change={"do": "rename_artifact", "name": "letter", "to": "note"}).json
    text = found["text"]
    assert "note: {file: letter.md}      # what is sent" in text and "needs: [note]" in text and "{{ note }}" in text
    assert "outputs: [note]" in text and "given: {note: Dear Ann}" in text and "expect: note is defined" in text
    assert LETTER.splitlines()[found["changed"]["line"] - 1].startswith("  letter: {file")
    left = [(one["file"], one["line"]) for one in found["left"]]
    assert ("roles/clerk.md.j2", 2) in left, "the role's template is another file"
    problems = {(one["file"], one["line"]) for one in asked(client, "check", text=text).json["problems"]}
    assert problems == {("roles/clerk.md.j2", 2)}, "what is wrong now is what was told"
    assert file.read_text() == LETTER
    said = asked(client, "edit", text=LETTER, change={"do": "rename_step", "name": "wrote", "to": "x"})
    assert said.status == 400 and "no step or" not in said.error and "did you mean `write`" in said.error
    assert "object" in asked(client, "edit", text=LETTER, change=None).error


def test_what_may_stand_at_the_cursor(client: Client, file: Path) -> None:
    at = LETTER.splitlines().index("    needs: [customer]") + 1
    typed = LETTER.replace("needs: [customer]", "needs: [customer, ver")
    found = asked(client, "complete", text=typed, line=at, column=len("    needs: [customer, ver") + 1).json
    assert found["from"] == len("    needs: [customer, ") + 1 and found["options"] == [], "`verdict` is read already"
    typed = LETTER.replace("needs: [customer]", "needs: [customer, let")
    found = asked(client, "complete", text=typed, line=at, column=len("    needs: [customer, let") + 1).json
    assert found["options"] == [{"text": "letter", "detail": "an artifact"}]
    typed = LETTER.replace("role: clerk\n", "role: \n")
    found = asked(client, "complete", text=typed, line=at - 1, column=len("    role: ") + 1).json
    assert {one["text"] for one in found["options"]} >= {"clerk"}


# --- saving --------------------------------------------------------------------------------------------------------------------

def test_saving_shows_the_difference_and_keeps_all_other_bytes(client: Client, file: Path) -> None:
    """Byte order mark, CRLF, a lone LF, spaces at line ends, no last line break: whatever the file has."""
    lines = LETTER.replace("\n", "\r\n").replace("outputs: [letter]\r\n", "outputs: [letter]  \n")
    data = b"\xef\xbb\xbf" + lines.encode().rstrip()
    file.write_bytes(data)
    os.chmod(file, 0o640)
    found = page(client)
    assert "\r" not in found["text"] and found["text"].startswith("# yaml")
    text = found["text"].replace("Whom it is to", "To whom it is")
    told = asked(client, "diff", text=text).json
    assert told["digest"] == found["digest"]
    (hunk,) = told["hunks"]
    assert [line for line in hunk["lines"] if line[0] != " "] == [
        ["-", "  customer: {type: string, description: Whom it is to}   # a person"],
        ["+", "  customer: {type: string, description: To whom it is}   # a person"]]
    assert (hunk["old"], hunk["new"]) == (2, 2)
    said = asked(client, "save", text=text, digest=found["digest"])
    assert said.status == 200
    assert file.read_bytes() == data.replace(b"Whom it is to", b"To whom it is")
    assert file.stat().st_mode & 0o777 == 0o640 and page(client)["digest"] == said.json["digest"]
    assert sorted(path.name for path in file.parent.iterdir() if path.name.startswith(".letter")) == []


def test_what_somebody_else_wrote_meanwhile_is_not_written_over(client: Client, file: Path) -> None:
    found = page(client)
    file.write_text(LETTER + "# mine\n")
    said = asked(client, "save", text=LETTER + "# yours\n", digest=found["digest"])
    assert said.status == 409 and "changed by somebody else" in said.error
    assert file.read_text() == LETTER + "# mine\n"
    now = asked(client, "diff", text=LETTER + "# yours\n").json
    assert [line for hunk in now["hunks"] for line in hunk["lines"] if line[0] != " "] == [["-", "# mine"], ["+", "# yours"]]
    assert asked(client, "save", text=LETTER + "# yours\n", digest=now["digest"]).status == 200
    assert file.read_text() == LETTER + "# yours\n"


@pytest.mark.one_in(4)
def test_files_that_may_not_be_changed(client: Client, file: Path) -> None:
    folder = file.parent
    shipped = page(client, "tdd")
    assert not shipped["writable"] and "came with the package" in shipped["fixed"]
    before = (shipped_folder("sops") / "tdd.yaml").read_bytes()
    said = asked(client, "save", file="tdd", text="sop: x\n", digest=shipped["digest"])
    assert said.status == 400 and "came with the package" in said.error
    assert (shipped_folder("sops") / "tdd.yaml").read_bytes() == before
    (folder / "latin.yaml").write_bytes("sop: x # é\n".encode("latin-1"))
    assert "is not UTF-8" in page(client, "latin.yaml")["fixed"]
    assert asked(client, "save", text="\ud800", digest=page(client)["digest"]).status == 400
    assert file.read_text() == LETTER


@pytest.mark.parametrize("route", ["", "check", "edit", "complete", "diff", "save", "preview"])
def test_files_elsewhere_are_none_of_its_business(client: Client, file: Path, tmp_path: Path, route: str) -> None:
    outside = tmp_path / "outside.yaml"
    outside.write_text(LETTER)
    link = file.parent / f"link{route}.yaml"
    link.symlink_to(outside)
    for name in (str(outside), f"../{tmp_path.name}/outside.yaml", link.name, "/etc/passwd", "roles/clerk.md.j2", "\0"):
        body = {"text": "sop: x\n", "digest": "x", "line": 1, "column": 1, "step": "a",
                "change": {"do": "remove_step", "name": "a"}}
        said = asked(client, route, file=name, **body) if route else client.get(f"/api/sop?{urlencode({'file': name})}")
        assert said.status in (400, 404) and "outside" not in said.json.get("text", ""), (name, said.data)
    assert outside.read_text() == LETTER
    link.unlink()


def test_a_text_with_the_value_of_a_secret_is_not_sent_and_not_changed(client: Client, file: Path) -> None:
    """Masked as everywhere; and since it is masked, saving what the page got would write the mask into the file."""
    text = LETTER.replace("outputs:", "secrets: [DEMO_KEY]\noutputs:").replace("Write to", "sesame-open-4711 to")
    path = file.parent / "secret.yaml"
    path.write_text(text)
    found = page(client, "secret.yaml")
    assert "sesame-open-4711" not in json.dumps(found) and not found["writable"] and "secret" in found["fixed"]
    change = {"do": "rename_step", "name": "write", "to": "draft"}
    said = asked(client, "edit", file="secret.yaml", text=text, change=change)
    assert said.status == 400 and "sesame" not in said.data.decode()
    assert asked(client, "save", file="secret.yaml", text=found["text"], digest=found["digest"]).status == 400
    assert path.read_text() == text


# --- preview -------------------------------------------------------------------------------------------------------------------

def test_what_a_step_would_send(client: Client, file: Path) -> None:
    """Of the text as it stands, with stand-ins for inputs that were not given; nothing is run."""
    text = LETTER.replace("Write to", "Please write to")
    found = asked(client, "preview", text=text, step="write").json
    assert "sent" in found, found
    (one,) = found["sent"]
    assert found["stood_in"] == ["customer"] and "Please write to customer, and be kind." in one["messages"][-1]["text"]
    assert one["role"] == "clerk" and one["messages"][0]["text"].startswith("You are clerk.")
    assert sum(part["tokens"] for part in one["parts"]) == one["tokens"] > 0
    given = asked(client, "preview", text=text, step="judge", inputs={"customer": "Ann", "papers": {"note.txt": "old"}},
                  given={"letter": "Dear Ann"}).json
    assert "sent" in given, given
    assert "Judge Dear Ann" in given["sent"][0]["messages"][-1]["text"] and given["stood_in"] == []
    saved = asked(client, "preview", step="write").json
    assert "Please" not in saved["sent"][0]["messages"][-1]["text"], "without a text, the file as it is saved"


@pytest.mark.parametrize("body, told", [
    ({"step": "wrote"}, "did you mean `write`"),
    ({"step": "write", "text": "sop: x\nsteps: {}\n"}, "errors: nothing was run"),
    ({"step": "write", "inputs": []}, "objects"),
    ({"step": "write", "inputs": {"papers": {"../../out.txt": "x"}}}, "is refused"),
    ({"step": "write", "inputs": {"papers": {"note.txt": 3}}}, "no text"),
    ({"step": "write", "inputs": {"papers": "/etc"}}, "lies outside"),
    ({"step": "write", "inputs": {"ghost": 1}}, "no input of this SOP"),
    ({"step": "write", "inputs": {"copies": "many"}}, "copies"),
    ({"step": "write@9"}, "not reached"),
])
def test_a_preview_that_can_not_be_says_why(client: Client, file: Path, body: dict[str, Any], told: str) -> None:
    said = asked(client, "preview", **body)
    assert said.status == 400 and told in json.dumps(said.json), said.data
