# ruff: noqa: E501  (prose and markup stand here as people write them)
"""The research report from end to end: the documents of the example, a model that answers by a script, a false quotation that is mended."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, block, events, tree

from metaflow_agents import RunResult, run
from metaflow_agents.errors import UsageError
from metaflow_agents.models.port import ModelRequest
from metaflow_agents.schema.event import Settled

EXAMPLE = Path(__file__).resolve().parent.parent / "sops/recordings/research_report"
QUESTION = "Should the town of Harlmouth bring back its night ferry?"

PLAN = {
    "answer": "Not as it was: the hours between one and four cost much and carry nobody. A short timetable, with a payment by the hospital, "
              "seems to leave a small deficit. Whether passengers come back is open.",
    "sections": [
        {"id": "who-crosses", "heading": "Who crossed, and who would", "question": "How many people used the night ferry, when, and who "
         "says that they would again?", "points": ["counts by hour", "stated demand, and what it is worth"], "sources": ["S2", "S5", "S3"],
         "terms": ["passengers", "households", "half past five", "nurses"]},
        {"id": "what-it-costs", "heading": "What it costs, and what would close the gap", "question": "What does the service cost, what does "
         "it earn, and what changes that?", "points": ["last winter", "short timetable", "fares and the hospital's payment"],
         "sources": ["S4", "S3", "S5"], "terms": ["crowns", "fares", "deficit", "crew"]},
        {"id": "what-could-go-wrong", "heading": "What could undo it", "question": "Which risks do the documents name?",
         "points": ["the crew", "the boat", "habits", "fog"], "sources": ["S1", "S4", "S2"], "terms": ["tired", "shaft", "fog", "first winter"]},
    ],
}
CROSSES = """\
Few people crossed, and most of them at one hour. The harbour office counted "forty-one passengers a night on average" on weekdays and
ninety-six on Fridays and Saturdays [S2]. On eleven of the fourteen nights that were counted, the crossing at half past five "carried more
than half of all passengers of the night" [S2]. In the small hours the boat often sailed for nobody:

> Between one and four in the morning the boat was empty on six nights out of fourteen.
>
> — P. Wennick, harbour clerk [S2]

There are no counts for the summer, and the clerk warns that whoever calls the summer nights full "has not got it from this office" [S2].

Demand is there, at a price. Of 388 households that answered, 74 would cross every week at the old fare of four crowns; at six crowns it would
be 61, at nine 23 [S5]. Fifty-two of the 74 have somebody who works shifts at the hospital [S5], which says that it has lost "nine nurses
who lived across the water" since the ferry stopped [S3]. The survey itself warns that it asked "what people would do, which is not what
they did" [S5].
"""
COSTS = """\
Run as it was, the service cost 412,000 crowns in its last winter and took 131,000 in fares; the town paid the shortfall of 281,000 crowns
[S4, p. 1]. The accountants find the cause in the hours: "More than two thirds of the cost is {what}" [S4, p. 1], and a crew is paid for the
night, "whether the boat sails or not" [S4, p. 1].

| | as it was | short timetable |
| --- | --- | --- |
| cost of a winter | 412,000 | 236,000 |
| fares | 131,000 | 148,000 |
| paid by the hospital | none | up to 60,000 |
| left to the town | 281,000 | 28,000 |

The second column rests the boat from one to four [S4, pp. 1–2]. It needs two things that are not settled. One is a fare of six crowns [S4, p. 2],
at which 13 of the 74 weekly households would stay away [S5]. The other is the hospital, which "would pay for the crossing at half past five,
every night of the year, up to 60 000 crowns", but not "for a boat that runs empty from one to four" [S3]. Even then, the accountants
write, "[w]e do not say that the ferry pays for itself. We say that it stops being expensive" [S4, p. 2].
"""
RISKS = """\
The captain of nineteen winters is against the old timetable, and not because of the weather: "Tiredness should have stopped us more often"
[S1]. Fog kept the boat from its timetable on three nights in the last winter; on this he and the harbour office agree [S1; S2]. He
would support "a rested crew’s first crossing of the day" [S1], which is what the short timetable comes to [S4, p. 1].

Two more risks are the accountants'. The boat is thirty-eight years old, its main shaft is given "no more than four winters", and a new one
costs 190,000 crowns, which their figures leave out [S4, p. 2]. And people have arranged themselves without a ferry: "In the first winter we
would expect a third less" [S4, p. 2]. They therefore advise a trial of two winters, since one "would measure how fast a habit comes
back and call it demand" [S4, p. 3].
"""
FRAME = {"title": "A night ferry at half past five, and none from one to four", "language": "en",
         "sections": [{"id": "who-crosses", "heading": "Who crossed, and who would"},
                      {"id": "what-it-costs", "heading": "What it costs, and what would close the gap"},
                      {"id": "what-could-go-wrong", "heading": "What could undo it"}],
         "notes": ["what-could-go-wrong: its first sentence should pick up the timetable that the section before it speaks of"]}
SUMMARY = """\
Not as it was, but the documents carry a trial of a shorter service. The night ferry lost the town 281,000 crowns in its last winter, largely for
hours in which nobody crossed [S2; S4, p. 1]. With the boat at rest from one to four, a fare of six crowns and a payment by the
hospital, 28,000 crowns a winter would be left to pay [S4, p. 2].

This holds only if the hospital signs, if passengers who have "made other arrangements" come back [S4, p. 2], and if the old boat's shaft lasts.
What the summer would bring, nobody has counted [S2].
"""
EDIT = block("drafts/summary.md", SUMMARY) + """\
=== edit: drafts/sections/what-could-go-wrong.md ===
<<<<<<< SEARCH
The captain of nineteen winters is against the old timetable, and not because of the weather: "Tiredness should have stopped us more often"
=======
The hours matter for safety as well as for money. The captain of nineteen winters is against the old timetable, and not because of the
weather: "Tiredness should have stopped us more often"
>>>>>>> REPLACE
=== end ===
"""


def written(request: ModelRequest) -> Any:
    """The sections; the first draft on costs has a quotation that its source does not bear out."""
    told = request.messages[-1]["content"]
    mended = "the cost is crew" in told and "can't be taken" in told
    text = CROSSES if "who-crosses" in request.key else RISKS if "go-wrong" in request.key else COSTS
    return block(request.patterns[0], text.replace("{what}", "crew" if mended else "fuel"))


def model(**other: Any) -> Scripted:
    return Scripted({"plan_report": PLAN, "write_sections": written, "arrange": FRAME, "edit": EDIT, **other})


async def go(tmp_path: Path, desk: Scripted, documents: Path = EXAMPLE / "documents", **options: Any) -> RunResult:
    return await run("research_report.yaml", model=desk, workspace=tmp_path, question=QUESTION, documents=documents, **options)


@pytest.mark.one_in(4)
async def test_a_report_with_a_false_quotation_that_goes_back_to_its_author(tmp_path: Path) -> None:
    desk = model()
    result = await go(tmp_path, desk)
    assert result.ok, result.reason
    mended = [key for key in desk.keys if "/check." in key]
    assert mended == ["write_sections@1[what-it-costs]~0/check.1"]
    told = desk.last_said(mended[0])
    assert 'the quotation "More than two thirds of the cost is fuel" [S4, p. 1] does not stand, word for word, in S4 (reckoning.pdf)' in told
    assert "on p. 1: <<More than two thirds of the cost is crew." in told
    files = tree(tmp_path / result.name)
    assert sorted(files) == ["drafts/sections/what-could-go-wrong.md", "drafts/sections/what-it-costs.md", "drafts/sections/who-crosses.md",
                             "drafts/summary.md", "report.html", "report.md"]
    assert "fuel" not in files["report.md"] and "The hours matter for safety" in files["report.md"]
    assert "17 quotations were found in the sources word for word" in files["report.md"]
    report = result["report"]
    assert report["ok"] and report["faults"] == [] and {one["id"] for one in report["sources"] if one["cited"]} == {"S1", "S2", "S3", "S4", "S5"}
    assert {"section": "what-it-costs", "text": "whether the boat sails or not", "source": "S4", "page": "p. 1"} in report["quotations"]


@pytest.mark.one_in(4)
async def test_each_step_is_told_only_what_it_reads(tmp_path: Path) -> None:
    desk = model()
    await go(tmp_path, desk)
    plan = desk.said("plan_report@1~0/turn.0")
    assert '<source id="S4" title="The night ferry: costs and savings" kind="pdf" words="445" pages="3">' in plan
    assert "Two things could undo this" in plan, "all of a document as short as that; of long ones, how they begin"
    crosses = desk.said("write_sections@1[who-crosses]~0/turn.0")
    assert "forty-one passengers a night" in crosses
    assert "Aldo Prenn" not in crosses, "a source that the plan does not name for the section"
    costs = desk.said("write_sections@1[what-it-costs]~0/turn.0")
    assert '<passage cite="[S4, p. 2]">' in costs and "offer thirty thousand" not in costs
    assert "What was decided to change" in desk.said("edit@1~0/turn.0")
    listed = '- S4: "The night ferry: costs and savings"\n'
    assert all(listed in desk.said(f"{step}@1~0/turn.0") for step in ("arrange", "edit")) and listed in costs
    assert '(for other sections)' in crosses and crosses.count('- S1: "') == 1
    assert desk.said("edit@1~0/turn.0").count("Few people crossed") == 1, "the text is not repeated out of the editor's memory"
    for request in desk.requests:
        text = "\n".join(message["content"] for message in request.messages)
        assert str(EXAMPLE) not in text and str(tmp_path) not in text


async def test_a_quotation_that_the_editor_breaks_goes_back_to_the_editor(tmp_path: Path) -> None:
    broken = EDIT.replace("made other arrangements", "made better arrangements")
    desk = model(edit=[broken, EDIT])
    result = await go(tmp_path, desk)
    assert result.ok, result.reason
    assert "edit@1~0/check.1" in desk.keys
    assert "section `summary`: the quotation \"made better arrangements\"" in desk.last_said("edit@1~0/check.1")
    assert "better" not in result["report"]["summary"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("answer", "told"), [
    (EDIT.replace("drafts/summary.md", "drafts/abstract.md"), "`drafts/abstract.md` is neither a section nor the summary"),
    (EDIT[EDIT.index("=== edit:"):], "`drafts/summary.md` is missing"),
    (EDIT + "=== rename: drafts/sections/who-crosses.md -> drafts/sections/users.md ===\n", "did you mean `drafts/sections/who-crosses.md`"),
])
async def test_an_edit_keeps_to_the_files_of_the_report(tmp_path: Path, answer: str, told: str) -> None:
    desk = model(edit=[answer, EDIT])
    assert (await go(tmp_path, desk)).ok
    assert told in desk.last_said("edit@1~0/check.1")


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("change", "told"), [
    ({"sources": ["S2", "S8"]}, "section `who-crosses` names the source `S8`"),
    ({"sources": []}, "section `who-crosses` names no source"),
    ({"id": "Who crosses?"}, "the id `Who crosses?` is not like `what-it-costs`"),
])
async def test_a_plan_that_can_not_be_carried_out_goes_back_to_its_author(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    wrong = {**PLAN, "sections": [{**PLAN["sections"][0], **change}, *PLAN["sections"][1:]]}
    desk = model(plan_report=[wrong, PLAN])
    assert (await go(tmp_path, desk)).ok
    assert told in desk.last_said("plan_report@1~0/check.1")


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("text", "told"), [
    ("There is nothing to cite here.", "section `who-crosses`: it cites nothing"),
    ("## Who crosses\n\nFew did [S2].", "the heading `## Who crosses` is too high"),
    ("Few did [S7].", "[S7] names no source"),
    ('Few did: "nobody was ever left behind" [S2].', "Nobody was ever left behind"),
])
async def test_what_else_goes_back_to_the_author_of_a_section(tmp_path: Path, text: str, told: str) -> None:
    seen: list[str] = []

    def answer(request: ModelRequest) -> Any:
        if "who-crosses" in request.key and not seen:
            seen.append(request.key)
            return block(request.patterns[0], text)
        return written(request)

    desk = model(write_sections=answer)
    assert (await go(tmp_path, desk)).ok
    assert told in desk.last_said("write_sections@1[who-crosses]~0/check.1")


async def test_a_frame_holds_every_section_once(tmp_path: Path) -> None:
    sections = FRAME["sections"]
    desk = model(arrange=[{**FRAME, "sections": [sections[0], sections[0], {"id": "costs", "heading": "x"}]}, FRAME])
    assert (await go(tmp_path, desk)).ok
    told = desk.last_said("arrange@1~0/check.1")
    for fault in ("`costs` is no section", "the section `what-it-costs` is missing", "the section `who-crosses` is duplicated"):
        assert fault in told


async def test_an_author_who_insists_on_a_false_quotation_fails_the_run(tmp_path: Path) -> None:
    desk = model(write_sections=lambda request: written(request).replace("the cost is crew", "the cost is fuel"))
    result = await go(tmp_path, desk)
    assert (result.ok, result.outcome) == (False, "stopped")
    assert "is fuel" in result.reason
    assert not (tmp_path / result.name / "report.md").exists()


@pytest.mark.one_in(4)
async def test_documents_that_can_not_be_read_are_told_before_anything_is_paid_for(tmp_path: Path) -> None:
    documents = tmp_path / "documents"
    shutil.copytree(EXAMPLE / "documents", documents)
    (documents / "scan.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    (documents / "torn.pdf").write_bytes((documents / "reckoning.pdf").read_bytes()[:900])
    (documents / ".notes").write_text("hidden")
    desk = model()
    result = await go(tmp_path / "runs", desk, documents)
    assert result.outcome == "stopped" and desk.requests == []
    assert "2 of 7 documents can't be read. (1) scan.png is no text, Markdown, HTML or PDF" in result.reason
    assert "torn.pdf is broken" in result.reason and "--unreadable leave_out" in result.reason

    result = await go(tmp_path / "runs", desk, documents, unreadable="leave_out")
    assert result.ok, result.reason
    text = (tmp_path / "runs" / result.name / "report.md").read_text()
    assert "Not read:" in text and "- `scan.png` is no text" in text
    assert "<b>torn.pdf</b> is broken" in (tmp_path / "runs" / result.name / "report.html").read_text()


async def test_an_empty_folder_and_a_wrong_choice(tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    result = await go(tmp_path / "runs", model(), tmp_path / "nothing")
    assert "the folder holds no documents: text, Markdown, HTML and PDF are read" in result.reason
    with pytest.raises(UsageError, match="unreadable"):
        await go(tmp_path / "runs", model(), unreadable="skip")


async def test_every_call_is_paid_for_once(tmp_path: Path) -> None:
    result = await go(tmp_path, model())
    assert result.calls == len(events(tmp_path, result.name, Settled)) == 7
