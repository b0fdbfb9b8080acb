"""`tool:` steps: real tools called without a model, their arguments and results typed, under policy, journal and trust."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from api_server import DESCRIPTION, Depot, depot
from scripted import write

from metaflow_agents import resume, start
from metaflow_agents.cli import command
from metaflow_agents.journal.journal import Journal
from metaflow_agents.questions.question import Answer, Question
from metaflow_agents.schema.event import Asked, Decided, Done, Failed, Finished, Intended, Reserved

SERVER = json.dumps(sys.executable), json.dumps(str(Path(__file__).with_name("mcp_server.py")))


@pytest.fixture
async def shop() -> AsyncIterator[Depot]:
    async with depot() as service:
        service.parcels["7"] = {"id": "7", "to": "Ada", "weight": 2.5}
        yield service


def desk(folder: Path, service: Depot, steps: str, artifacts: str, *, inputs: str = "{}",
         policy: str = "{preset: danger-full-access}", more: str = "", **files: str) -> Path:
    return write(folder, f"""
sop: desk
inputs: {inputs}
policy: {policy}
openapi: {{depot: {{spec: depot.yaml, server: "{service.url}"}}}}
artifacts: {artifacts}
steps:
{steps}
{more}
""", **{"depot_yaml": DESCRIPTION.read_text(), **files})


async def ran(path: Path, folder: Path, *, model: Any = None, **options: Any) -> tuple[Any, Journal]:
    async with start(path, model=model, workspace=folder / "w", sandbox="none", **options) as going:
        return await going.result(), going.journal


def of(journal: Journal, kind: type[Any]) -> list[Any]:
    return [event for _, event in journal.events(kind)]


FETCHED = """
sop: news
inputs: {{place: {{type: string, default: "http://127.0.0.1:{port}"}}}}
policy: {{allow: ["fetch(http://127.0.0.1:{port}/*)"]}}
artifacts:
  page: {{}}
  stock: {{schema: {{items: [{{name: string, count: integer}}]}}}}
  short: {{schema: [string]}}
  report: {{files: "out/**"}}
steps:
  read_page: {{tool: fetch, inputs: {{url: "place ~ '/page'"}}, needs: [place], makes: page}}
  read_stock: {{tool: fetch, inputs: {{url: "place ~ '/stock'", headers: "{{'X-Key': 'k' ~ 1}}"}}, needs: [place], makes: stock,
               parse: json}}
  pick: {{value: "stock.items | selectattr('count', 'lt', 3) | map(attribute='name') | list", needs: [stock], makes: short}}
  write_it: {{tool: write, inputs: {{path: "'out/order.txt'", text: "short | join(', ') ~ '; ' ~ page"}},
             needs: [short, page], makes: report}}
outputs: [report]
"""


async def test_fetch_transform_write_without_a_model(tmp_path: Path, shop: Depot) -> None:
    from aiohttp import web
    heard: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        heard.append(f"{request.path} {request.headers.get('X-Key', '-')}")
        if request.path == "/stock":
            return web.json_response({"items": [{"name": "tea", "count": 2}, {"name": "jam", "count": 9}]})
        return web.Response(text="<title>Shop</title><p>Open <b>daily</b>", content_type="text/html")

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        port = runner.addresses[0][1]
        result, journal = await ran(write(tmp_path, FETCHED.format(port=port)), tmp_path)
    finally:
        await runner.cleanup()
    assert result.ok, result.reason
    assert result.outputs == {"report": {"out/order.txt": "tea; Shop\n\nOpen daily"}}
    assert (tmp_path / "w" / result.name / "out/order.txt").read_text() == "tea; Shop\n\nOpen daily"
    assert sorted(heard) == ["/page -", "/stock k1"] and of(journal, Reserved) == []
    assert journal.state.versions["page"][0].untrusted == f"fetched from http://127.0.0.1:{port}"
    assert journal.state.versions["report"][0].untrusted == f"fetched from http://127.0.0.1:{port}"
    verdicts = {(event.key, event.role, event.action, event.verdict) for event in of(journal, Decided)}
    assert ("read_page@1~0/tool.0", "", f"fetch(http://127.0.0.1:{port}/page)", "allow") in verdicts and len(verdicts) == 3


GET = "inputs: {path_id: \"'7'\"}"
ADD = "inputs: {body: \"{'to': 'Ada', 'secret': 's', 'weight': 2}\"}"


async def test_an_operation_of_a_service_gives_data(tmp_path: Path, shop: Depot) -> None:
    path = desk(tmp_path, shop, """
  look: {tool: depot.getParcel, inputs: {path_id: number | string}, needs: [number], makes: parcel, parse: json}
  add:
    tool: depot.addParcel
    inputs: {body: "{'to': parcel.to, 'secret': 's', 'weight': parcel.weight * 2}"}
    needs: [parcel]
    trusts: [parcel]
    makes: added
""", "{parcel: {schema: {id: string, to: string, weight: number}}, added: {}}", inputs="{number: {type: integer, default: 7}}")
    result, journal = await ran(path, tmp_path)
    assert result.ok, result.reason
    assert json.loads(result.outputs["added"])["weight"] == 5.0 and shop.parcels["2"]["to"] == "Ada"
    assert [(event.tool, event.effect) for event in of(journal, Intended)] == [("depot.getParcel", "idempotent"),
                                                                               ("depot.addParcel", "once")]
    assert journal.state.versions["added"][0].untrusted == "from the API depot"


@pytest.mark.one_in(16)
async def test_tools_of_a_server(tmp_path: Path) -> None:
    path = write(tmp_path, f"""
        sop: desk
        policy: {{allow: ["mcp(t.echo)", "mcp(t.add)"]}}
        mcpServers: {{t: {{command: {SERVER[0]}, args: [{SERVER[1]}, stdio], effects: {{add: none, echo: none}}}}}}
        artifacts: {{sum: {{schema: {{sum: integer}}}}, said: {{}}, words: {{schema: [integer]}}}}
        steps:
          add: {{tool: t.add, inputs: {{a: 2, b: "1 + 1"}}, makes: sum, parse: json}}
          say: {{tool: t.echo, inputs: {{text: "'[' ~ sum.sum ~ ', 5]'"}}, needs: [sum], trusts: [tool.t.echo, sum], makes: said}}
          again: {{tool: t.echo, inputs: {{text: said}}, needs: [said], makes: words, parse: json}}
    """)
    result, journal = await ran(path, tmp_path)
    assert result.ok and result.outputs == {"words": [4, 5]}, result.reason
    assert [journal.state.versions[name][0].untrusted for name in ("sum", "said", "words")] == [
        "from the MCP server t", "", "from the MCP server t"]
    assert of(journal, Intended)[0].effect == "none"


TOOLS = '''
def count(words: list[str], by: int = 1) -> dict[str, int]:
    """Counts."""
    return {"n": len(words) * by}
def pages(words: list[str]) -> dict[str, str]:
    return {f"out/{word}.txt": word for word in words}
def boom(words: list[str]) -> str:
    raise ValueError("no " + words[0])
def refuse(it):
    return "not that one"
'''


async def test_functions_and_files(tmp_path: Path) -> None:
    path = write(tmp_path, """
        sop: desk
        inputs: {words: {type: [string], default: [a, bc]}}
        tools: {count: {python: "tools:count"}, pages: {python: "tools:pages", effect: none}}
        artifacts:
          counted: {schema: {n: integer}}
          files: {files: "out/**"}
          mended: {files: "done/**"}
          found: {}
          listed: {}
          text: {}
        steps:
          count: {tool: count, inputs: {words: words, by: 3}, needs: [words], makes: counted, parse: json}
          write: {tool: pages, inputs: {words: words}, needs: [words], makes: files, parse: json}
          copy: {tool: write, inputs: {path: "'done/x.txt'", text: "files['out/bc.txt'] ~ counted.n"}, needs: [files, counted],
                 makes: mended}
          find: {tool: search, inputs: {expression: "'6'"}, needs: [mended], makes: found}
          list: {tool: list, inputs: {pattern: "'out/*'"}, needs: [files], makes: listed}
          read: {tool: read, inputs: {path: "'out/bc.txt'"}, needs: [files], makes: text}
        outputs: [found, listed, text]
    """, tools_py=TOOLS)
    result, _ = await ran(path, tmp_path)
    assert result.ok, result.reason
    assert result.outputs == {"found": "done/x.txt:1: bc6\n", "listed": "out/a.txt (1)\nout/bc.txt (2)\n", "text": "bc"}


async def test_for_each_item_when_and_seen(tmp_path: Path) -> None:
    path = write(tmp_path, """
        sop: desk
        inputs: {lists: {type: [{id: string, words: [string]}], default: [{id: x, words: [a]}, {id: y, words: [a, b]}]}}
        tools: {count: {python: "tools:count"}}
        artifacts:
          counts: {each: {n: integer}}
          total: {schema: {n: integer}}
          never: {schema: {n: integer}, initial: {n: 0}}
          by: {schema: integer, initial: 2}
        steps:
          count:
            tool: count
            inputs: {words: one.words, by: by}
            needs: [lists]
            sees: [by]
            foreach: {in: lists, as: one, key: one.id}
            makes: counts
            parse: json
          sum: {tool: count, inputs: {words: "counts | list"}, needs: [counts], makes: total, parse: json}
          no: {tool: count, inputs: {words: "counts | list"}, needs: [counts], when: counts.y.n > 9, makes: never, parse: json}
        outputs: [counts, total, never]
    """, tools_py=TOOLS)
    result, _ = await ran(path, tmp_path)
    assert result.outputs == {"counts": {"x": {"n": 2}, "y": {"n": 4}}, "total": {"n": 2}, "never": {"n": 0}}, result.reason


@pytest.mark.parametrize(("step", "artifact", "told", "outside"), [
    ("tool: depot.getParcel, inputs: {path_id: \"'404'\"}", "{}", "404 Not Found", True),
    ("tool: depot.label, inputs: {id: 7}", "{}", "108 bytes of image/png: no text", True),
    ("tool: depot.odd, inputs: {what: \"'huge'\"}", "{}", "can't be taken: cut: only the first 2,000,000 bytes", True),
    ("tool: depot.odd, inputs: {what: \"'lies'\"}", "{}", "does not fit the service's own description", True),
    ("tool: depot.odd, inputs: {what: \"'drop'\"}", "{}", "closed the connection", True),
    ("tool: depot.odd, inputs: {what: \"'slow'\"}, timeout: 300ms", "{}", "timed out after 0.3 s", False),
    (f"tool: depot.getParcel, {GET}, parse: json", "{schema: {id: integer}}", "`id` is \"7\"; expected integer", True),
    (f"tool: depot.getParcel, {GET}, check: {{call: \"tools:refuse\"}}", "{}", "its check fails: not that one", True),
    ("tool: boom, inputs: {words: \"['tea']\"}", "{}", "ValueError: no tea", False),
    ("tool: pages, inputs: {words: \"['tea']\"}, parse: json", "{schema: {n: integer}}", "`n` is missing", False),
    ("tool: refuse, inputs: {it: 1}, parse: json", "{schema: {n: integer}}", "what `refuse` gave is not JSON", False),
    ("tool: count, inputs: {words: words}, needs: [words], parse: json", "{schema: {n: integer}}",
     "`words` is 7; expected a list", False),
    ("tool: refuse, inputs: {it: lost.error}, sees: [lost]", "{}", "`inputs: {it: lost.error}` gives nothing", False),
])
async def test_an_error_is_a_failed_attempt(tmp_path: Path, shop: Depot, step: str, artifact: str, told: str,
                                            outside: bool) -> None:
    names = [name for name in ("count", "boom", "pages", "refuse") if f"tool: {name}" in step]
    path = desk(tmp_path, shop, f"  look: {{{step}, makes: it, retries: 1, on_fail: {{makes: lost}}}}",
                f"{{it: {artifact}, lost: {{}}}}", inputs="{words: {type: any, default: 7}}",
                more=f"tools: {json.dumps({name: {'python': f'tools:{name}'} for name in names})}\noutputs: [lost]",
                tools_py=TOOLS)
    result, journal = await ran(path, tmp_path)
    failed = of(journal, Failed)
    assert len(failed) == 2 and all(told in event.error for event in failed), failed
    assert told in result.outputs["lost"]["error"] and result.ok
    assert [event.untrusted for event in failed] == ["from the API depot" if outside else ""] * 2


@pytest.mark.parametrize(("policy", "answer", "outcome", "asked"), [
    ('{allow: ["api(depot.addParcel)"]}', None, "success", 0), ("{}", None, "waiting", 1),
    ("{}", Answer(verdict="yes"), "success", 1),
    ("{}", Answer(verdict="no", text="too dear"), "stopped", 1),
    ("{}", Answer(verdict="yes", arguments={"body": {"to": "Eve", "secret": "t"}}), "success", 1),
])
async def test_under_the_policy(tmp_path: Path, shop: Depot, policy: str, answer: Answer | None, outcome: str,
                                asked: int) -> None:
    path = desk(tmp_path, shop, f"  add: {{tool: depot.addParcel, {ADD}, makes: it}}", "{it: {}}", policy=policy)

    async def person(question: Question, _: int) -> Answer | None:
        assert (question.text, question.role) == ("May the step `add` do `api(depot.addParcel)`?", "")
        return answer
    result, journal = await ran(path, tmp_path, **({} if answer is None else {"asker": person}))
    assert result.outcome == outcome, result.reason
    assert len(of(journal, Asked)) == asked and len(of(journal, Decided)) >= 1
    assert [one["to"] for one in list(shop.parcels.values())[1:]] == (
        [] if outcome != "success" else ["Eve"] if answer and answer.arguments else ["Ada"])
    assert outcome != "stopped" or "a person did not allow `api(depot.addParcel)`: too dear" in result.reason


async def test_what_a_sop_around_it_denies_is_not_done(tmp_path: Path, shop: Depot) -> None:
    desk(tmp_path, shop, f"  add: {{tool: depot.addParcel, {ADD}, makes: it}}", "{it: {}}")
    (tmp_path / "desk.yaml").rename(tmp_path / "inner.yaml")
    path = tmp_path / "outer.yaml"
    path.write_text('sop: outer\npolicy: {deny: ["api(depot.*)"]}\nartifacts: {it: {}}\nsteps: {go: {sop: inner, makes: it}}\n')
    result, journal = await ran(path, tmp_path)
    assert result.outcome == "stopped" and "not allowed (deny api(depot.*)" in result.reason, result.reason
    assert shop.seen == [] and [event.verdict for event in of(journal, Decided)] == ["deny"]


@pytest.mark.parametrize(("trusts", "effects", "policy", "outcome"), [
    ("", "", "api(depot.*)", "waiting"), (", trusts: [letter]", "", "api(depot.*)", "success"),
    (", trusts: [tool.depot.getParcel]", "", "api(depot.*)", "waiting"), ("", "none", "api(depot.*)", "waiting"),
    ("", "", "api(depot.getParcel)", "waiting"), ("", "none", "api(depot.getParcel)", "success"),
])
async def test_untrusted_arguments_are_asked_about(tmp_path: Path, shop: Depot, trusts: str, effects: str, policy: str,
                                                   outcome: str) -> None:
    step = f"{{tool: depot.getParcel, inputs: {{path_id: letter}}, needs: [letter], makes: it{trusts}}}"
    path = desk(tmp_path, shop, f"  look: {step}", "{it: {}}", inputs="{letter: {type: string, trusted: false, default: '7'}}",
                policy=f'{{allow: ["{policy}"]}}')
    if effects:
        path.write_text(path.read_text().replace("server:", "effects: {getParcel: none}, server:"))
    result, journal = await ran(path, tmp_path)
    assert (result.outcome, len(shop.seen)) == (outcome, outcome == "success"), result.reason
    if outcome == "success":
        label = journal.state.versions["it"][0].untrusted
        assert label == ("from the API depot" if trusts else "from the API depot; the input letter")


async def test_what_happened_once_is_not_done_again_by_a_retry(tmp_path: Path, shop: Depot) -> None:
    path = desk(tmp_path, shop, f"  add: {{tool: depot.addParcel, {ADD}, makes: it, parse: json, retries: 2}}",
                "{it: {schema: {id: integer}}}")
    result, journal = await ran(path, tmp_path)
    assert result.outcome == "stopped" and len(of(journal, Failed)) == 3
    assert len(shop.parcels) == 2 and len(of(journal, Done)) == 1
    again = await resume(result.name, workspace=tmp_path / "w")
    assert again.outcome == "stopped" and len(shop.parcels) == 2


@pytest.mark.parametrize("cut", ["drop", "huge"])
@pytest.mark.parametrize(("answer", "outcome", "posts"), [
    (None, "waiting", 1), (Answer(verdict="yes", text="it went"), "success", 1), (Answer(verdict="no"), "stopped", 2),
    (Answer(verdict="yes"), "stopped", 1)])
async def test_what_may_have_happened_is_asked_about_before_a_retry(tmp_path: Path, shop: Depot, cut: str, answer: Answer | None,
                                                                   outcome: str, posts: int) -> None:
    step = f"{{tool: depot.oddPost, inputs: {{what: \"'{cut}'\"}}, makes: it, retries: 1}}"
    path = desk(tmp_path, shop, f"  order: {step}", "{it: {}}")

    async def person(question: Question, _: int) -> Answer | None:
        assert question.kind == "effect" and question.key.startswith("order@1~0/tool.0/happened")
        return answer
    result, _ = await ran(path, tmp_path, asker=person)
    assert result.outcome == outcome, result.reason
    assert len([seen for seen in shop.seen if seen.method == "POST"]) == posts
    assert outcome != "success" or result.outputs == {"it": "it went"}


async def test_a_dry_run_and_a_staged_one_call_nothing(tmp_path: Path, shop: Depot) -> None:
    path = desk(tmp_path, shop, f"""
  look: {{tool: depot.getParcel, {GET}, makes: it, parse: json}}
  add: {{tool: depot.addParcel, {ADD}, needs: [it], makes: added}}
""", "{it: {schema: {id: string}}, added: {}}", policy='{allow: ["api(depot.*)"]}')
    dry, _ = await ran(path, tmp_path, model="dry")
    staged, journal = await ran(path, tmp_path, staged=True)
    assert dry.ok and staged.ok and shop.seen == [] and dry.outputs == staged.outputs
    assert [event.staged for event in of(journal, Done)] == [True, True]


async def test_a_result_is_taken_over_until_the_tool_or_the_policy_changes(tmp_path: Path, shop: Depot) -> None:
    text = f"  look: {{tool: depot.getParcel, {GET}, makes: it}}"
    first, _ = await ran(desk(tmp_path, shop, text, "{it: {}}"), tmp_path)
    _, journal = await ran(tmp_path / "desk.yaml", tmp_path, from_run=first.name)
    assert len(shop.seen) == 1 and of(journal, Finished)[0].reused_from
    changed = {"tools": desk(tmp_path, shop, text, "{it: {}}", policy='{allow: ["api(depot.getParcel)"]}').read_text(),
               "step": desk(tmp_path, shop, text.replace("'7'", "'' ~ 7"), "{it: {}}").read_text()}
    for number, (part, sop) in enumerate(changed.items(), 2):
        (tmp_path / "desk.yaml").write_text(sop)
        _, journal = await ran(tmp_path / "desk.yaml", tmp_path, from_run=first.name)
        assert len(shop.seen) == number and of(journal, Finished)[0].why == (part,)


def test_a_test_gives_what_a_tool_would(tmp_path: Path) -> None:
    desk(tmp_path, Depot("http://127.0.0.1:8123/v1"), f"  look: {{tool: depot.getParcel, {GET}, makes: it, parse: json}}",
         "{it: {schema: {id: string, to: string}}}",
         more="tests: {one: {given: {it: {to: Eve}}, expect: it.to == 'Eve' and success}, two: {expect: it.to == 'to'}}")
    assert command(["test", str(tmp_path / "desk.yaml"), "--json"]) == 0


async def test_it_is_drawn_and_told(tmp_path: Path, shop: Depot, capsys: pytest.CaptureFixture[str]) -> None:
    path = desk(tmp_path, shop, f"  look: {{tool: depot.getParcel, {GET}, makes: it}}", "{it: {}}")
    result, _ = await ran(path, tmp_path)
    assert await asyncio.to_thread(command, ["graph", str(path)]) == 0 and "tool depot.getParcel" in capsys.readouterr().out
    assert await asyncio.to_thread(command, ["log", result.name, "--workspace", str(tmp_path / "w")]) == 0
    told = capsys.readouterr().out
    assert "calls depot.getParcel" in told and "may api(depot.getParcel)" in told
    assert await asyncio.to_thread(command, ["show", result.name, "--workspace", str(tmp_path / "w")]) == 0
    assert "from the API depot" in capsys.readouterr().out


RECEIPT = "{it: {schema: {receipt: string}}}"


async def refused(folder: Path, run: str, capsys: pytest.CaptureFixture[str]) -> None:
    """That it has happened is half of an answer where a step goes on with what it gave; then the whole one is given."""
    def answered(*words: str) -> tuple[int, str]:
        status = command(["answer", run, "1", *words, "--workspace", str(folder / "w")])
        return status, capsys.readouterr().err
    line = f"""`sop answer {run} 1 --yes --reason '{{"receipt": …}}' --workspace {folder / 'w'}`"""
    for words, why in ((("--yes",), "say that, too ({receipt}, as JSON)"), (("--yes", "--reason", "it went"), "not JSON")):
        status, said = await asyncio.to_thread(answered, *words)
        said = " ".join(said.split())
        assert status == 2 and why in said and line in said, said
    assert (await asyncio.to_thread(answered, "--yes", "--reason", '{"receipt": "7"}'))[0] == 0
    again = await resume(run, workspace=folder / "w")
    assert again.ok and again.outputs == {"it": {"receipt": "7"}}, again.reason


async def test_an_answer_of_no_use_is_refused_with_the_line_to_type(tmp_path: Path, shop: Depot,
                                                                    capsys: pytest.CaptureFixture[str]) -> None:
    step = "{tool: depot.oddPost, inputs: {what: \"'drop'\"}, parse: json, makes: it, retries: 1}"
    path = desk(tmp_path, shop, f"  pay: {step}", RECEIPT)
    result, _ = await ran(path, tmp_path)
    assert result.outcome == "waiting", result.reason
    await refused(tmp_path, result.name, capsys)


async def test_so_is_one_about_a_function(tmp_path: Path, shop: Depot, capsys: pytest.CaptureFixture[str]) -> None:
    path = desk(tmp_path, shop, "  pay: {call: 'here:pay', effect: once, makes: it}", RECEIPT,
                here_py="import asyncio\n\nasync def pay():\n    await asyncio.sleep(3600)\n")
    async with start(path, workspace=tmp_path / "w", sandbox="none") as going, going.bus.events(Intended, after=0) as begun:
        await begun.get()
    result = await resume(going.name, workspace=tmp_path / "w")
    assert result.outcome == "waiting" and "The run was cut off" in result.reason
    await refused(tmp_path, going.name, capsys)
