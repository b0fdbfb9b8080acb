"""Models: they exist by their form, endpoints are base URLs, keys are names of variables, and tests need no endpoint."""

from __future__ import annotations

from metaflow_agents.errors import UsageError
from metaflow_agents.models import ways
from metaflow_agents.modules import locate_file
from metaflow_agents.schema.endpoint import EndpointModel, faults
from metaflow_agents.schema.step import Step
from metaflow_agents.sop.checks.assignment import worked_out
from metaflow_agents.sop.checks.calls import check_python_model
from metaflow_agents.sop.checks.context import Context, Place
from metaflow_agents.sop.checks.installed import broken

_IN_TESTS = "write `dry`, `python:FILE.py:function` or `replay:FILE.jsonl`: `sop test` is free of charge, and works offline"


def check_models(c: Context) -> None:
    """Every model of the SOP, its roles, its steps and its tests."""
    for name, model in c.sop.models.items():
        _declared(c, name, model)
    for name, role in c.sop.roles.items():
        if role.model is not None:
            _text(c, ("roles", name, "model"), role.model)
        recall = role.memory.recall
        if recall is not None and recall.embeddings is not None:
            _text(c, ("roles", name, "memory", "recall", "embeddings"), recall.embeddings)
    for name, step in c.sop.steps.items():
        _pictured(c, name, step)
        if step.model is not None and not worked_out(c, name, step):
            _text(c, ("steps", name, "model"), step.model)
    for name, case in c.sop.tests.items():
        own: Place = ("tests", name, "model")
        models = {own: case.model} if isinstance(case.model, str) else {(*own, role): text for role, text in case.model.items()}
        for where, model in models.items() if "model" in case.model_fields_set else ():
            _text(c, where, model)
            if _has_endpoint(c, model):
                c.say("model-in-test", where, f"the test `{name}` would ask `{model}`, which may have an endpoint"
                      if isinstance(model, str) and ways.plugin_of(model) else
                      f"the test `{name}` would ask `{model}`, which has an endpoint", _IN_TESTS)


def _declared(c: Context, name: str, model: str | EndpointModel) -> None:
    """A model under `models`."""
    if isinstance(model, str):
        _text(c, ("models", name), model, named=False)
        return
    for fault in faults(model):
        c.say(fault.code, ("models", name, *fault.at), fault.message, fault.mend, key=fault.code == "model-parameter")
    if model.python is not None:
        check_python_model(c, ("models", name, "name"), model.name)


def _pictured(c: Context, name: str, step: Step) -> None:
    """A role whose prompts carry pictures has a model that takes them, as far as the SOP names one."""
    role = step.role or ""
    if role not in c.sop.roles or "image" not in c.sop.roles[role].accepts or worked_out(c, name, step):
        return
    written = step.model or c.sop.roles[role].model or ("default" if "default" in c.sop.models else None)
    model = c.sop.models.get(written, c.models.get(written)) if written is not None else None
    if model is None or (isinstance(model, str) and model in c.sop.models):
        model = c.sop.models.get(model or "", written)
    if isinstance(model, EndpointModel):
        takes, mend = "image" in model.accepts, "add `accepts: [text, image]` to the model if it does, or name another one"
    else:
        takes = model is None or not model.startswith("openai:")
        mend = f"say that it does: `models: {{NAME: {{name: {str(model).removeprefix('openai:')}, accepts: [text, image]}}}}`"
    if not takes:
        c.say("image-model", ("steps", name, "model") if step.model else ("roles", role, "accepts"),
              f"role `{role}` sends pictures in step `{name}`, and nothing says that its model `{written}` takes them", mend)


def _text(c: Context, where: Place, model: str, *, named: bool = True) -> None:
    """A model's text: a name under `models`, or one of the forms."""
    if named and (model in c.sop.models or model in c.models):
        return
    if not ways.is_form(model):
        c.say("unknown-model", where, f"`{model}` is no model", ways.mend(model, (*c.sop.models, *c.models) if named else ()))
    elif (plugin := ways.plugin_of(model)) is not None:
        try:
            plugin.load()
        except UsageError as error:
            broken(c, where, error)
    elif model.startswith("python:"):
        check_python_model(c, where, model)
    elif model.startswith("replay:"):
        recording, comma, other = model.removeprefix("replay:").partition(",")
        _recording(c, where, recording)
        if comma:
            _text(c, where, other)


def _recording(c: Context, where: Place, written: str) -> None:
    """A recording that is a file has to be there; whether there is a run of a name, only its workspace knows."""
    if written.endswith((".jsonl", ".db")) and locate_file(written, c.loaded.folders.python) is None:
        c.say("recording-not-found", where, f"there is no recording `{written}`", "write its path from the SOP's folder; "
              "`sop export RUN --recording FILE` makes one")


def _has_endpoint(c: Context, model: str | EndpointModel) -> bool:
    if isinstance(model, EndpointModel):
        return model.python is None
    found = c.sop.models.get(model, c.models.get(model))
    if found is not None:
        return _has_endpoint(c, found) if found != model else False
    other = model.removeprefix("replay:").partition(",")[2] if model.startswith("replay:") else ""
    return model.startswith("openai:") or ways.plugin_of(model) is not None or bool(other and _has_endpoint(c, other))
