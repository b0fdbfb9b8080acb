"""Every case of `templates.yaml`: attacks end in an error, soon; what somebody else wrote is never a template."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import tiers
from patience import PATIENCE
from scripted import Scripted, block, write
from test_agent_tools import Script, calls
from test_research_page import TEMPLATE, report

from metaflow_agents import run
from metaflow_agents.errors import ExpressionError
from metaflow_agents.kits.research.page import set_page
from metaflow_agents.models.port import ModelRequest
from metaflow_agents.prompts import evaluate, render
from metaflow_agents.questions.question import Answer

TABLE: dict[str, list[dict[str, Any]]] = tiers.table(Path(__file__).with_name("templates.yaml"))
WORDS = "{{ 7 * 191 }}{% set a = 1 %}<script>{# c #}"
DONE = "1337"                               # what the words would become
CONTROL = "\x1b[2J\x1b]0;pwned\x07"


def scope() -> dict[str, Any]:
    return {"x": {"y": [1, 2, 3]}, "t": "text", "words": WORDS}


@pytest.mark.parametrize("row", TABLE["attacks"], ids=lambda row: row["id"])
def test_an_attack_ends_in_an_error(row: dict[str, Any]) -> None:
    work: Callable[[str, dict[str, Any]], Any] = evaluate if row.get("expression") else render
    begun = time.process_time()
    if row["expected"] != "error":
        assert work(row["template"], scope()) == row["expected"]
        return
    with pytest.raises(ExpressionError) as told:
        work(row["template"], scope())
    assert time.process_time() - begun < PATIENCE
    assert len(str(told.value)) < 1500 and "Traceback" not in str(told.value) and "root:" not in str(told.value)


Carried = Callable[[Path], Awaitable[str]]
WAYS: dict[str, Carried] = {}


def way(function: Carried) -> Carried:
    """Gives all that the words came to."""
    WAYS[function.__name__] = function
    return function


def sent(*requests: ModelRequest) -> str:
    return "\n".join(str(message.get("content")) for request in requests for message in request.messages)


async def two(folder: Path, text: str, first: Any = WORDS, **more: Any) -> tuple[Any, Scripted]:
    model = Scripted(one=first)
    result = await run(write(folder, text, **more), topic=WORDS, model=model, workspace=folder / "w", name="r", sandbox="none")
    assert result.ok, result.reason
    return result, model


HEAD = "sop: desk\ninputs: {topic: string}\n"
ROLES = HEAD + "roles: {a: {profile: x}, b: {PROFILE}}\n"
STEPS = "steps:\n  one: {role: a, needs: [topic], makes: first}\n  two: {role: b, needs: [first], makes: second}\n"


@way
async def task(folder: Path) -> str:
    _, model = await two(folder, HEAD + "roles: {a: {profile: x}}\nartifacts: {first: {}}\n"
                         "steps: {one: {role: a, needs: [topic], makes: first, task: 'Say {{ topic }}.'}}\n")
    return sent(*model.requests)


@way
async def prompt(folder: Path) -> str:
    _, model = await two(folder, ROLES.replace("PROFILE", "prompt: b.md.j2") + "artifacts: {first: {}, second: {}}\n" + STEPS,
                         roles__b_md_j2="You got {{ first }}.")
    return sent(model.requests[-1])


@way
async def material(folder: Path) -> str:
    _, model = await two(folder, ROLES.replace("PROFILE", "profile: y") + "artifacts: {first: {}, second: {}}\n" + STEPS)
    return sent(model.requests[-1])


@way
async def render_(folder: Path) -> str:
    text = HEAD + "roles: {a: {profile: x}}\nartifacts: {first: {schema: {said: string}, file: f.md, render: f.md.j2}}\n"
    steps = "steps: {one: {role: a, needs: [topic], makes: first}}\n"
    await two(folder, text + steps, {"said": WORDS}, f_md_j2="# {{ first.said }}\n")
    return (folder / "w" / "r" / "f.md").read_text()


WAYS["render"] = WAYS.pop("render_")


@way
async def files(folder: Path) -> str:
    text = ROLES.replace("PROFILE", "profile: y") + 'artifacts: {first: {files: "s/**"}, second: {}}\n' + STEPS
    result, model = await two(folder, text, block("s/a.md", WORDS))
    return sent(model.requests[-1]) + result["first"]["s/a.md"] if "first" in result.outputs else sent(model.requests[-1])


TOOLED = (HEAD + "roles: {a: {profile: x, tools: [TOOL]}}\nartifacts: {first: {}}\n"
          "steps: {one: {role: a, needs: [topic], makes: first}}\n")


async def with_function(folder: Path, model: Any, models: str = "") -> None:
    source = f"def convert(what: str) -> str:\n    {WORDS!r}\n    return {WORDS!r}\n"
    text = TOOLED.replace("TOOL", "convert") + "tools: {convert: {python: 'units:convert'}}\npolicy: {allow: [call]}\n" + models
    assert (await run(write(folder, text, units_py=source), topic="x", model=model, workspace=None)).ok


@way
async def tool_result(folder: Path) -> str:
    model = Script(calls(("convert", {"what": "x"})), "done")
    await with_function(folder, model)
    return sent(model.sent[-1])


@way
async def tool_description(folder: Path) -> str:
    model = Script("done")
    await with_function(folder, model)
    return str(model.sent[0].tools)


@way
async def human(folder: Path) -> str:
    text = ROLES.replace("PROFILE", "profile: y") + "artifacts: {first: {}, second: {}}\n" + STEPS.replace(
        "{role: a, needs", "{human: text, task: 'What of {{ topic }}?', needs")
    text = text.replace("a: {profile: x}, ", "")
    questions: list[str] = []

    async def ask(question: Any, number: int) -> Answer:
        questions.append(question.text)
        return Answer(text=WORDS)

    model = Scripted()
    result = await run(write(folder, text), topic=WORDS, model=model, workspace=None, asker=ask)
    assert result.ok, result.reason
    return questions[0] + sent(*model.requests)


@way
async def memory(folder: Path) -> str:
    text = HEAD + "roles: {a: {profile: x}}\nartifacts: {first: {}, second: {}}\n" + STEPS.replace("role: b", "role: a")
    _, model = await two(folder, text, lambda request: WORDS)
    return sent(model.requests[-1])


@way
async def repair(folder: Path) -> str:
    text = HEAD + "roles: {a: {profile: x}}\nartifacts: {first: {schema: {n: integer}}}\n"
    _, model = await two(folder, text + "steps: {one: {role: a, needs: [topic], makes: first}}\n", [{"n": WORDS}, {"n": 1}])
    return sent(model.requests[-1])


@way
async def command(folder: Path) -> str:
    text = (HEAD + "artifacts: {first: {}}\nsuccess: first.ok\n"
            "steps: {one: {run: 'printf %s {{ topic }}', needs: [topic], makes: first}}\n")
    result, _ = await two(folder, text)
    assert result["first"]["stdout"] == WORDS, "one argument, as it is"
    return str(result["first"]["stdout"])


@way
async def key(folder: Path) -> str:
    text = ("sop: desk\ninputs: {topics: [string]}\nroles: {a: {profile: x}}\nartifacts: {first: {files: '**'}}\n"
            "steps: {one: {role: a, needs: [topics], makes: {first: 'd/{{ one }}'}, foreach: {in: topics, as: one}}}\n")
    words = WORDS.replace("/", "")
    model = Scripted(one=block(f"d/{words}", "x"))
    result = await run(write(folder, text), topics=[words], model=model, workspace=None)
    assert result.ok and set(result["first"]) == {f"d/{words}"}, result.reason
    return next(iter(result["first"])) + sent(*model.requests)


@way
async def failure(folder: Path) -> str:
    text = HEAD + ("roles: {b: {profile: y}}\nartifacts: {first: {}, why: {}, second: {}}\nsteps:\n"
                   "  one: {call: 'fails:go', needs: [topic], args: {topic: '{{ topic }}'}, makes: first,\n"
                   "        on_fail: {makes: why}}\n"
                   "  two: {role: b, needs: [why], makes: second, task: 'It said {{ why.error }}'}\noutputs: [second]\n")
    source = "def go(topic: str) -> str:\n    raise ValueError(topic)\n"
    _, model = await two(folder, text, fails_py=source)
    return sent(*model.requests)


@way
async def expression(folder: Path) -> str:
    words = "7 * 191"
    text = ("sop: desk\ninputs: {topic: string}\nartifacts: {first: {}}\n"
            "steps: {one: {value: topic, needs: [topic], makes: first, when: topic, priority: topic | length}}\n")
    result = await run(write(folder, text), topic=words, model="dry", workspace=None)
    assert result["first"] == words
    return WORDS


@way
async def html(folder: Path) -> str:
    parts = set_page(report(WORDS, title=WORDS, question=WORDS))
    page = render(TEMPLATE, {"page": parts.model_dump(mode="json"), "run": {"name": "x", "inputs": {}}}, {})
    assert "<script>" not in page and page.count("&lt;script&gt;") >= 3
    return page.replace("&lt;", "<").replace("&gt;", ">")


@way
async def log(folder: Path) -> str:
    from metaflow_agents.views.event_log import full, minute
    from metaflow_agents.views.page import Page
    from security.path_scenes import cli

    text = HEAD + "roles: {a: {profile: x}}\nartifacts: {first: {}}\nsteps: {one: {role: a, needs: [topic], makes: first}}\n"
    await two(folder, text, CONTROL + WORDS)
    status, told = cli("log", "r", "--full", "--workspace", str(folder / "w"))
    assert status == 0
    assert shown_on_a_terminal(folder / "w" / ".journals" / "r.db", minute, full, Page(width=100))
    return told


def shown_on_a_terminal(journal: Path, minute: Any, full: Any, page: Any) -> bool:
    import json

    from metaflow_agents.journal.run_summary import RawJournal
    with RawJournal(journal) as raw:
        lines = [line for _, event in raw.events() for line in
                 (minute(event, {}).line(page), *full(event, lambda name: json.loads(raw.blob(name)), page))]
    text = "\n".join(lines)
    assert "pwned" in text
    return all(char.isprintable() or char == "\n" for char in text)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("row", TABLE["carried"], ids=lambda row: row["id"])
async def test_words_of_others_stay_words(row: dict[str, Any], tmp_path: Path) -> None:
    told = await WAYS[row["through"]](tmp_path)
    assert DONE not in told
    assert "{{ 7 * 191 }}" in told and "{% set a = 1 %}" in told


def test_the_table_is_whole() -> None:
    every = [*TABLE["attacks"], *TABLE["carried"]]
    assert len(every) == len({row["id"] for row in every}) >= 20
    assert {row["through"] for row in TABLE["carried"]} == set(WAYS)
    assert all(row["owasp"] and row["what"] for row in every)
