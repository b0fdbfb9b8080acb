"""Without a terminal a line a minute says what is under way."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from metaflow_agents.cli import command
from metaflow_agents.cli.renderers import PlainFace
from metaflow_agents.journal.state import Firing
from metaflow_agents.schema.event import Fired
from metaflow_agents.views import pulse
from metaflow_agents.views.pulse import Pulse, under_way


def test_a_line_a_minute_and_none_while_lines_come(capsys: pytest.CaptureFixture[str]) -> None:
    now, active = [0.0], {"write@1": Firing("write", 1, {}, None)}
    face = PlainFace({}, lambda _: None, Pulse(lambda: active, lambda: now[0], lambda: now[0], lambda: 0.0))

    def lines(at: float) -> list[str]:
        now[0] = at
        face.draw()
        return capsys.readouterr().out.splitlines()

    assert not lines(59)
    assert [line[10:] for line in lines(60)] == ["under way: write@1 for 1 min 00 s"]
    assert not lines(61) and not lines(119)
    assert [line[10:] for line in lines(125)] == ["under way: write@1 for 2 min 05 s"]
    now[0] = 180
    face.hear(Fired(step="write", round=1, read={}, items=None))
    assert capsys.readouterr().out and not lines(239) and lines(240)
    face.pause()
    assert not lines(600)
    face.go_on()
    assert lines(700)
    active.clear()
    assert not lines(900)


def test_what_is_told_of_each() -> None:
    many = {f"s{i}@1": Firing(f"s{i}", 1, {}, None) for i in range(9)}
    assert under_way(many, 1).endswith("s5@1 for 1.0 s; 3 more")
    parked = Firing("judge", 2, {}, ("a", "b", "c"), began=5.0, questions=1)
    assert under_way({"judge@2": parked}, 8.0) == "judge@2 for 3.0 s, 0 of 3 items, waits for a person"
    assert under_way({}, 8.0) == ""


@pytest.mark.one_in(4)
def test_a_command_says_what_is_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                          capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "slow.yaml").write_text("sop: slow\nartifacts: {out: {}}\nsteps:\n  wait: {call: waiting:go, makes: out}\n")
    (tmp_path / "waiting.py").write_text("import time\ndef go():\n    time.sleep(1.5)\n    return 'done'\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pulse, "EVERY", 0.3)
    assert command(["run", "slow.yaml", "--sandbox", "none", "--name", "it"]) == 0
    out = capsys.readouterr().out
    assert next(float(found) for found in re.findall(r"under way: wait@1 for ([\d.]+) s\n", out)) >= 0.2
