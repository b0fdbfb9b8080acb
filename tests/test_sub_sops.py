"""SOPs as steps of SOPs: keys, resume inside, budgets, policy, trust, people; what `sop check` says of them."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from scripted import Scripted, events, write
from stopping import stopped_everywhere

from metaflow_agents import check, resume, run, start
from metaflow_agents.errors import UsageError
from metaflow_agents.journal.audit import RECORDS, verified
from metaflow_agents.journal.journal import Journal
from metaflow_agents.models.port import ModelRequest, Reply, ToolCall
from metaflow_agents.questions.question import Answer
from metaflow_agents.schema.event import Committed, Decided, Failed, Inner, Reserved

CHAPTER = """
    sop: chapter
    inputs: {title: string, tone: {type: string, default: plain}}
    roles: {writer: {profile: You write.}, critic: {profile: You judge.}}
    artifacts: {text: {}, verdict: {schema: {good: boolean}}}
    steps:
      draft: {role: writer, needs: [title], sees: [tone], makes: text, task: "Draft {{ title }}, {{ tone }}"}
      judge: {role: critic, needs: [text], makes: verdict}
      mend: {role: writer, needs: [verdict], sees: [text], when: not verdict.good, makes: text, rounds: 2, task: Mend it}
    outputs: [text]
    success: verdict.good
"""
BOOK = """
    sop: book
    inputs: {topic: string}
    roles: {planner: {profile: You plan.}}
    artifacts:
      plan: {schema: {chapters: [{id: string, needs: [string]}]}, graph: {nodes: chapters, key: id, edges: needs}}
      chapters: {each: string}
    steps:
      plan_it: {role: planner, needs: [topic], makes: plan}
      write:
        sop: chapter
        inputs: {title: chapter.id}
        needs: [plan]
        foreach: {in: plan.chapters, as: chapter}
        makes: chapters
        KEYS
"""


def book(folder: Path, keys: str = "retries: 0", chapter: str = CHAPTER) -> Path:
    return write(folder, BOOK.replace("KEYS", keys), chapter_yaml=chapter)


def answer(request: ModelRequest) -> Any:
    """A plan of two chapters; the first draft of `b` is mended once."""
    if request.step == "plan_it":
        return {"chapters": [{"id": "b", "needs": ["a"]}, {"id": "a", "needs": []}]}
    if request.step == "judge":
        return {"good": "[a]" in request.key or "judge@2" in request.key}
    return f"{request.step} of {request.key}"


async def test_what_is_given_inside_stands_in_there_and_is_a_part_of_what_is_taken_over(tmp_path: Path) -> None:
    path = book(tmp_path)
    options = {"topic": "rain", "model": answer, "workspace": tmp_path}
    given: dict[str, Any] = {"write/draft": "ready made", "write/verdict@1": {"good": True}}
    made = (await run(path, **options, name="one", given=given))["chapters"]
    assert made == {"a": "ready made", "b": "ready made"} and len(events(tmp_path, "one", Reserved)) == 1
    again = await run(path, **options, name="two", given=given, from_run="one")
    assert again.calls == 0 and again["chapters"] == made
    third = await run(path, **options, name="three", from_run="one")
    assert third.calls > 0 and "ready made" not in third["chapters"].values(), "without it the work is another one"
    for wrong, told in (("write/txt", "`txt`, which no step makes: did you mean `text`"),
                        ("wrote/text", "`wrote` is no step with"),
                        ("write[a]/text", "is no name of a value that stands in"), ("text", "`text`, which no step makes")):
        with pytest.raises(UsageError, match=re.escape(told)):
            await run(path, **options, given={wrong: "x"})


async def test_what_is_given_inside_is_given_after_a_stop(tmp_path: Path) -> None:
    def stops(request: ModelRequest) -> Any:
        if "[b]" in request.key:
            raise ValueError("no pen")
        return answer(request)

    path = book(tmp_path)
    given = {"write/judge": {"good": True}}
    assert not (await run(path, topic="rain", model=stops, workspace=tmp_path, name="it", given=given)).ok
    assert (await resume("it", model=answer, workspace=tmp_path)).ok
    assert not [event for event in events(tmp_path, "it", Reserved) if "judge" in event.key]


KEYS = ["plan_it@1~0/turn.0", "write@1[a]~0/draft@1~0/turn.0", "write@1[a]~0/judge@1~0/turn.0", "write@1[b]~0/draft@1~0/turn.0",
        "write@1[b]~0/judge@1~0/turn.0", "write@1[b]~0/mend@1~0/turn.0", "write@1[b]~0/judge@2~0/turn.0"]


async def test_a_task_of_a_plan_is_a_sop_with_keys_of_its_own(tmp_path: Path) -> None:
    model = Scripted(plan_it=answer, draft=answer, judge=answer, mend=answer)
    result = await run(book(tmp_path), topic="rain", model=model, workspace=tmp_path, name="it")
    assert result.ok, result.reason
    assert model.keys == KEYS
    assert result["chapters"] == {"b": "mend of write@1[b]~0/mend@1~0/turn.0", "a": "draft of write@1[a]~0/draft@1~0/turn.0"}
    assert "Draft a, plain" in model.said(KEYS[1])
    assert [event.key for event in events(tmp_path, "it", Reserved)] == KEYS and result.calls == 7


@pytest.mark.one_in(4)
async def test_a_run_is_stopped_at_every_call_inside_and_gone_on_with(tmp_path: Path) -> None:
    whole = await stopped_everywhere(book(tmp_path), lambda: answer, tmp_path / "runs", topic="rain")
    assert len(whole.keys) == 7


async def test_what_is_spent_inside_counts_for_the_run_the_step_and_the_sop(tmp_path: Path) -> None:
    stopped = await run(book(tmp_path), topic="rain", model=answer, workspace=tmp_path, name="run", budget={"calls": 4})
    assert stopped.outcome == "budget" and stopped.calls == 4 and "the run's cap of 4 calls" in stopped.reason
    again = await resume("run", model=answer, workspace=tmp_path, budget={"calls": 7})
    assert again.ok and again.calls == 7
    by_step = await run(book(tmp_path, "budget: {calls: 3}"), topic="rain", model=answer, workspace=None)
    assert by_step.calls == 4 and "the step write's cap of 3 calls" in by_step.reason
    capped = book(tmp_path, chapter=CHAPTER + "\n    budget: {calls: 2}\n")
    by_sop = await run(capped, topic="rain", model=answer, workspace=tmp_path, name="sop")
    assert by_sop.calls == 5 and "the SOP chapter's cap of 2 calls" in by_sop.reason, "each chapter has a cap of its own"


async def test_a_cap_inside_holds_after_a_resume_too(tmp_path: Path) -> None:
    capped = book(tmp_path, chapter=CHAPTER + "\n    budget: {calls: 2}\n")
    await run(capped, topic="rain", model=answer, workspace=tmp_path, name="it")
    again = await resume("it", model=answer, workspace=tmp_path)
    assert again.outcome == "budget" and again.calls == 5, "what was spent before counts"


async def test_caps_of_a_step_and_of_the_sop_that_it_is_are_raised_on_the_command_line(tmp_path: Path) -> None:
    """What each message names goes on, whatever was spent by the chapters before."""
    path = book(tmp_path, "budget: {calls: 4}", chapter=CHAPTER.replace("makes: verdict}", "makes: verdict, budget: {calls: 1}}")
                + "\n    budget: {calls: 2}\n")
    result = await run(path, topic="rain", model=answer, workspace=tmp_path, name="it")
    met = []
    while not result.ok and len(met) < 5:
        found = re.search(r"`sop resume it --budget (\S+)=(\d+)` or more goes on", result.reason)
        assert found is not None, result.reason
        met.append(found[1])
        result = await resume("it", model=answer, workspace=tmp_path, budget={found[1]: found[2]})
    assert result.ok and result.calls == 7, result.reason
    assert sorted(met) == ["write/calls", "write/calls", "write/judge/calls"], "the SOP's, the step's, that of a step in there"


@pytest.mark.parametrize(("given", "told"), [
    ({"write/draft/tokens": 1}, "the step draft's cap of 1 tokens is reached"),
    ({"write/tokens": 1}, "the SOP chapter's cap of 1 tokens is reached"),
    ({"plan_it/tokens": 1}, "the step plan_it's cap of 1 tokens is reached"),
    ({"write/draft/time": "100ms"}, "the time budget of step draft is used up: 0.1 s; `sop resume it --budget write/draft/time="),
    ({"write/time": "100ms"}, "the time budget of the SOP chapter is used up: 0.1 s; `sop resume it --budget write/time=…` goes"),
])
async def test_a_cap_is_given_where_the_file_has_none(tmp_path: Path, given: dict[str, Any], told: str) -> None:
    async def slow(request: ModelRequest) -> Any:
        await asyncio.sleep(20 if "time" in next(iter(given)) and "draft" in request.key else 0)
        return answer(request)

    result = await run(book(tmp_path), topic="rain", model=slow, workspace=tmp_path, name="it", budget=given)
    assert result.outcome == "budget" and told in result.reason
    again = await resume("it", model=answer, workspace=tmp_path, budget=dict.fromkeys(given, "1h" if "time" in told else "1M"))
    assert again.ok, again.reason


@pytest.mark.parametrize(("written", "told"), [
    ("wrote/calls", "there is no step `wrote` in book; did you mean `write`"),
    ("write/drafts/calls", "no step `drafts` in chapter"),
    ("plan_it/draft/calls", "`plan_it` is no step with `sop:`"), ("write/call", "`call` is no budget of this version"),
    ("/calls", "there is no step ``"), ("write//calls", "there is no step `` in chapter"), ("write@1/calls", "no step `write@1`"),
    ("fill/tokens", "`fill` is a `run` step that makes none: write `--budget fill/time=…`"),
])
async def test_a_cap_of_what_is_not_there_is_refused(tmp_path: Path, written: str, told: str) -> None:
    path = book(tmp_path, "retries: 0\n      fill: {run: ['true'], needs: [chapters], makes: filled}")
    path.write_text(path.read_text().replace("chapters: {each: string}", "chapters: {each: string}\n  filled: {}"))
    with pytest.raises(UsageError, match=re.escape(told)):
        await run(path, topic="rain", model=answer, workspace=None, budget={written: 3})


async def test_money_that_is_capped_inside_wants_a_price_there(tmp_path: Path) -> None:
    """Of the run, of the step, of its SOP and of a step in there; a cap elsewhere wants none."""
    def models(price: str) -> str:
        return f"\n    models: {{default: {{name: m, endpoint: 'http://127.0.0.1:9'{price}}}}}\n"

    path = book(tmp_path, "retries: 0" + models(", price: {in: 1, out: 5}"), chapter=CHAPTER + models(""))
    for written in ("usd", "write/usd", "write/draft/usd"):
        with pytest.raises(UsageError, match="nobody knows its price"):
            start(path, topic="rain", workspace=None, budget={written: 1})
    start(path, topic="rain", workspace=None, budget={"plan_it/usd": 1})


async def test_a_step_that_fails_inside_stops_the_run_there_and_a_resume_pays_nothing_twice(tmp_path: Path) -> None:
    def broken(request: ModelRequest) -> Any:
        return 5 if request.step == "judge" and "[b]" in request.key else answer(request)

    first = await run(book(tmp_path), topic="rain", model=_Named(broken), workspace=tmp_path, name="it")
    assert first.outcome == "stopped" and first.reason.startswith("write@1[b]~0/judge@1~0: ")
    once_more = await resume("it", model=_Named(broken), workspace=tmp_path)
    assert once_more.reason.startswith("write@1[b]~0/judge@1~1: "), "a resume grants one fresh attempt"
    again = _Named(answer)
    second = await resume("it", model=again, workspace=tmp_path)
    assert second.ok and again.asked == [
        "write@1[b]~0/judge@1~2/turn.0", "write@1[b]~0/mend@1~0/turn.0", "write@1[b]~0/judge@2~0/turn.0"]


class _Named:
    def __init__(self, how: Any) -> None:
        self.how, self.asked = how, list[str]()

    async def __call__(self, request: ModelRequest) -> Any:
        self.asked.append(request.key)
        return self.how(request)


async def test_a_sop_that_fails_is_tried_again_and_then_skipped_as_any_item_is(tmp_path: Path) -> None:
    def broken(request: ModelRequest) -> Any:
        if request.step == "judge" and "[b]" in request.key:
            return {"good": False}
        return answer(request)

    path = book(tmp_path, "retries: 1\n        on_fail: skip")
    result = await run(path, topic="rain", model=broken, workspace=tmp_path, name="it")
    assert result.ok and list(result["chapters"]) == ["a"]
    failed = events(tmp_path, "it", Failed)
    assert [event.activation for event in failed] == ["write@1[b]~0", "write@1[b]~1"]
    assert failed[0].error == "the SOP `chapter` finished without success: `success: verdict.good` does not hold"
    assert any(event.key == "write@1[b]~1/draft@1~0/turn.0" for event in events(tmp_path, "it", Reserved))


async def test_a_sop_walks_dry_and_counts_in_the_bounds(tmp_path: Path) -> None:
    path = book(tmp_path, chapter=CHAPTER.replace("success: verdict.good", "success: text != ''"))
    assert (await run(path, topic="rain", model="dry", workspace=None)).ok
    bounds = check(path).bounds
    assert bounds is not None and bounds.steps["write"].calls == check(tmp_path / "chapter.yaml").bounds.calls > 0


async def test_from_takes_over_a_sop_whose_file_did_not_change(tmp_path: Path) -> None:
    path = book(tmp_path)
    await run(path, topic="rain", model=_Named(answer), workspace=tmp_path, name="one")
    same = _Named(answer)
    await run(path, topic="rain", model=same, workspace=tmp_path, name="two", from_run="one")
    assert same.asked == []
    book(tmp_path, chapter=CHAPTER.replace("Mend it", "Mend all of it"))
    other = _Named(answer)
    result = await run(path, topic="rain", model=other, workspace=tmp_path, name="three", from_run="one")
    assert other.asked == ["write@1[b]~0/mend@1~0/turn.0"] and result.ok         # inside, what did not change is taken over too
    taken = [event.event.reused_from for event in events(tmp_path, "three", Inner) if event.event.kind == "finished"]
    assert taken == ["one:write@1[a]~0/draft@1~0", "one:write@1[a]~0/judge@1~0", "one:write@1[b]~0/draft@1~0",
                     "one:write@1[b]~0/judge@1~0", None, "one:write@1[b]~0/judge@2~0"]


async def test_another_run_on_the_same_inputs_is_another_one_for_who_names_it(tmp_path: Path) -> None:
    """`run.inputs` are equal; a text that names the run itself is made anew."""
    drafts = ["write@1[a]~0/draft@1~0/turn.0", "write@1[b]~0/draft@1~0/turn.0"]
    for word, asked in (("run.inputs.title", []), ("run.name", drafts)):
        folder = tmp_path / word
        folder.mkdir()
        path = book(folder, chapter=CHAPTER.replace("Draft {{ title }}", f"Draft {{{{ {word} }}}}"))
        await run(path, topic="rain", model=_Named(answer), workspace=folder, name="one")
        book(folder, chapter=path.with_name("chapter.yaml").read_text().replace("success:", "description: x\nsuccess:"))
        again = _Named(answer)
        assert (await run(path, topic="rain", model=again, workspace=folder, name="two", from_run="one")).ok
        assert [key for key in again.asked if "draft" in key] == asked


async def test_inside_of_a_sop_that_inherits_memory_nothing_is_taken_over(tmp_path: Path) -> None:
    path = book(tmp_path, keys="inherits_memory: true", chapter=CHAPTER.replace("You write.", "You write., memory: {recall: {}}"))
    await run(path, topic="rain", model=_Named(answer), workspace=tmp_path, name="one")
    chapter = path.with_name("chapter.yaml")
    chapter.write_text(chapter.read_text().replace("Mend it", "Mend all of it"))
    again = _Named(answer)
    assert (await run(path, topic="rain", model=again, workspace=tmp_path, name="two", from_run="one")).ok
    assert len([key for key in again.asked if key.endswith("draft@1~0/turn.0")]) == 2


async def test_a_second_attempt_takes_nothing_over_and_the_last_attempt_of_a_run_counts(tmp_path: Path) -> None:
    """What a SOP did that finished without success is no result to begin with again."""
    judged: list[bool] = []

    def late(request: ModelRequest) -> Any:
        if request.step != "judge":
            return answer(request)
        judged.append("~1/" in request.key or "[a]" in request.key)
        return {"good": judged[-1]}

    path = book(tmp_path, keys="retries: 1")
    first = await run(path, topic="rain", model=_Named(late), workspace=tmp_path, name="one")
    assert first.ok and judged == [True, False, False, False, True]
    book(tmp_path, keys="retries: 1", chapter=CHAPTER.replace("role: critic", "role: critic, task: Judge it"))
    judged.clear()
    again = _Named(late)
    second = await run(path, topic="rain", model=again, workspace=tmp_path, name="two", from_run="one")
    drafts = [key for key in again.asked if "draft" in key]
    assert second.ok and drafts == ["write@1[b]~1/draft@1~0/turn.0"]
    assert second["chapters"]["b"].startswith("draft of write@1[b]~1/")


async def test_a_recording_answers_inside_too(tmp_path: Path) -> None:
    path = book(tmp_path)
    first = await run(path, topic="rain", model=answer, workspace=tmp_path, name="one")
    again = await run(path, topic="rain", model="replay:one", workspace=tmp_path, name="two")
    assert again.ok and again.outputs == first.outputs


async def test_labels_go_in_and_come_out(tmp_path: Path) -> None:
    path = book(tmp_path)
    path.write_text(path.read_text().replace("{topic: string}", "{topic: {type: string, trusted: false}}"))
    result = await run(path, topic="rain", model=answer, workspace=tmp_path, name="it")
    assert result.untrusted == {"plan": "the input topic", "chapters": "the input topic"}
    inner = [event.event for event in events(tmp_path, "it", Inner) if event.event.kind == "committed"]
    assert all(version.untrusted for event in inner for version in event.versions if version.artifact in ("title", "text"))
    trusted = await run(book(tmp_path), topic="rain", model=answer, workspace=None)
    assert not trusted.untrusted


async def test_each_input_has_the_label_of_its_own_expression(tmp_path: Path) -> None:
    inner = """
        sop: inner
        inputs: {letter: string, limit: {type: integer}, help: string, spare: {type: string, default: x}, earlier: string}
        artifacts: {found: {}}
        steps: {join: {value: "letter ~ limit ~ help", needs: [letter, limit, help, spare, earlier], makes: found}}
    """
    outer = """
        sop: outer
        inputs: {letters: {type: [string], trusted: false}, help: string, limit: integer, note: {type: string, trusted: false}}
        artifacts: {found: {each: string}}
        steps:
          each:
            sop: inner.yaml
            needs: [letters, help, limit, note]
            foreach: {in: letters, as: letter, key: letter}
            inputs: {letter: letter, limit: "limit + 1", help: help, earlier: "run.inputs.note ~ help"}
            makes: found
    """
    (tmp_path / "inner.yaml").write_text(dedent(inner))
    (tmp_path / "outer.yaml").write_text(dedent(outer))
    result = await run(tmp_path / "outer.yaml", letters=["a"], help="h", limit=1, note="n", workspace=tmp_path, name="it")
    assert result.ok, result.reason
    first = next(event.event for event in events(tmp_path, "it", Inner) if event.event.kind == "committed")
    assert {version.artifact: version.untrusted for version in first.versions} == {
        "letter": "the input letters", "limit": "", "help": "", "spare": "", "earlier": "the input letters; the input note"}
    assert result.untrusted == {"found": "the input letters; the input note"}


GUARDED = """
    sop: chapter
    inputs: {title: string}
    roles: {writer: {profile: You write., tools: [write]}}
    artifacts: {text: {files: "pages/**"}}
    steps: {draft: {role: writer, needs: [title], makes: text}}
"""


async def test_what_the_outer_policy_denies_is_denied_inside(tmp_path: Path) -> None:
    def writing(request: ModelRequest) -> Any:
        if request.step == "plan_it":
            return {"chapters": [{"id": "a", "needs": []}]}
        if request.messages[-1]["role"] == "tool":
            return str(request.messages[-1]["content"]) + "\n=== file: pages/b ===\nx\n=== end ==="
        return Reply(text="", calls=(ToolCall("1", "write", {"path": "pages/a", "text": "x"}),))

    async def decided(policy: str, name: str) -> list[str]:
        path = book(tmp_path, chapter=GUARDED)
        text = path.read_text().replace("chapters: {each: string}", "chapters: {each: {'pages/a?': string, 'pages/b': string}}")
        path.write_text(text + policy)
        result = await run(path, topic="rain", model=writing, workspace=tmp_path, name=name)
        assert result.ok, result.reason
        return [f"{event.key} {event.verdict}: {event.rule}" for event in events(tmp_path, name, Decided)]

    free, denied = await decided("", "free"), await decided('policy: {deny: ["write(pages/a)"]}\n', "bound")
    assert len(free) == 1 and free[0].startswith("write@1[a]~0/draft@1~0/turn.0/tool.0 allow")
    with Journal.read(tmp_path / ".journals" / "bound.db") as journal:
        assert verified([record for record in journal.events(*RECORDS)], None).faults == (), "one chain of records"
    assert denied == ["write@1[a]~0/draft@1~0/turn.0/tool.0 deny: deny write(pages/a) of the SOP that this one is a step of",
                      "write@1[a]~0/draft@1~0/answer allow: allow write(**) of the SOP's preset workspace"]


ASKING = """
    sop: chapter
    inputs: {title: string}
    artifacts: {text: {schema: string}}
    steps: {ask: {human: text, needs: [title], makes: text, task: "What of {{ title }}?"}}
"""


async def test_people_are_asked_from_inside_and_answer_days_later(tmp_path: Path) -> None:
    asked: list[str] = []

    async def asker(question: Any, number: int) -> Any:
        asked.append(question.key)
        return Answer(text=f"all of {question.key[8]}")

    here = await run(book(tmp_path, chapter=ASKING), topic="rain", model=answer, workspace=None, asker=asker)
    assert here.ok, here
    assert here["chapters"] == {"b": "all of b", "a": "all of a"} and asked == ["write@1[a]~0/ask@1~0", "write@1[b]~0/ask@1~0"]
    later = await run(book(tmp_path, chapter=ASKING), topic="rain", model=_Named(answer), workspace=tmp_path, name="it")
    assert later.outcome == "waiting" and "What of a?" in later.reason
    again = await resume("it", model=_Named(answer), workspace=tmp_path, asker=asker)
    assert again.ok and again["chapters"] == here["chapters"]


async def test_several_outputs_are_an_object(tmp_path: Path) -> None:
    """Each under its name, as untrusted as all of them; one that was not made is not there."""
    inner = """
        sop: inner
        inputs: {word: string, page: string, both: {type: boolean, default: true}}
        artifacts: {loud: {}, files: {files: "**"}, seldom: {}}
        steps:
          shout: {value: word | upper, needs: [word], makes: loud}
          write: {value: "{'a.txt': page}", needs: [page], makes: files}
          also: {value: word, needs: [word], sees: [both], when: both, makes: seldom}
        outputs: [loud, files]
    """
    outer = """
        sop: outer
        inputs: {word: string, page: {type: string, trusted: false}}
        artifacts:
          whole: {schema: {loud: string, files: {type: object, additionalProperties: {type: string}}, 'seldom?': string}}
          alone: {schema: {loud: string}}
          loud: {}
          files: {files: "**"}
        steps:
          all: {sop: inner, inputs: {word: word, page: page, both: BOTH}, output: [loud, files, seldom],
                needs: [word, page], makes: whole}
          one: {sop: inner, inputs: {word: word, page: page}, output: [loud], needs: [word, page], makes: alone}
          tell: {value: whole.loud ~ whole.seldom | default('-'), needs: [whole], makes: loud}
          lay: {value: whole.files, needs: [whole], makes: files}
        outputs: [whole, alone, loud, files]
    """
    for both, told, more in (("true", "HIhi", {"seldom": "hi"}), ("false", "HI-", {})):
        path = write(tmp_path / both, outer.replace("BOTH", both), inner_yaml=inner)
        result = await run(path, word="hi", page="<b>", model=answer, workspace=tmp_path / "w", name=both)
        assert result.ok, result.reason
        assert result["whole"] == {"loud": "HI", "files": {"a.txt": "<b>"}, **more}
        assert (result["alone"], result["loud"], result["files"]) == ({"loud": "HI"}, told, {"a.txt": "<b>"})
        labels = {version.artifact: version.untrusted
                  for event in events(tmp_path / "w", both, Committed) for version in event.versions}
        assert labels["whole"] and not labels["alone"] and labels["files"]


def problems(folder: Path, keys: str, chapter: str = CHAPTER) -> list[str]:
    return [str(one) for one in check(book(folder, keys, chapter)).errors]


@pytest.mark.parametrize(("old", "new", "told"), [
    ("sop: chapter\n", "sop: chaptr\n", "sop-not-found"),
    ("sop: chapter\n", "sop: desk\n", "error[sop-recursion]: a SOP is a step of itself: desk → desk"),
    ("{title: chapter.id}", "{titel: chapter.id}", "error[sop-input]: the SOP `chapter` has no input `titel`"),
    ("{title: chapter.id}", "{}", "error[sop-input]: the SOP `chapter` requires the input `title`"),
    ("{title: chapter.id}", "{title: chapter.name}", "error[unknown-attribute]"),
    ("makes: chapters\n", "makes: chapters\n    output: verdikt\n", "error[sop-output]: the SOP `chapter` makes no `verdikt`"),
    ("makes: chapters\n", "makes: chapters\n    task: do it\n", "error[key-misplaced]"),
], ids=str)
def test_what_is_wrong_is_told(tmp_path: Path, old: str, new: str, told: str) -> None:
    path = book(tmp_path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    found = [str(one) for one in check(path).errors]
    assert any(told in one for one in found), found


def test_a_circle_of_sops_is_refused_and_what_is_wrong_inside_is_told_there(tmp_path: Path) -> None:
    circle = CHAPTER.replace("role: critic, needs: [text]", "sop: desk, inputs: {topic: text}, needs: [text]")
    assert "a SOP is a step of itself: desk → chapter → desk" in "".join(problems(tmp_path, "retries: 0", circle))
    broken = problems(tmp_path, "retries: 0", CHAPTER.replace("needs: [text], makes: verdict", "needs: [txt], makes: verdict"))
    assert len(broken) == 1 and "chapter.yaml:8:" in broken[0] and "did you mean `text`" in broken[0]


@pytest.mark.one_in(4)
async def test_three_deep(tmp_path: Path) -> None:
    middle = """
        sop: middle
        inputs: {title: string}
        artifacts: {whole: {}}
        steps: {inner: {sop: chapter, inputs: {title: title}, needs: [title], makes: whole}}
    """
    path = write(tmp_path, BOOK.replace("KEYS", "retries: 0").replace("sop: chapter\n", "sop: middle\n"),
                 chapter_yaml=CHAPTER, middle_yaml=middle)
    model = _Named(answer)
    result = await run(path, topic="rain", model=model, workspace=tmp_path, name="deep")
    assert result.ok and model.asked[1] == "write@1[a]~0/inner@1~0/draft@1~0/turn.0" and result.calls == 7
    assert len((await stopped_everywhere(path, lambda: answer, tmp_path / "runs", topic="rain")).keys) == 7


def test_rules_that_a_sub_sop_needs_are_about_something(tmp_path: Path) -> None:
    chapter = CHAPTER + "    mcp_servers: {shop: {command: python shop.py}}\n    tools: {page: {python: 'os.path:basename'}}\n"
    path = book(tmp_path, chapter=chapter)
    rules = "[mcp(shop.orders_of), call(page), start_role(critic), mcp(shpo.orders_of)]"
    path.write_text(path.read_text() + f"policy: {{preset: workspace, allow: {rules}}}\n")
    told = [one.message for one in check(path).warnings if one.code == "rule-without-effect"]
    assert told == ["the rule `mcp(shpo.orders_of)` under `allow` has no effect: the SOP has no MCP server `shpo`"]
