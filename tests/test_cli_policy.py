"""`sop policy explain`: what would happen, by which rule; and what is told where the question makes no sense."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from metaflow_agents.cli import command

TOWN = """
sop: town
secrets: [GITHUB_TOKEN]
policy:
  allow: ["fetch(https://api.example.com/*)"]
  deny: ["run(git push *)"]
mcpServers:
  github: {command: github-server, env: {TOKEN: "${GITHUB_TOKEN}"}}
tools:
  count: {python: "desk:count"}
roles:
  engineer:
    profile: You build.
    tools: [read, run, fetch, ask_person, count, "github.*"]
    policy: {allow: ["run(python *)", "run(git *)"]}
  critic: {profile: You judge.}
artifacts: {letter: {}, verdict: {}}
steps:
  write: {role: engineer, makes: letter}
  judge: {role: critic, needs: [letter], makes: verdict, tools: [write]}
"""


LOOKUPS = """
sop: desk
openapi:
  shop: {spec: shop.json, effects: {stock: none, "GET /price": none, order: once}}
mcpServers: {box: {command: box, effects: {"read_*": none}}}
tools: {count: {python: "desk:count", effect: none}, pay: {python: "desk:count"}}
policy: {allow: ["api(shop.stock)", "api(shop.get_price)", "api(shop.order)", "mcp(box.read_mail)", "mcp(box.*)", "call(count)",
                 "call(pay)"]}
roles: {clerk: {profile: You answer., tools: [shop.stock, shop.get_price, shop.order, "box.*", count, pay]}}
artifacts: {note: {}}
steps: {answer: {role: clerk, makes: note}}
"""
SHOP = {"openapi": "3.1.0", "info": {"title": "shop", "version": "1"}, "servers": [{"url": "http://localhost:1"}], "paths": {
    "/stock": {"get": {"operationId": "stock", "responses": {}}}, "/price": {"get": {"responses": {}}},
    "/order": {"post": {"operationId": "order", "responses": {}}}}}


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("action", "verdict"), [
    ("api(shop.stock)", "allow"), ("api(shop.get_price)", "allow"), ("api(shop.order)", "ask"), ("api(shop.gone)", "ask"),
    ("mcp(box.read_mail)", "allow"), ("mcp(box.read_other)", "ask"), ("mcp(box.send)", "ask"), ("call(count)", "allow"),
    ("call(pay)", "ask"),
])
def test_look_ups_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str], action: str, verdict: str) -> None:
    (tmp_path / "town.yaml").write_text(LOOKUPS)
    (tmp_path / "shop.json").write_text(json.dumps(SHOP))
    status, out, err = asked(capsys, "clerk", action, "--untrusted", "--json")
    assert (status, json.loads(out)["verdict"], err) == (0, verdict, "")
    held = {tool["tool"]: tool["verdict"] for tool in json.loads(asked(capsys, "clerk", "--untrusted", "--json")[1])["tools"]}
    assert held == {
        "shop.stock": "allow", "shop.get_price": "allow", "shop.order": "ask", "box.*": None, "count": "allow",
        "pay": "ask"}


@pytest.fixture(autouse=True)
def town(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "town.yaml").write_text(TOWN)
    (tmp_path / "desk.py").write_text("raise RuntimeError('nothing is imported')\ndef count(words): pass\n")
    monkeypatch.chdir(tmp_path)


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = command(["policy", "explain", "town.yaml", *words])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("action", "verdict", "rule"), [
    ("run(git push origin)", "denied", "deny run(git push *) of the SOP"),
    ("run(bash -c 'git push')", "denied", "deny run(git push *) of the SOP"),
    ("run(git status)", "allowed", "allow run(git *) of the role engineer"),
    ("run(ls)", "denied", "deny: no rule of the role engineer about `run` names it"),
    ("fetch(https://api.example.com/a)", "allowed", "allow fetch(https://api.example.com/*) of the SOP"),
    ("fetch(https://other.example/a)", "a person is asked", "ask fetch(**) of the SOP's preset workspace"),
    ("write(.git/config)", "denied", "deny always: `.git` belongs to git alone"),
    ("mcp(github.search)", "a person is asked", "ask mcp(**) of the SOP's preset workspace"),
    ("ask_person", "allowed", "allow ask_person of the SOP's preset workspace"),
])
def test_an_action_is_explained(capsys: pytest.CaptureFixture[str], action: str, verdict: str, rule: str) -> None:
    status, out, err = asked(capsys, "engineer", action)
    assert (status, err) == (0, "")
    first, second, *_ = out.splitlines()
    assert first == f"{action} by engineer: {verdict}"
    assert second == f"  {rule}"


def test_the_other_rules_that_match_and_the_tools_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = asked(capsys, "engineer", "run(git push)")
    assert out.splitlines()[2:] == ["also matching:", "  allow run(**) of the SOP's preset workspace",
                                    "  allow run(git *) of the role engineer", "its tools for that: run"]
    _, out, _ = asked(capsys, "engineer", "mcp(github.search)")
    assert out.endswith("its tools for that: github.*\n")
    _, out, _ = asked(capsys, "critic", "run(ls)")
    assert out.endswith("critic has no tool for that: nothing of the kind happens\n")
    _, out, _ = asked(capsys, "critic", "write(a.txt)")
    assert out.endswith("its tools for that: write\n")          # of its step


def test_untrusted_words_turn_what_reaches_outside_into_a_question(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = asked(capsys, "engineer", "call(count)", "--untrusted")
    assert "call(count) by engineer: a person is asked" in out
    assert "not trusted here" in out and "else allow call(**)" in out
    _, out, _ = asked(capsys, "engineer", "run(git status)", "--untrusted")
    assert "run(git status) by engineer: allowed" in out


def test_without_an_action_all_tools_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = asked(capsys, "engineer")
    assert status == 0
    assert out.splitlines() == [
        "tool                 rules",
        "read                 allow read(**) of the SOP's preset workspace",
        "run                  deny run(git push *) of the SOP",
        "                     allow run(**) of the SOP's preset workspace",
        "                     allow run(python *) of the role engineer",
        "                     allow run(git *) of the role engineer",
        "                     deny: no rule of the role engineer about `run` names it",
        "fetch                allow fetch(https://api.example.com/*) of the SOP",
        "                     ask fetch(**) of the SOP's preset workspace",
        "ask_person  allowed  allow ask_person of the SOP's preset workspace",
        "count       allowed  allow call(**) of the SOP's preset workspace",
        "github.*             ask mcp(**) of the SOP's preset workspace",
        "",
        "of one level the first rule that matches holds; of the two levels the stricter one"]


@pytest.mark.one_in(4)
def test_a_sop_that_is_a_step_is_looked_into(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "inner.yaml").write_text("sop: inner\nroles: {clerk: {profile: You write.}}\nartifacts: {page: {files: '**'}}\n"
                                         "steps: {write: {role: clerk, makes: page}}\n")
    (tmp_path / "outer.yaml").write_text("sop: outer\npolicy: {deny: ['write(old/**)']}\nartifacts: {page: {files: '**'}}\n"
                                         "steps: {enter: {sop: inner.yaml, makes: page}}\n")

    def explained(*asked: str) -> tuple[int, str]:
        status = command(["policy", "explain", str(tmp_path / "outer.yaml"), *asked])
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    status, said = explained("enter/clerk", "write(old/a)")
    assert status == 0 and "write(old/a) by enter/clerk: denied" in said
    assert "deny write(old/**) of the SOP that this one is a step of" in said
    status, said = explained("enter/clerk", "write(a)")
    assert "by enter/clerk: allowed" in said and "the files that its answers write: the same" in said
    assert "its answers" in explained("enter/clerk")[1]
    status, said = explained("enter/clerk", "write(.envrc)")
    assert "by enter/clerk: a person is asked" in said and "in an answer: denied" in said
    status, said = explained("entre/clerk", "write(a)")
    assert status == 2 and "`entre` is no step with `sop:` of " in said
    status, said = explained("enter/clark", "write(a)")
    assert status == 2 and "`clark` is no role of the SOP `inner`: did you mean `clerk`?" in said
    status, said = explained("clerk", "write(a)")
    assert status == 2 and "enter/…" in said


def test_a_step_that_calls_a_tool_is_explained_like_a_role(capsys: pytest.CaptureFixture[str]) -> None:
    sop = str(Path(__file__).parent.parent / "examples" / "order_list" / "order_list.yaml")
    assert command(["policy", "explain", sop, "look"]) == 0
    said = capsys.readouterr().out
    assert "allow fetch(http://127.0.0.1:8798/*) of the SOP" in said and "write" not in said
    for untrusted, verdict in (([], "allowed"), (["--untrusted"], "a person is asked")):
        assert command(["policy", "explain", sop, "look", "fetch(http://127.0.0.1:8798/stock.json)", *untrusted]) == 0
        said = capsys.readouterr().out
        assert f"by look: {verdict}" in said and "its tools for that: fetch" in said
    assert command(["policy", "explain", sop, "pick"]) == 2
    assert "`pick` is no role of this SOP and no step with `tool:`: there is: look, write" in capsys.readouterr().err


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = asked(capsys, "engineer", "run(git push)", "--json")
    told = json.loads(out)
    assert (told["verdict"], told["rule"], told["tools"]) == ("deny", "deny run(git push *) of the SOP", ["run"])
    _, out, _ = asked(capsys, "engineer", "--untrusted", "--json")
    tools = {tool["tool"]: tool for tool in json.loads(out)["tools"]}
    assert tools["count"]["verdict"] == "ask" and tools["run"]["verdict"] is None and len(tools["run"]["rules"]) == 5


@pytest.mark.parametrize(("words", "told"), [
    (["enginer"], "`enginer` is no role of this SOP: did you mean `engineer`?"),
    (["engineer", "rnu(git push)"], "there is no verb `rnu`: did you mean `run`"),
    (["engineer", "Bash(git push)"], "there is no verb `Bash`: did you mean `run`"),
    (["engineer", "write"], "`write` of what? write it like `write(src/a.md)`"),
    (["engineer", "run"], "`run` of what? write it like `run(git push)`"),
    (["engineer", "python(1)"], "`python` stands alone"),
    (["engineer", "run(ls && git push)"], "`&&` is a shell operator"),
    (["engineer", "run()"], "`run()` is no action: write a verb and what it would be done to, like `run(git push)`"),
    (["engineer", ""], "`` is no action"),
    (["engineer", "run(git"], "`run(git` is no action"),
    (["engineer", "github.search"], "`github.search` is a tool: write what a call of it is, `mcp(github.search)`"),
    (["engineer", "run('git)"], "the quote ' is not closed"),
])
def test_a_question_that_makes_no_sense_gets_one_line(capsys: pytest.CaptureFixture[str], words: list[str], told: str) -> None:
    status, out, err = asked(capsys, *words)
    assert (status, out) == (2, "") and told in err and err.count("\n") == 1


def test_a_policy_that_can_not_be_read_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    Path("town.yaml").write_text(TOWN.replace("run(git push *)", "rnu(git push *)"))
    status, out, err = asked(capsys, "engineer", "run(git push)")
    assert (status, out) == (2, "") and "town.yaml:6:10" in err and "there is no verb `rnu`" in err
