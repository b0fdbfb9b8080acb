"""What becomes of a journal's events as spans and metrics: every kind, whole trees, the same whenever they are worked out."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import crash_thinking as thinking
import pytest
from crash_scenes import SCENES
from otel_events import BEGAN, Told, heard, only

from metaflow_agents.api.telemetry import wire
from metaflow_agents.journal.journal import Journal
from metaflow_agents.schema import event as events
from metaflow_agents.schema.keys import place_of
from metaflow_agents.views.spans import Content, Span, Spans, names
from metaflow_agents.views.spans.fold import KINDS

EVENT_KINDS = {cls.model_fields["kind"].default for cls in get_args(get_args(events.Event)[0])}


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path)


def test_every_kind_of_event_becomes_something_and_the_table_says_what() -> None:
    assert set(KINDS) == set(names.TOLD_AS) == EVENT_KINDS
    assert all(names.LEFT_OUT.values())


def sent(spans: list[Span]) -> bytes:
    """As a collector gets them."""
    return wire.traces(spans, {}, "1")


def lines(spans: list[Span], meters: Any) -> list[str]:
    """Spans and metrics as text, without ids: they follow from the numbers of events."""
    found = [f"{span.name} {span.kind} {span.start} {span.end} {span.attributes} {span.events} {span.error} {span.link is None}"
             for span in spans]
    return sorted([*found, *(f"{point.metric.name} {point.labels} {point.value}" for point in meters.points())])


@pytest.mark.parametrize("kind", sorted(EVENT_KINDS - {"run_opened"}))
def test_without_the_events_of_a_kind_something_is_missing(told: Told, kind: str) -> None:
    """A walk over all kinds: none is heard and forgotten. Events keep their numbers, which spans tell."""
    told.whole()
    assert {event.kind for event in told.events} == EVENT_KINDS
    found = []
    for left_out in ("", kind):
        spans = Spans(told.blobs.__getitem__)
        ended = [span for number, event in enumerate(told.events, 1) if event.kind != left_out
                 for span in spans.hear(number, event)]
        found.append(lines(ended, spans.meters))
    assert found[0] != found[1]


def test_a_run_is_a_tree_of_spans_by_the_names_of_the_conventions(told: Told) -> None:
    told.whole()
    spans, _ = told.spans()
    by_id = {span.id: span for span in spans}
    told_of = [(span.name, by_id[span.parent].name if span.parent else "") for span in sorted(spans, key=lambda one: one.start)]
    assert sorted(told_of) == sorted([
        ("invoke_workflow letters", ""), ("invoke_workflow letters", "invoke_workflow letters"),
        ("invoke_agent writer", "invoke_workflow letters"), ("invoke_agent writer", "invoke_workflow letters"),
        ("plan writer", "invoke_agent writer"), ("chat gpt-9", "plan writer"), ("chat gpt-9", "invoke_agent writer"),
        ("retrieval files", "invoke_agent writer"), ("execute_tool", "invoke_agent writer"),
        ("chat gpt-9", "invoke_agent writer"), ("create_memory", "invoke_agent writer"),
        ("step note", "invoke_workflow letters"), ("invoke_agent critic", "step note"), ("invoke_agent critic", "step note"),
        ("chat gpt-9", "invoke_agent critic"), ("search_memory", "invoke_agent critic"), ("embeddings gpt-9", "search_memory"),
        ("invoke_workflow post", "invoke_workflow letters"), ("step stamp", "invoke_workflow post")])
    assert len({span.trace for span in spans}) == 1 and len(by_id) == len(spans)


def test_what_spans_tell(told: Told) -> None:
    told.whole()
    spans, _ = told.spans()
    chat = next(span for span in spans if span.name == "chat gpt-9" and names.TRIES in span.attributes)
    assert chat.kind == "client" and chat.error == ""
    assert chat.attributes == {
        names.OPERATION: "chat", names.PROVIDER: "openai", names.MODEL: "gpt-9", names.ADDRESS: "127.0.0.1", names.PORT: 8123,
        names.AGENT: "writer", names.EVENT: 6, names.CONVERSATION: "one", names.STEP_NAME: "write", names.INPUT_TOKENS: 7,
        names.OUTPUT_TOKENS: 3, names.CACHED_TOKENS: 2, names.TRIES: 2}
    assert [(one.name, one.attributes) for one in chat.events] == [
        (names.TRIED, {names.ERROR: "rate"}), (names.RETRIED, {names.TRIES: 2})]
    search = only(spans, "retrieval files")
    assert search.attributes[names.OPERATION] == "retrieval" and search.attributes[names.DATA_SOURCE] == "files"
    assert [one.name for one in search.events] == [names.DECIDED, names.ASKED, names.ANSWERED]
    assert search.attributes[names.UNTRUSTED] is True
    first, second = (span for span in spans if span.name == "invoke_agent writer")
    assert (first.error, first.attributes[names.INPUT_TOKENS], first.attributes.get(names.ATTEMPT)) == ("failed", 107, None)
    assert (second.error, second.attributes[names.ATTEMPT], second.attributes[names.ARTIFACTS]) == ("", 1, ("letter@1",))
    assert only(spans, "create_memory").attributes[names.WHAT] == "reflection"
    items = {span.attributes[names.ITEM] for span in spans if span.name == "invoke_agent critic"}
    assert items == {0, 1} and only(spans, "step note").attributes[names.ITEMS] == 2
    assert only(spans, "step stamp").attributes[names.STEP_NAME] == "post/stamp"


def test_metrics_are_sums_since_the_run_began(told: Told) -> None:
    told.whole()
    _, folded = told.spans()
    found = {(point.metric.name, dict(point.labels).get(names.AGENT, dict(point.labels).get(names.OPERATION, ""))): point.value
             for point in folded.meters.points() if names.ERROR not in dict(point.labels)}
    assert found["gen_ai.client.inference.usage.input_tokens", "chat"] == 100 * 3 + 7
    assert found["gen_ai.client.inference.usage.output_tokens", "chat"] == 20 * 3 + 3
    assert found["gen_ai.client.inference.usage.cache_read.input_tokens", "chat"] == 2
    assert found["gen_ai.client.inference.duration", "chat"].count == 4
    assert found["gen_ai.client.embeddings.duration", "embeddings"].count == 1
    assert found["gen_ai.invoke_agent.duration", "critic"].total == 2.0
    assert found["gen_ai.invoke_agent.inference_calls", "critic"].total == 1
    assert found["gen_ai.execute_tool.duration", "execute_tool"].total == 0.5
    assert found["sop.question.duration", ""].total == 1.0
    assert found["gen_ai.invoke_agent.duration", "letters"].count == 2
    assert {name for name, _ in found} <= {metric.name for metric in names.METRICS}
    assert folded.meters.began == BEGAN


def test_no_content_unless_asked_for_and_then_without_secrets(told: Told) -> None:
    told.whole()
    words = ("hello", "be kind", '"q"', "May it?", "no letter", "read(**)", "busy", "turn.0", "it came there")
    plain, _ = told.spans()
    assert not [word for word in words if word.encode() in sent(plain)]
    full, _ = told.spans(content=lambda text: text.replace("hello", "[secret]"))
    assert [word for word in words if word.encode() not in sent(full)] == ["hello"]
    chat = next(span for span in full if names.INPUT_MESSAGES in span.attributes)
    assert chat.attributes[names.INPUT_MESSAGES] == '[{"role":"user","parts":[{"type":"text","content":"[secret]"}]}]'
    assert chat.attributes[names.SYSTEM] == '[{"type":"text","content":"be kind"}]'
    assert chat.attributes[names.OUTPUT_MESSAGES] == \
        '[{"role":"assistant","parts":[{"type":"text","content":"hi"}],"finish_reason":"stop"}]'
    assert {one.id for one in plain} == {one.id for one in full}


def test_a_long_text_is_cut_and_says_so(told: Told) -> None:
    content = Content(told.blobs.__getitem__, longest=10)
    assert content.text("x" * 1500) == f"{'x' * 10}… (1,490 more characters)"
    assert "(40 more characters)" in str(content.request(told.request("y" * 50))[names.INPUT_MESSAGES])


def test_what_a_kill_cut_off_ends_with_the_resume_as_interrupted_at_the_last_sign_of_life(told: Told) -> None:
    told.beginning()
    told.add(events.Fired(step="write", round=1, read={"topic": 1}), *told.call("write@1~0/turn.0", "writer")[:1])
    spans, folded = told.spans()
    assert spans == []
    dead = folded.cut_off()
    told.add(events.Resumed(sop="f", compiled=told.compiled, sources={}, at=BEGAN + 9000),
             *told.call("write@1~0/turn.0", "writer"),
             events.Finished(activation="write@1~0", payload="p", seconds=1.0), events.Committed(firing="write@1"),
             events.RunEnded(outcome="success"))
    spans, folded = told.spans()
    assert sent(spans[:3]) == sent(dead)            # whoever exports the dead run sends what the resume would
    assert [(span.name, span.error, span.end) for span in dead] == [
        ("chat gpt-9", "interrupted", BEGAN + 3), ("invoke_agent writer", "interrupted", BEGAN + 3),
        ("invoke_workflow letters", "interrupted", BEGAN + 3)]
    assert [(span.name, span.error) for span in spans[3:]] == [
        ("chat gpt-9", ""), ("invoke_agent writer", ""), ("invoke_workflow letters", "")]
    assert len({span.id for span in spans}) == 6 and len({span.trace for span in spans}) == 1
    assert spans[-1].parent == spans[2].id and spans[2].parent == b""
    durations = [point.value for point in folded.meters.points() if point.metric is names.INFERENCE_DURATION]
    assert [one.count for one in durations] == [1]      # what was never answered took no time that anybody knows


def test_an_answer_while_no_process_has_the_run_belongs_to_the_sitting_after_it(told: Told) -> None:
    told.beginning()
    told.add(events.Fired(step="write", round=1, read={"topic": 1}), events.Asked(key="write@1~0", question="q"),
             events.RunEnded(outcome="waiting"))
    before, _ = told.spans()
    told.add(events.Answered(key="write@1~0", answer="a", by="answer", at=BEGAN + 500),
             events.Resumed(sop="f", compiled=told.compiled, sources={}), events.RunEnded(outcome="waiting"))
    spans, _ = told.spans()
    assert sent(spans[:2]) == sent(before) and before[0].error == ""
    assert [one.name for one in spans[-1].events] == [names.ANSWERED]
    assert spans[-1].events[0].attributes == {names.BY: "answer", names.SECONDS: 497.0}


def test_a_run_that_fails_leaves_nothing_under_way(told: Told) -> None:
    told.beginning()
    told.add(events.Fired(step="note", round=1, read={"letter": 1}, items=("a", "b")),
             *told.call("note@1[a]~0/turn.0", "critic")[:1], *told.call("note@1[b]~0/turn.0", "critic"),
             events.Failed(activation="note@1[b]~0", error="no", final=True, stops=True),
             events.RunEnded(outcome="stopped", reason="no"))
    spans, folded = told.spans()
    assert [(span.name, span.error) for span in spans] == [
        ("chat gpt-9", ""), ("invoke_agent critic", "stops"), ("chat gpt-9", "cancelled"), ("invoke_agent critic", "cancelled"),
        ("step note", "cancelled"), ("invoke_workflow letters", "stopped")]
    assert folded.cut_off() == []


def test_an_attempt_that_ends_ends_the_calls_in_it(told: Told) -> None:
    told.beginning()
    told.add(events.Fired(step="write", round=1, read={"topic": 1}),
             events.Intended(key="write@1~0/turn.0/tool.0", tool="start_role", arguments="x", effect="idempotent"),
             *told.call("write@1~0/turn.0/tool.0/turn.0", "critic")[:1], events.Failed(activation="write@1~0", error="timed out"))
    spans, _ = told.spans()
    assert [(span.name, span.error) for span in spans] == [
        ("chat gpt-9", "cancelled"), ("execute_tool start_role", "cancelled"), ("invoke_agent writer", "failed")]
    assert spans[0].parent == spans[1].id and spans[1].parent == spans[2].id


def test_a_fork_has_a_trace_of_its_own_with_a_link_to_the_other(told: Told) -> None:
    told.whole()
    source, _ = told.spans()
    fork = heard(Spans(told.blobs.__getitem__, name="two"), told.events)
    assert [span.name for span in fork] == [span.name for span in source]
    assert not {span.id for span in fork} & {span.id for span in source} and fork[0].trace != source[0].trace
    (root,), (other,) = ([span for span in spans if not span.parent] for spans in (fork, source))
    assert root.link == (other.trace, other.id) and other.link is None
    assert root.attributes[names.RUN] == "two" and root.attributes[names.FORKED] == "one"
    assert {span.attributes[names.CONVERSATION] for span in fork if names.CONVERSATION in span.attributes} == {"two"}
    assert sent(heard(Spans(told.blobs.__getitem__, name="one"), told.events)) == sent(source)


def test_a_name_that_a_model_made_up_is_no_name_of_a_tool(told: Told) -> None:
    told.beginning()
    told.add(events.Fired(step="write", round=1, read={"topic": 1}))
    for number, tool in enumerate(("rm -rf; my words", "x" * 65, "shop.order-2")):
        told.add(events.Intended(key=f"write@1~0/turn.0/tool.{number}", tool=tool, arguments="a"),
                 events.Done(key=f"write@1~0/turn.0/tool.{number}", payload="p", error=True, refused=number == 0))
    spans, _ = told.spans()
    assert [(span.name, span.error) for span in spans] == [
        ("execute_tool unknown", "denied"), ("execute_tool unknown", "tool_error"), ("execute_tool shop.order-2", "tool_error")]


def test_models_are_told_by_form_name_and_host_and_paths_by_their_last_part(told: Told) -> None:
    told.beginning()
    told.add(events.Fired(step="write", round=1, read={"topic": 1}))
    for number, model in enumerate(("openai:other", "python:/home/me/desk.py:answer", "dry", "replay:/home/me/one.jsonl")):
        told.add(events.Reserved(key=f"write@1~0/turn.{number}", digest="d", request="r", model=model, tokens=1),
                 events.Settled(key=f"write@1~0/turn.{number}", reply="r"))
    found = [{name: span.attributes.get(name) for name in (names.PROVIDER, names.MODEL, names.ADDRESS)}
             for span in told.spans()[0]]
    assert found == [
        {names.PROVIDER: "openai", names.MODEL: "other", names.ADDRESS: "api.openai.com"},
        {names.PROVIDER: "python", names.MODEL: "desk.py:answer", names.ADDRESS: None},
        {names.PROVIDER: "dry", names.MODEL: "dry", names.ADDRESS: None},
        {names.PROVIDER: "replay", names.MODEL: "one.jsonl", names.ADDRESS: None}]


def test_a_span_keeps_as_many_events_as_sdks_do_and_counts_the_others(told: Told) -> None:
    told.beginning()
    told.add(*(events.Documented(artifact="letter", number=number, payload="p") for number in range(200)),
             events.RunEnded(outcome="success"))
    (flow,), _ = told.spans()
    assert len(flow.events) == 128 and flow.dropped == 201 - 128


@pytest.mark.parametrize("key", ["write@1~0", "write@2[a/b~c]~3/turn.0/tool.1", "a@1[x@1~0/y]~0/b@2~1/c@3[k]~0/plan.0"])
def test_the_place_of_a_key(key: str) -> None:
    place = place_of(key)
    assert place is not None and place.activation + (f"/{place.below}" if place.below else "") == key
    assert place.steps == {"write@1~0": ("write",), "write@2[a/b~c]~3/turn.0/tool.1": ("write",)}.get(key, ("a", "b", "c"))
    assert place_of("turn.0") is None


def fold(path: Path, *, content: bool = False) -> tuple[list[Span], list[tuple[int, events.Event]], Journal]:
    with Journal.read(path) as journal:
        spans = Spans(journal.blob, Content(journal.blob) if content else None)
        held = list(journal.events())
        return [span for number, event in held for span in spans.hear(number, event)], held, journal


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Journals of runs with every strategy, and every way in which roles work together."""
    found = {}
    chosen = [name for name, scene in SCENES.items() if not scene.missing]
    for name in random.sample(chosen, 8):
        home = tmp_path_factory.mktemp("scene") / "home"
        with thinking.staged(home):
            home.mkdir(parents=True)
            assert thinking.live(name, home) == 0
        found[name] = home / ".journals" / "run.db"
    return found


@pytest.mark.one_in(4)
def test_of_real_runs_each_span_is_there_once_below_its_parent_and_within_its_time(scenes: dict[str, Path]) -> None:
    for name, path in scenes.items():
        for content in (False, True):
            spans, held, _ = fold(path, content=content)
            by_id = {span.id: span for span in spans}
            assert len(by_id) == len(spans) and len({span.trace for span in spans}) == 1, name
            assert [span.parent for span in spans if span.parent not in by_id] == [b""], name
            for span in spans:
                parent = by_id.get(span.parent, span)
                assert parent.start - 1e-6 <= span.start <= span.end <= parent.end + 1e-6, (name, span.name, parent.name)
                operation = str(span.attributes.get(names.OPERATION, names.STEP))
                assert span.name.startswith(operation) and operation in names.SPANS, span.name
                assert set(span.attributes) | {key for one in span.events for key in one.attributes} <= set(names.ATTRIBUTES)
                assert {one.name for one in span.events} <= set(names.EVENTS) and span.error in {"", *names.ERRORS}
            calls = Counter(event.kind for _, event in held)
            assert sum(span.kind == "client" for span in spans) <= calls["reserved"], name
            assert sum(span.attributes.get(names.OPERATION) in ("execute_tool", "retrieval") for span in spans) >= calls["done"]


@pytest.mark.one_in(4)
def test_the_spans_of_a_journals_beginning_are_the_first_of_the_whole(scenes: dict[str, Path]) -> None:
    for path in scenes.values():
        whole, held, journal = fold(path)
        cut = random.randrange(1, len(held))
        part = Spans(journal.blob)
        first = [span for number, event in held[:cut] for span in part.hear(number, event)]
        assert sent(first) == sent(whole[:len(first)])
