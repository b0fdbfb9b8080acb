"""The tests of a SOP: what they give exists and fits, and what they expect can come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from metaflow_agents.errors import did_you_mean
from metaflow_agents.schema import paths
from metaflow_agents.schema.address import Address, parse_address
from metaflow_agents.schema.case import Case
from metaflow_agents.schema.sop import PATHS, SOP
from metaflow_agents.sop.checks.context import Context, Place
from metaflow_agents.sop.checks.values import called, fits, given_fits, input_schema

_NAMES = "write `ARTIFACT`, `STEP`, or with a round `NAME@2`; of a collection give `{KEY: VALUE}`, of files `{PATH: TEXT}`"


def check_tests(c: Context) -> None:
    """Every case: inputs, what is given, and the steps, rounds and items that it names."""
    for name, case in c.sop.tests.items():
        where: Place = ("tests", name)
        _inputs(c, name, case)
        for written, value in case.given.items():
            _given(c, (*where, "given", written), written, value)
        if case.until is not None and case.until not in c.sop.steps:
            c.say("unknown-step", (*where, "until"), f"`{case.until}` is no step of this SOP",
                  did_you_mean(case.until, c.sop.steps))
        for written in case.prompts:
            _address(c, (*where, "prompts", written), written, asks=True)
        for place, written in enumerate(case.order):
            _address(c, (*where, "order", place), written, asks=False)
        known = [*(role for program in c.program.all() for role in program.sop.roles), "default"]
        for role in () if isinstance(case.model, str) else case.model:
            if role not in known:
                c.say("unknown-role", (*where, "model", role), f"the test `{name}` gives a model to `{role}`, which is no role",
                      did_you_mean(role, known), key=True)


def _inputs(c: Context, name: str, case: Case) -> None:
    where: Place = ("tests", name)
    for key, value in case.inputs.items():
        if key not in c.sop.inputs:
            c.say("unknown-input", (*where, "inputs", key), f"the SOP has no input `{key}`", did_you_mean(key, c.sop.inputs),
                  key=True)
        elif c.sop.inputs[key].type in PATHS and not isinstance(value, str):
            _written_out(c, (*where, "inputs", key), key, value)
        else:
            fits(c, "test-value", (*where, "inputs", key), f"the input `{key}`", input_schema(c, key), value)
            if c.sop.inputs[key].type in PATHS:
                _is_there(c, (*where, "inputs", key), key, value)
    missing = [key for key, given in c.sop.inputs.items() if given.required and key not in case.inputs]
    if missing and not set(case.inputs) - set(c.sop.inputs):
        c.say("test-input", where, f"the test `{name}` does not give the input `{missing[0]}`, which has no default",
              f"add `inputs: {{{', '.join(f'{key}: …' for key in missing)}}}`", key=True)


def _is_there(c: Context, where: Place, name: str, written: str) -> None:
    """A path of a test is read from the SOP's folder. A warning: a run needs no test, and the SOP may have been copied alone."""
    kind, place = c.sop.inputs[name].type, c.loaded.folder / written
    try:
        there = place.is_dir() if kind == "folder" else place.exists() and not place.is_dir()
    except OSError:                 # a name too long for the system, or a folder that may not be entered
        there = False
    if not there:
        c.say("test-path", where, f"the {kind} `{name}`: there is no {kind} `{written}` in the SOP's folder",
              "name one that is there, or write it out: `{PATH: TEXT}`")


def _written_out(c: Context, where: Place, name: str, value: Any) -> None:
    """A file or a folder whose text stands in the test."""
    kind = c.sop.inputs[name].type
    mend = "write a path, or `{PATH: TEXT}`"
    if not isinstance(value, Mapping) or not all(isinstance(text, str) for text in value.values()):
        c.say("test-value", where, f"the {kind} `{name}` has to be a path, or a mapping of path to text, and is {called(value)}",
              mend)
        return
    if kind == "file" and len(value) != 1:
        c.say("test-value", where, f"the file `{name}` is one path with its text, and {len(value)} are written", mend)
    for path in value:
        why = paths.refusal(path)
        if why:
            c.say("test-value", (*where, path), f"`{path}` can't be a path: {why}", mend, key=True)
    clash = paths.clash(value)
    if clash:
        c.say("test-value", where, f"`{clash[0]}` can't be a file and the folder of `{clash[1]}`", "rename one")


def _given(c: Context, where: Place, written: str, value: Any) -> None:
    try:
        name, round_, item = parse_address(written)[-1]
    except ValueError:
        c.say("test-address", where, f"`{written}` names nothing that could be given", _NAMES, key=True)
        return
    if "/" in written or item is not None:
        c.say("test-address", where, f"`{written}`: values are given for a whole artifact or step of this SOP", _NAMES, key=True)
    elif name not in c.sop.artifacts and name not in c.sop.steps:
        what = "is an input: give it under `inputs`" if name in c.sop.inputs else "is no artifact and no step"
        c.say("unknown-given", where, f"`{name}` {what}", did_you_mean(name, [*c.sop.artifacts, *c.sop.steps]), key=True)
    else:
        makers = [step for step, one in c.sop.steps.items() if name in (step, one.makes.artifact)]
        if not makers:
            c.say("unknown-given", where, f"`{name}` is made by no step's work, but where a step fails (`on_fail`)",
                  "give what a step makes; a step that fails can't be given", key=True)
            return
        if makers and round_ is not None:
            _round(c, where, written, round_, makers)
        artifact = c.sop.steps[name].makes.artifact if name in c.sop.steps else name
        if artifact in c.sop.artifacts:
            given_fits(c, where, artifact, value)


def _round(c: Context, where: Place, written: str, round_: int, steps: list[str]) -> bool:
    """Whether one of these steps may have such a round."""
    caps = [c.sop.steps[step].rounds for step in steps]
    most = None if None in caps else max(cap for cap in caps if cap is not None)
    if most is not None and round_ > most:
        c.say("test-address", where, f"`{written}`: `{steps[0]}` fires at most {most} times",
              "name an earlier round, or raise `rounds`", key=where[-2] != "order")
        return False
    return True


def _address(c: Context, where: Place, written: str, *, asks: bool) -> None:
    """A firing or an activation that a test names. `asks`: a prompt of it is meant."""
    key = where[-2] != "order"
    try:
        address = parse_address(written)
    except ValueError as error:
        what, _, mend = str(error).partition(": ")
        c.say("test-address", where, what, mend, key=key)
        return
    program = c.program
    for place, one in enumerate(address):
        sop = program.sop
        if one.step not in sop.steps:
            what = f"`{one.step}` is no step of {'this SOP' if not place else sop.sop}"
            c.say("unknown-step", where, what, did_you_mean(one.step, sop.steps), key=key)
            return
        if not place and one.round is not None and not _round(c, where, written, one.round, [one.step]):
            return
        if (fault := _fault(sop, one, last=place == len(address) - 1, asks=asks)) is not None:
            c.say("test-address", where, f"`{written}`: {fault[0]}", fault[1], key=key)
            return
        if place < len(address) - 1:
            inner = sop.steps[one.step].sop
            if inner not in program.sops:
                return                      # that there is no such SOP is told already
            program = program.sops[inner]


def _fault(sop: SOP, one: Address, *, last: bool, asks: bool) -> tuple[str, str] | None:
    """What is wrong with one step of an address, and the mend."""
    step = sop.steps[one.step]
    if one.item is not None and step.foreach is None:
        return f"`{one.step}` has no items", "leave out `[…]`: the step has no `foreach`"
    if one.item is not None and last and not asks:
        return "a firing has all its items", "leave out `[…]`: items are not ordered among themselves"
    if not last and step.sop is None:
        return f"`{one.step}` is no SOP: there is no step in it", "leave out what stands behind the `/`"
    if last and asks and step.role is None:
        more = f"; name a step in it, `{one.step}/STEP`" if step.sop is not None else ""
        return f"`{one.step}` sends no prompt: it has no `role`", f"name a step with a `role`{more}"
    return None
