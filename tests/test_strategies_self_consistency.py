"""Self-consistency: exact votes, ties, a judge; on GPT-4's logged samples against a count that is made apart from it."""

from __future__ import annotations

import os
from collections import Counter
from fractions import Fraction
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, noted, write

from benchmarks.papers.self_consistency import RIGHT, SAMPLES, WRONG, accuracy, counted, pluralities, probability, within
from metaflow_agents import check, run

DATA = os.environ.get("SOP_TEST_DATA")
VOTE = """
    sop: vote
    inputs: {puzzle: string}
    roles: {solver: {profile: You solve.}, judge: {profile: You judge.}}
    artifacts: {solved: {schema: {answer: string, 'how?': string}}}
    steps:
      solve: {role: solver, needs: [puzzle], makes: solved, strategy: {self_consistency: {PARAMETERS}}}
"""


def samples(*answers: Any) -> Scripted:
    """A model that gives the answers in the order of the samples' keys, whoever comes first."""
    def said(request: Any) -> Any:
        if "/judge/" in request.key:
            return {"best": 2, "why": "it is shorter"}
        return answers[int(request.key.partition("vote.s")[2].partition("/")[0])]
    return Scripted(solve=said)


async def solved(folder: Path, model: Scripted, parameters: str) -> Any:
    path = write(folder, VOTE.replace("PARAMETERS", parameters))
    return (await run(path, puzzle="4 5 6 10", model=model, workspace=None, sandbox="none"))["solved"]


async def test_what_most_samples_say_is_taken_and_each_has_its_key(tmp_path: Path) -> None:
    model = samples({"answer": "a"}, {"answer": "b"}, {"answer": "b"})
    assert await solved(tmp_path, model, "samples: 3") == {"answer": "b"}
    assert sorted(model.keys) == [f"solve@1~0/vote.s{number}/turn.0" for number in range(3)]


async def test_votes_are_on_what_is_compared(tmp_path: Path) -> None:
    said = [{"answer": "a", "how": "1"}, {"answer": "b", "how": "2"}, {"answer": "b", "how": "3"}]
    assert await solved(tmp_path, samples(*said), "samples: 3") == said[0], "three different answers: the first"
    assert await solved(tmp_path, samples(*said), "samples: 3, compare: answer.answer") == said[1]


async def test_a_judge_chooses_where_votes_are_tied_and_is_not_asked_otherwise(tmp_path: Path) -> None:
    tied = samples({"answer": "a"}, {"answer": "b"}, {"answer": "b"}, {"answer": "a"})
    assert await solved(tmp_path, tied, "samples: 4, judge: judge") == {"answer": "b"}
    assert tied.keys[-1] == "solve@1~0/judge/choice" and '<answer number="2">' in tied.last_said("solve@1~0/judge/choice")
    clear = samples({"answer": "a"}, {"answer": "a"}, {"answer": "b"})
    assert await solved(tmp_path, clear, "samples: 3, judge: judge") == {"answer": "a"}
    assert not any("judge" in key for key in clear.keys)


async def test_a_sample_that_fails_is_a_failed_attempt_and_not_the_end_of_the_run(tmp_path: Path) -> None:
    """Samples are asked for at once; what one of them raises is what the step's `retries` and `on_fail` are about."""
    def said(request: Any) -> Any:
        if "~0/vote.s1" in request.key:
            raise ValueError("the line was cut")
        return {"answer": "b"}
    path = write(tmp_path, VOTE.replace("{PARAMETERS}}}", "{samples: 3}}, retries: 1}"))
    assert (await run(path, puzzle="x", model=Scripted(solve=said), workspace=None, sandbox="none"))["solved"] == {"answer": "b"}


async def test_what_is_not_in_form_has_no_vote_and_ties_are_told(tmp_path: Path) -> None:
    path = write(tmp_path, VOTE.replace("PARAMETERS", "samples: 4"))
    model = samples("no json", {"answer": "b"}, "no json", {"answer": "a"})
    result = await run(path, puzzle="x", model=model, workspace=tmp_path, name="tied")
    assert result["solved"] == {"answer": "b"}
    assert noted(tmp_path, "tied", "/vote") == [{"answers": 4, "in_form": 2, "most": 1, "tied": 2}]


def test_parameters_are_checked_and_bound_the_calls(tmp_path: Path) -> None:
    report = check(write(tmp_path, VOTE.replace("PARAMETERS", "samples: 7, judge: judge")))
    assert report.ok and report.bounds is not None and report.bounds.calls == 7 + 3 + 2
    for wrong, told in (("samples: 1", "at least 2"), ("judge: jugde", "did you mean `judge`"),
                        ("compare: answer.anwser", "did you mean `answer`"), ("prompts: {jude: x.j2}", "did you mean `judge`"),
                        ("prompts: {judge: x.j2}", "x.j2")):
        told_ = "\n".join(str(problem) for problem in check(write(tmp_path, VOTE.replace("PARAMETERS", wrong))).problems)
        assert told in told_, (wrong, told_)


@pytest.mark.one_in(12, always=False)
@pytest.mark.skipif(DATA is None, reason="SOP_TEST_DATA does not name a folder with public data")
def test_the_plurality_of_a_hundred_logged_samples_is_exact() -> None:
    """GPT-4's samples of 50 puzzles of the game of 24, against `Counter`, first come first where votes are equal; 5 solved."""
    assert pluralities(Path(DATA or "")) == (50, 5, 50)


@pytest.mark.parametrize("samples", [1, 2, 3, 4, 5])
def test_the_multinomial_probability_is_that_of_all_samples_written_out(samples: int) -> None:
    """Every sequence of answers with its probability, the first of those that lead taken: 0 is the right answer."""
    chances = {0: RIGHT, **{wrong: (1 - RIGHT) / WRONG for wrong in range(1, WRONG + 1)}}
    whole = Fraction(0)
    for said in product(chances, repeat=samples):
        if Counter(said).most_common(1)[0][0] == 0:
            whole += prod((chances[one] for one in said), start=Fraction(1))
    assert probability(samples) == whole


@pytest.mark.slow
@pytest.mark.skipif(DATA is None, reason="SOP_TEST_DATA does not name a folder with public data")
def test_accuracy_by_number_of_samples_is_what_the_multinomial_distribution_says() -> None:
    """GSM8K's gold answers, a seeded error rate; equal to a count apart from the strategy, and within 3 deviations."""
    found = {samples: accuracy(Path(DATA or ""), samples) for samples in SAMPLES}
    assert {samples: solved for samples, (solved, _) in found.items()} == {
        samples: counted(Path(DATA or ""), samples) for samples in SAMPLES}
    assert all(whole == 300 and within(solved, whole, probability(samples)) for samples, (solved, whole) in found.items())
    assert [solved for solved, _ in found.values()] == [113, 146, 202]
    for samples, other in ((5, 11), (11, 5)):
        assert not within(*found[samples], probability(other)), "the tolerance tells one number of samples from another"
