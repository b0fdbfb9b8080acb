"""`sop test`: what a case gives by round and by item, who answers, and what it expects of prompts, order and cost."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from scripted import write

from metaflow_agents import check
from metaflow_agents.api.sop_test import CaseVerdict, Unmet, try_out
from metaflow_agents.sandbox.probe import SandboxHolding

LOOP = """
sop: loop
inputs: {topic: {type: string, default: tea}}
roles: {writer: {profile: You write.}, judge: {profile: You judge.}}
artifacts:
  draft: {}
  verdict: {schema: {ok: boolean, why: string}}
steps:
  write: {role: writer, needs: [topic], wants: [verdict], makes: draft, rounds: 3, when: not verdict.ok}
  judge_it: {role: judge, needs: [draft], makes: verdict}
outputs: [draft]
tests:
"""

ITEMS = """
sop: items
inputs: {names: [string]}
roles: {writer: {profile: You write.}}
artifacts:
  notes: {each: {text: string, mood: string}}
  pages: {files: "pages/**"}
  all: {}
steps:
  note: {role: writer, needs: [names], foreach: {in: names, as: name}, makes: notes, task: "About {{ name }}."}
  page: {role: writer, needs: [names], foreach: {in: names, as: name}, makes: {pages: "pages/{{ name }}.txt"}}
  join: {value: "notes.ann.text ~ pages['pages/ben.txt']", needs: [notes, pages], makes: all}
tests:
"""

DESK = """
def answer(request):
    return {"ok": False, "why": "desk"} if request.schema else f"by {request.role}"


def writer(request):
    return "from the writer"


def judge(request):
    return {"ok": True, "why": "from the judge"}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def tried(folder: Path, text: str, *cases: str, **files: str) -> dict[str, CaseVerdict]:
    path = write(folder, text + "".join(f"  {case}\n" for case in cases), desk_py=DESK, **files)
    return {verdict.case: verdict async for verdict in try_out(path)}


async def the(folder: Path, text: str, case: str, **files: str) -> CaseVerdict:
    (verdict,) = (await tried(folder, text, f"it: {case}", **files)).values()
    return verdict


def only(verdict: CaseVerdict) -> Unmet:
    assert not verdict.ok and not verdict.error, verdict
    (one,) = verdict.unmet
    return one


# -- what is not there on this machine

KEYED = """
sop: keyed
inputs: {word: {type: string, default: tea}}
secrets: [SHOP_KEY, MAIL_KEY, WEB_KEY]
tools:
  price: {python: "shop:price", effect: none, secrets: {key: SHOP_KEY}}
  fetch: {headers: {"http://127.0.0.1:8099": {Authorization: "Bearer ${WEB_KEY}"}}}
mcpServers: {mail: {command: no-such-server, env: {KEY: "${MAIL_KEY}"}, effects: {"*": none}}}
policy: {allow: [call(price), "mcp(mail.send)", "fetch(http://127.0.0.1:8099/*)", "run(true)"]}
roles: {clerk: {profile: You sell.}}
artifacts: {cost: {}, bill: {}, sent: {}, page: {}, check: {}}
steps:
  ask: {tool: price, needs: [word], inputs: {word: word}, makes: cost, on_fail: ON_FAIL}
  write: {role: clerk, needs: [cost], makes: bill}
  send: {tool: mail.send, needs: [bill], when: "bill == 'paid'", inputs: {text: bill}, makes: sent}
  look: {tool: fetch, needs: [bill], when: "bill == 'seen'", inputs: {url: "'http://127.0.0.1:8099/x'"}, makes: page}
  try_it: {run: "true", needs: [bill], when: "bill == 'tried'", makes: check}
outputs: [bill]
tests:
"""
SHOP = """
def price(word: str, key: str) -> str:
    return f"{word} costs {len(key)}"
"""
PYTHON = "model: python:desk.py:answer"


@pytest.mark.parametrize(("case", "lacks"), [
    (f"{{given: {{cost: '3'}}, {PYTHON}, expect: bill == 'by clerk'}}", ""),             # given, or not come to
    (f"{{given: {{ask: '3'}}, {PYTHON}, until: write, expect: cost == '3'}}", ""),
    ("{model: dry, expect: success}", ""),
    (f"{{{PYTHON}, expect: success}}", "the secret `SHOP_KEY` is not set: `export SHOP_KEY=…`"),
    (f"{{{PYTHON}, expect: not success}}", "the secret `SHOP_KEY` is not set"),             # what lacks is no failure of the SOP
    (f"{{given: {{cost: '3', bill: paid}}, {PYTHON}, expect: not sent}}", "the secret `MAIL_KEY` is not set"),
    (f"{{given: {{cost: '3', bill: seen}}, {PYTHON}, expect: not page}}", "the secret `WEB_KEY` is not set"),
    (f"{{given: {{cost: '3', bill: tried}}, {PYTHON}, expect: not check}}", "steps run commands (try_it), and no sandbox works")])
@pytest.mark.parametrize("on_fail", ["stop", "skip"])
async def test_a_case_wants_of_the_machine_what_it_comes_to(case: str, lacks: str, on_fail: str, tmp_path: Path,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metaflow_agents.sandbox.choice.looked_at", lambda *_: SandboxHolding(None, "not here", "none"))
    verdict = await the(tmp_path, KEYED.replace("ON_FAIL", on_fail), case, shop_py=SHOP)
    assert verdict.ok == (not lacks) and verdict.error.startswith(lacks) and not verdict.unmet, verdict


async def test_a_secret_that_is_set_is_used_in_a_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", "12345678")
    case = "{model: python:desk.py:answer, expect: cost == 'tea costs 8'}"
    text = KEYED.replace("ON_FAIL", "stop").replace('run: "true"', "value: bill")
    assert (await the(tmp_path, text, case, shop_py=SHOP)).ok


# -- given

@pytest.mark.parametrize(("given", "rounds"), [
    ("{verdict@1: {ok: false, why: short}, verdict@2: {ok: true}}", 2),
    ("{judge_it@1: {ok: false}, verdict: {ok: true}}", 2),                      # a round goes before all rounds
    ("{verdict: {ok: false}, judge_it: {ok: true}}", 1),                        # a step goes before its artifact
    ("{verdict@1: {ok: false}, verdict@2: {ok: false}, verdict@3: {ok: true}}", 3)])
async def test_what_is_given_for_a_round_stands_in_that_round_alone(tmp_path: Path, given: str, rounds: int) -> None:
    order = ", ".join(f"write@{number + 1}, judge_it@{number + 1}" for number in range(rounds))
    verdict = await the(tmp_path, LOOP, f"{{given: {given}, order: [{order}], expect: verdict.ok}}")
    assert verdict.ok and verdict.activations == 2 * rounds and verdict.calls == rounds, verdict


async def test_a_round_that_is_given_and_never_comes_is_told(tmp_path: Path) -> None:
    one = only(await the(tmp_path, LOOP, "{given: {verdict@1: {ok: true}, verdict@2: {ok: true}}, expect: verdict.ok}"))
    assert (one.expected, one.was) == ("a firing that `verdict@2` is given for", "fired: judge_it@1")
    assert one.place == "desk.yaml:13:39"


@pytest.mark.parametrize(("given", "calls", "expect"), [
    ("{notes: {ann: {text: hi}, ben: {text: ho}}}", 2, "notes.ann.text == 'hi' and notes.ben.text == 'ho'"),
    ("{notes: {ann: {text: hi}}}", 3, "notes.ann.text == 'hi' and notes.ben.text == 'text'"),
    ("{pages: {pages/ben.txt: words}}", 3, "pages['pages/ben.txt'] == 'words' and 'dry' in pages['pages/ann.txt']"),
    ("{note@1: {ann: {text: hi}}, page: {pages/ann.txt: a, pages/ben.txt: b}}", 1, "all == 'hib'")])
async def test_what_is_given_by_item_stands_in_for_that_item_and_the_others_work(tmp_path: Path, given: str, calls: int,
                                                                                expect: str) -> None:
    verdict = await the(tmp_path, ITEMS, f'{{inputs: {{names: [ann, ben]}}, given: {given}, expect: "{expect}"}}')
    assert verdict.ok and verdict.calls == calls, verdict


# -- inputs that are written out

READS = """
sop: reads
inputs: {letter: {type: file}, source: {type: folder}}
artifacts: {told: {}}
steps: {tell: {value: "VALUE", needs: [letter, source], makes: told}}
tests:
"""


async def test_a_file_and_a_folder_may_be_written_out(tmp_path: Path) -> None:
    text = READS.replace("VALUE", "letter ~ ' ' ~ source['a/b.txt'] ~ source['é.txt'] ~ source | length")
    verdict = await the(tmp_path, text, '{inputs: {letter: {mail.txt: "dear\\r\\nall"}, source: {a/b.txt: one, é.txt: two}}, '
                                        'expect: told == "dear\\r\\nall onetwo2"}')
    assert verdict.ok, verdict
    assert sorted(os.listdir(tmp_path)) == ["desk.py", "desk.yaml"], "nothing is left beside the SOP"


async def test_what_a_folder_leaves_out_is_left_out_of_one_that_is_written_out(tmp_path: Path) -> None:
    text = READS.replace("VALUE", "source | join(' ')")
    folder = '{.gitignore: "*.log", a.log: "1", .env: "2", a.txt: "3"}'
    verdict = await the(tmp_path, text, f"{{inputs: {{letter: {{a.txt: ''}}, source: {folder}}}, "
                                        "expect: told == '.gitignore a.txt'}")
    assert verdict.ok, verdict


# -- models

async def test_each_role_may_have_its_own_model(tmp_path: Path) -> None:
    verdicts = await tried(
        tmp_path, LOOP,
        "one: {model: {judge: 'python:desk.py:judge'}, expect: \"'dry' in draft and verdict.why == 'from the judge'\"}",
        "two: {model: {judge: 'python:desk.py:judge', default: 'python:desk.py:answer'}, expect: draft == 'by writer'}",
        "three: {model: {judge: 'python:desk.py:judge', writer: 'python:desk.py:writer'}, expect: draft == 'from the writer'}",
        "four: {model: 'python:desk.py:answer', expect: verdict.why == 'desk'}")
    assert all(verdict.ok for verdict in verdicts.values()), verdicts


COMMANDS = """
sop: commands
roles: {writer: {profile: You write.}, judge: {profile: You judge.}}
artifacts: {draft: {}, listed: {}}
steps:
  write: {role: writer, makes: draft}
  list_it: {run: "python -c print(17)", needs: [draft], makes: listed}
outputs: [listed]
tests:
"""


async def test_a_walk_is_dry_where_all_roles_are_and_carries_commands_out_where_one_is_not(tmp_path: Path) -> None:
    path = write(tmp_path, COMMANDS + "  dry: {model: {writer: dry, judge: dry}, expect: listed.stdout == 'stdout'}\n"
                 "  wet: {model: {writer: 'python:desk.py:writer'}, expect: \"listed.stdout == '17\\n'\"}\n", desk_py=DESK)
    verdicts = [verdict async for verdict in try_out(path, sandbox="none")]
    assert [verdict.ok for verdict in verdicts] == [True, True], verdicts


# -- expect

@pytest.mark.parametrize(("expect", "expected", "was"), [
    ("verdict.ok and topic == 'rice'", "topic == 'rice'", 'topic is "tea"'),
    ("success and draft | length == 3", "draft | length == 3", "draft | length is 28"),
    ("verdict.why in topic", "verdict.why in topic", 'verdict.why is "why"; topic is "tea"'),
    ("not verdict.ok", "not verdict.ok", "verdict.ok is true"),
    ("other", "other", "other is missing"),
    ("topic and (draft == 'a' or other)", "(draft == 'a' or other)",
     'draft is "write, made by the dry model"; other is missing')])
async def test_the_part_that_does_not_hold_is_told_with_both_its_sides_and_its_place(
        tmp_path: Path, expect: str, expected: str, was: str) -> None:
    later = "  later: {value: draft, needs: [draft], makes: other, when: draft == 'x'}"
    text = LOOP.replace("outputs:", f"{later}\noutputs:").replace("  draft: {}", "  draft: {}\n  other: {}")
    case = f'{{given: {{verdict: {{ok: true}}}}, expect: "{expect}"}}'
    one = only(await the(tmp_path, text, case))
    assert (one.expected, one.was.replace("write, made by the dry model\n", "write, made by the dry model")) == (expected, was)
    assert one.place == f"desk.yaml:15:{f'  it: {case}'.index(expected) + 1}"


async def test_success_that_does_not_hold_says_why(tmp_path: Path) -> None:
    one = only(await the(tmp_path, LOOP.replace("outputs: [draft]", "success: draft == 'x'"), "{}"))
    assert (one.expected, one.was) == ("success", "success is false: `success: draft == 'x'` does not hold")
    assert one.place == "desk.yaml:13:7", "it is written nowhere: the place is the case's"


# -- prompts

@pytest.mark.parametrize(("prompts", "fault"), [
    ("{write: {contains: [tea]}}", None),
    ("{write@2: {contains: too short, not_contains: fine}}", None),
    ("{write@1: {not_contains: [too short]}}", None),
    ("{write: {contains: too short}}", ("the prompt of `write@1` to contain \"too short\"", "contains", 0)),
    ("{write@1: {contains: [tea, cofee]}}", ("the prompt of `write@1` to contain \"cofee\"", "contains", 1)),
    ("{write: {not_contains: too short}}", ("no prompt of `write@2` to contain \"too short\"", "not_contains", 0)),
    ("{write@3: {contains: tea}}", ("a prompt of `write@3`",)),
    ("{judge_it: {not_contains: tea}}", ("a prompt of `judge_it`",))])
async def test_prompts_hold_texts_and_hold_none_by_round(tmp_path: Path, prompts: str, fault: tuple[Any, ...] | None) -> None:
    verdict = await the(tmp_path, LOOP, "{given: {verdict@1: {ok: false, why: too short}, verdict@2: {ok: true}}, "
                                        f"prompts: {prompts}, expect: verdict.ok}}")
    if fault is None:
        assert verdict.ok, verdict
    else:
        one = only(verdict)
        assert (one.expected, *one.at[2:]) == fault
        assert one.place.startswith("desk.yaml:13:") and one.was


async def test_an_unmet_prompt_says_what_stands_there_instead(tmp_path: Path) -> None:
    text = ITEMS.replace("About {{ name }}.", "Write about {{ name }} in three lines.")
    verdicts = await tried(
        tmp_path, text,
        'lacks: {inputs: {names: [ann, ben]}, prompts: {note: {contains: "Write about anna in three lines."}}}',
        'holds: {inputs: {names: [ann, ben]}, prompts: {"note[ben]": {not_contains: about ben}}}',
        'never: {inputs: {names: [ann, ben]}, prompts: {"note[eve]": {not_contains: about ben}}}',
        'given: {inputs: {names: [ann]}, given: {note: {ann: {text: hi}}}, prompts: {note: {not_contains: a}}, expect: notes}')
    lacks, holds, never, given = (only(verdict) for verdict in verdicts.values())
    assert lacks.expected == 'the prompt of `note@1[ann]`, `note@1[ben]` to contain "Write about anna in three lines."'
    assert lacks.was.endswith('most like it is "Write about ann in three lines."')
    assert holds.was.endswith('is "Write about ben in three lines."')
    assert never.was == "its prompts are of `note@1[ann]`, `note@1[ben]`"
    assert given.was == "`note` fired and asked no model: its work was given"


INNER = """
sop: chapter
inputs: {name: string}
roles: {writer: {profile: You write.}}
artifacts: {draft: {}, last: {}}
steps:
  draft_it: {role: writer, needs: [name], makes: draft, task: "Draft {{ name }}."}
  mend_it: {role: writer, needs: [draft], makes: last}
outputs: [last]
"""
OUTER = """
sop: book
inputs: {names: [string]}
artifacts: {chapters: {each: string}}
steps:
  chapter: {sop: chapter, needs: [names], foreach: {in: names}, inputs: {name: item}, output: last, makes: chapters}
tests:
"""


async def test_prompts_and_firings_of_a_sub_sop_are_named_by_the_way_to_them(tmp_path: Path) -> None:
    given = "inputs: {names: [a, b]}"
    verdicts = await tried(
        tmp_path, OUTER,
        f'one: {{{given}, prompts: {{"chapter[b]/draft_it": {{contains: Draft b., not_contains: Draft a.}}}}}}',
        f'two: {{{given}, prompts: {{"chapter/draft_it@1": {{contains: Draft b.}}}}}}',
        f'three: {{{given}, order: [chapter, "chapter[a]/draft_it", "chapter[a]/mend_it@1"]}}',
        f'four: {{{given}, order: ["chapter[a]/mend_it", "chapter[a]/draft_it"]}}', chapter_yaml=INNER)
    assert verdicts["one"].ok and verdicts["three"].ok, verdicts
    assert only(verdicts["two"]).expected == 'the prompt of `chapter@1[a]/draft_it@1` to contain "Draft b."'
    assert only(verdicts["four"]).expected == "`chapter[a]/draft_it` to fire after `chapter[a]/mend_it`"


# -- order

@pytest.mark.parametrize(("order", "fault"), [
    ("[write, judge_it]", None),
    ("[write, judge_it, write, judge_it]", None),
    ("[write, write]", None),                                       # others may stand between
    ("[judge_it@1, judge_it@2]", None),
    ("[judge_it, write@1]", ("`write@1` to fire after `judge_it`", 1)),
    ("[write, write, write]", ("`write` to fire after `write`", 2)),
    ("[write@3]", ("`write@3` to fire", 0))])
async def test_firings_come_in_the_order_that_is_expected(tmp_path: Path, order: str, fault: tuple[str, int] | None) -> None:
    verdict = await the(tmp_path, LOOP, f"{{given: {{verdict@1: {{ok: false}}, verdict@2: {{ok: true}}}}, order: {order}}}")
    if fault is None:
        assert verdict.ok, verdict
    else:
        one = only(verdict)
        assert (one.expected, one.at[1]) == fault
        assert one.was == "fired: write@1, judge_it@1, write@2, judge_it@2"


# -- cost

COUNTED = """
from metaflow_agents.models.port import Reply


def answer(request):
    return Reply(text=request.step, tokens_in=1000, tokens_out=500)
"""
TWO = """
sop: two
roles: {writer: {profile: You write.}}
artifacts: {one: {}, other: {}}
steps:
  first: {role: writer, makes: one}
  second: {role: writer, needs: [one], makes: other}
tests:
"""


@pytest.mark.parametrize(("most", "fault"), [
    ("{calls: 2, tokens: 3k}", None),
    ("{calls: 1}", ("at most 1 calls", "2 calls: first 1, second 1")),
    ("{tokens: 2999}", ("at most 2,999 tokens", "3,000 tokens: first 1,500, second 1,500"))])
async def test_a_case_may_cost_so_much_at_most(tmp_path: Path, most: str, fault: tuple[str, str] | None) -> None:
    verdict = await the(tmp_path, TWO, f"{{model: 'python:counted.py:answer', at_most: {most}}}", counted_py=COUNTED)
    if fault is None:
        assert verdict.ok, verdict
    else:
        one = only(verdict)
        assert (one.expected, one.was) == fault and one.place.startswith("desk.yaml:9:")


async def test_a_function_with_a_price_costs_what_its_tokens_do(tmp_path: Path) -> None:
    text = TWO.replace("tests:", "models: {paid: {name: 'python:counted.py:answer', price: {in: 2, out: 8}}}\ntests:")
    verdicts = await tried(tmp_path, text, "one: {model: paid, at_most: {usd: 0.012}}",
                           "two: {model: paid, at_most: {usd: 0.0119}}", "three: {model: {writer: paid}, at_most: {usd: 0.0119}}",
                           counted_py=COUNTED)
    assert verdicts["one"].ok, verdicts
    assert {only(verdicts[name]).was for name in ("two", "three")} == {"$0.012: first $0.0060, second $0.0060"}


# -- all of it at once

async def test_all_that_does_not_hold_is_told_at_once_each_with_its_place(tmp_path: Path) -> None:
    path = write(tmp_path, LOOP + """\
  bad:
    given: {verdict: {ok: true}}
    expect: success and draft == 'x'
    prompts:
      write: {contains: coffee}
    order: [judge_it, write]
    at_most: {calls: 0}
""")
    (verdict,) = [verdict async for verdict in try_out(path)]
    told = json.loads(json.dumps(verdict.as_json()))
    assert [one["place"] for one in told["unmet"]] == [
        "desk.yaml:15:25", "desk.yaml:17:25", "desk.yaml:18:23", "desk.yaml:19:22"]
    assert told["why"].count("; ") >= 3 and not told["ok"]


async def test_templates_are_carried_out_on_what_a_case_made(tmp_path: Path) -> None:
    text = """
sop: renders
inputs: {title: string}
artifacts:
  report: {schema: {title: string, 'note?': string}, file: report.md, render: report.md.j2}
steps: {make: {value: "{'title': title}", needs: [title], makes: report}}
tests:
"""
    one = only(await the(tmp_path, text, "{inputs: {title: tea}}", report_md_j2="{{ report.note }}"))
    assert (one.expected, one.place) == ("`report` to be rendered by report.md.j2", "desk.yaml:5:71")
    assert "`report.note` is missing" in one.was
    assert (await the(tmp_path, text, "{inputs: {title: tea}}", report_md_j2="{{ report.note if report.note }}")).ok


FAILS = """
sop: fails
inputs: {code: {type: folder, optional: true}, page: {type: file, optional: true}}
artifacts: {a: {}, down: {}}
steps: {m: {value: "'x'", sees: [code, page], makes: a, on_fail: {makes: down}}}
outputs: [a, down]
tests:
"""


@pytest.mark.parametrize(("case", "told"), [
    ("{given: {down: {error: x}}}", "`down` is made by no step's work, but where a step fails (`on_fail`)"),
    ("{inputs: {code: nowhere}}", "the folder `code`: there is no folder `nowhere` in the SOP's folder"),
    ("{inputs: {code: desk.yaml}}", "the folder `code`: there is no folder `desk.yaml` in the SOP's folder"),
    ("{inputs: {page: .}}", "the file `page`: there is no file `.` in the SOP's folder"),
    ("{inputs: {code: ., page: desk.yaml}}", ""),
])
def test_what_a_case_names_is_there(tmp_path: Path, case: str, told: str) -> None:
    found = check(write(tmp_path, f"{FAILS}  it: {case}\n")).problems
    assert [one.message for one in found] == ([told] if told else [])
