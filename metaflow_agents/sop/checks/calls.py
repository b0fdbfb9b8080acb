"""Python functions that the SOP names: they exist, and what they ask for is what the step has."""

from __future__ import annotations

from collections.abc import Iterable

from metaflow_agents.errors import did_you_mean
from metaflow_agents.modules import Shadowed, locate_file
from metaflow_agents.schema.step import Step
from metaflow_agents.sop import targets
from metaflow_agents.sop.checks.context import Context, Place
from metaflow_agents.sop.graph import reads


def check_calls(c: Context) -> None:
    """Every `call`, of steps and of their checks, and every `python:` schema."""
    for name, step in c.sop.steps.items():
        if step.call is not None:
            signature = _function(c, ("steps", name, "call"), step.call)
            if signature:
                _parameters(c, name, step, signature)
        if step.check and step.check.call is not None:
            signature = _function(c, ("steps", name, "check", "call"), step.check.call)
            if signature:
                _missing(c, ("steps", name, "check", "call"), step.check.call, signature,
                         [*_given(name, step), step.makes.artifact], f"a check of `{name}`")
    for name, artifact in c.sop.artifacts.items():
        for key, written in (("schema", artifact.schema_), ("each", artifact.each)):
            if isinstance(written, dict) and set(written) == {"python"} and "$python" in c.program.schemas.get(name, {}):
                _function(c, ("artifacts", name, key, "python"), written["python"], what="model")
    for name, given in c.sop.inputs.items():
        if "$python" in c.program.schemas.get(f"input:{name}", {}):
            where: Place = ("inputs", name, "type", "python") if c.has("inputs", name, "type") else ("inputs", name, "python")
            _function(c, where, given.type["python"], what="model")


def check_python_model(c: Context, where: Place, written: str) -> None:
    """`python:MODULE:FUNCTION` or `python:FILE.py:FUNCTION`."""
    target = written.removeprefix("python:")
    file, _, function = target.rpartition(":")
    if file.endswith(".py"):
        found = locate_file(file, c.loaded.folders.python)
        if found is None:
            c.say("call-module", where, f"there is no file `{file}`", "write its path from the SOP's folder")
        else:
            _named(c, where, written, function, lambda: targets.read_file(found), file)
    else:
        _function(c, where, target, what="function", prefix="python:")


def check_function(c: Context, where: Place, written: str) -> targets.Signature | None:
    """A function that a tool calls; its parameters, where its file tells them."""
    return _function(c, where, written)


def _function(c: Context, where: Place, written: str, *, what: str = "function", prefix: str = "") -> targets.Signature | None:
    if not targets.FORM.fullmatch(written):
        c.say("call-form", where, f"`{prefix}{written}` names no {what}", f"write `{prefix}package.module:{what}`")
        return None
    module, _, function = written.partition(":")
    folders = c.loaded.folders.python
    return _named(c, where, prefix + written, function, lambda: targets.read_module(module, folders), module, what)


def _named(c: Context, where: Place, written: str, function: str, read: targets.Reader, module: str,
           what: str = "function") -> targets.Signature | None:
    """The signature of a function, where its file tells; faults are told."""
    try:
        found = read()
    except targets.NoModule:
        mend = "mend the name, or put the module beside the SOP"
        if module.endswith(".py"):
            mend = f"a module's name has no `.py`: write `{module.removesuffix('.py').replace('/', '.')}:{function}`"
        c.say("call-module", where, f"there is no module `{module}` beside the SOP, in its project or installed", mend)
        return None
    except Shadowed as error:
        c.say("call-shadowed", where, str(error).partition(";")[0], "rename the one beside the SOP")
        return None
    except targets.BrokenModule as error:
        c.say("call-broken", where, f"the module `{module}` is no valid Python: {error}", "mend that file")
        return None
    if function not in found.functions:
        if found.whole:
            c.say("call-function", where, f"`{module}` has no {what} `{function}`",
                  did_you_mean(function, [name for name in found.functions if not name.startswith("_")]),
                  inside=(1, len(written) - len(function) + 1))
        return None
    return found.functions[function]


def _given(name: str, step: Step) -> list[str]:
    item = ["item", step.foreach.as_, "key", "prior"] if step.foreach else []
    return list(dict.fromkeys([*reads(step), *item, "round", "run"]))


def _parameters(c: Context, name: str, step: Step, signature: targets.Signature) -> None:
    where: Place = ("steps", name, "call")
    known = (*signature.required, *signature.optional)
    for argument in step.args or {}:
        if argument not in known and not signature.takes_any:
            c.say("call-argument", ("steps", name, "args", argument), f"`{step.call}` has no parameter `{argument}`",
                  did_you_mean(argument, known) if known else "it takes none", key=True)
    _missing(c, where, step.call or "", signature, [*_given(name, step), *(step.args or {})], f"`{name}`")


def _missing(c: Context, where: Place, call: str, signature: targets.Signature, given: Iterable[str], who: str) -> None:
    known = {*given, *(c.mended.get(one, one) for one in given)}
    for parameter in signature.required:
        if parameter not in known:
            listed = ", ".join(f"`{one}`" for one in given)
            if parameter in c.known:
                mend = f"add `{parameter}` to `sees` (or `needs`)"
            elif who.startswith("a check"):
                mend = f"it can take {listed}; or give the parameter a default"
            else:
                mend = f"read an artifact of that name, give it in `args`, or give the parameter a default; there is: {listed}"
            c.say("call-parameter", where, f"`{call}` wants `{parameter}`, which is nothing that {who} is given", mend)
    for parameter in signature.positional_only:
        c.say("call-parameter", where, f"`{call}` takes `{parameter}` by position only, and functions are called by name",
              f"remove the `/` behind `{parameter}` in its definition")
