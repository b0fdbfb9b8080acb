"""Names that the SOP gives and uses: artifacts, inputs, steps, roles, outputs; who makes and who reads what."""

from __future__ import annotations

from metaflow_agents.errors import did_you_mean, nearest
from metaflow_agents.schema.step import READS, Step
from metaflow_agents.schema.strategies.workers import partners, tools_in
from metaflow_agents.sop.checks.context import Context, Place
from metaflow_agents.sop.graph import artifact_of, reads


def check_names(c: Context) -> None:
    """All that the names alone tell. First of all groups: it fills `c.mended` and `c.muted` for the others."""
    _clashes(c)
    for name, step in c.sop.steps.items():
        _makes(c, name, step)
    for name, step in c.sop.steps.items():
        _reads(c, name, step)
    _outputs(c)
    _watches(c)


def check_use(c: Context) -> None:
    """What nobody makes, reads or uses. Last of all groups: it needs to know what the others muted."""
    _unmade(c)
    _unread(c)
    _unused_roles(c)
    _unread_results(c)


def _clashes(c: Context) -> None:
    sop = c.sop
    for name in sop.artifacts:
        if name in sop.inputs:
            c.say("input-and-artifact", ("artifacts", name), f"`{name}` is an input and an artifact",
                  "give one of them another name",
                  key=True)
            c.muted.add(name)
    for kind, names in (("step", sop.steps), ("role", sop.roles)):
        for name in names:
            for other, things in (("artifact", sop.artifacts), ("input", sop.inputs)):
                if name in things:
                    verb = f"{name}_it" if kind == "step" else f"{name}_role"
                    c.say("name-twice", (f"{kind}s", name), f"`{name}` is a {kind} and an {other}; one name means one thing",
                          f"give the {kind} another name, such as `{verb}`", key=True)


def _makes(c: Context, name: str, step: Step) -> None:
    _made(c, name, step.makes.artifact, ("steps", name, "makes"), "makes")
    if step.on_fail.artifact is not None:
        _made(c, name, step.on_fail.artifact, ("steps", name, "on_fail", "makes"), "makes on failure")
        if step.on_fail.artifact == step.makes.artifact:
            c.say("on-fail-same", ("steps", name, "on_fail", "makes"),
                  f"`{name}` makes `{step.makes.artifact}` on success and on failure",
                  "declare another artifact for the failure, such as `failed: {}`")


def _made(c: Context, step: str, artifact: str, where: Place, verb: str) -> None:
    sop = c.sop
    if artifact in sop.artifacts:
        return
    at_key = c.has(*where, artifact)
    where = (*where, artifact) if at_key else where
    if artifact in sop.inputs:
        c.say("makes-input", where, f"`{step}` {verb} `{artifact}`, which is an input; inputs are given, never made",
              "declare an artifact of another name and make that", key=at_key)
    elif artifact in sop.steps:
        c.say("step-for-artifact", where, f"`{step}` {verb} `{artifact}`, which is a step; steps make artifacts",
              f"name an artifact; {did_you_mean(artifact, sop.artifacts)}", key=at_key)
    else:
        free = [other for other in sop.artifacts if other not in c.made]
        close = nearest(artifact, free) or nearest(artifact, sop.artifacts)
        mend = f"did you mean `{close}`? Else declare it" if close else "declare it"
        c.say("undeclared-artifact", where, f"`{step}` {verb} `{artifact}`, which is not declared",
              f"{mend} under `artifacts`: `{artifact}: {{}}` for text, or with a `schema`", key=at_key)
        if close:
            c.mended.setdefault(artifact, close)
    c.muted.add(c.mended.get(artifact, artifact))


def _reads(c: Context, name: str, step: Step) -> None:
    seen: dict[str, tuple[str, bool]] = {}
    for kind in READS:
        for index, entry in enumerate(getattr(step, kind)):
            where = c.entry("steps", name, kind, index)
            artifact = artifact_of(entry)
            if artifact not in c.known:
                _unknown(c, name, artifact, where)
            elif artifact in seen and (seen[artifact][1] or seen[artifact][0] == kind) and entry in (artifact, seen[artifact][0]):
                c.say("read-twice", where, f"`{name}` lists `{entry}` under `{kind}` and under `{seen[artifact][0]}`",
                      "keep the one that says how it is read")
            else:
                seen.setdefault(artifact, (kind, entry == artifact))
                _part(c, entry, where)


def _unknown(c: Context, step: str, artifact: str, where: Place) -> None:
    sop = c.sop
    if artifact in sop.steps:
        made = sop.steps[artifact].makes.artifact
        c.say("step-for-artifact", where, f"`{artifact}` is a step; a step reads artifacts, and its order follows from them",
              f"write the artifact that `{artifact}` makes: `{made}`")
        c.mended.setdefault(artifact, made)
        return
    close = nearest(artifact, c.known)
    c.say("unknown-artifact", where, f"`{step}` reads `{artifact}`, which is no artifact and no input",
          did_you_mean(artifact, c.known))
    if close:
        c.mended.setdefault(artifact, close)


def _part(c: Context, entry: str, where: Place) -> None:
    """`design.package`: the part has to exist in the schema."""
    artifact, _, rest = entry.partition(".")
    shape, walked = c.shape(artifact), artifact
    for part in rest.split(".") if rest else ():
        if shape.kind in ("any", "union"):
            return
        found = shape.field(part) if shape.kind == "object" else None
        if found is None:
            fields = list(shape.fields()) if shape.kind == "object" else []
            c.say("unknown-part", where, f"`{walked}` has no field `{part}`",
                  did_you_mean(part, fields) if fields else f"`{walked}` is {shape.describe()}: name it alone, as `{walked}`",
                  inside=(1, len(walked) + 2))
            return
        shape, walked = found, f"{walked}.{part}"


def _outputs(c: Context) -> None:
    for index, name in enumerate(c.sop.outputs or ()):
        if name in c.sop.artifacts:
            continue
        where = ("outputs", index)
        if name in c.sop.steps:
            c.say("step-for-artifact", where, f"`{name}` is a step; the outputs of a SOP are artifacts",
                  f"write the artifact that `{name}` makes: `{c.sop.steps[name].makes.artifact}`")
            c.muted.add(c.sop.steps[name].makes.artifact)
        elif name in c.sop.inputs:
            c.say("unknown-output", where, f"`{name}` is an input; the outputs of a SOP are artifacts that its steps make",
                  did_you_mean(name, c.sop.artifacts))
        else:
            c.say("unknown-output", where, f"the output `{name}` is no artifact", did_you_mean(name, c.sop.artifacts))
        c.muted.add(nearest(name, c.sop.artifacts) or name)


def _watches(c: Context) -> None:
    for name, role in c.sop.roles.items():
        for index, artifact in enumerate(role.watches):
            if artifact not in c.known:
                c.say("unknown-artifact", c.entry("roles", name, "watches", index),
                      f"the role `{name}` watches `{artifact}`, which is no artifact and no input",
                      did_you_mean(artifact, c.known))
                c.muted.add(nearest(artifact, c.known) or artifact)


def _unmade(c: Context) -> None:
    """An artifact without a maker and without `initial`: told where it is read first, else where it stands."""
    for name, artifact in c.sop.artifacts.items():
        if name in c.made or artifact.has_initial or name in c.muted or (c.sop.progress and name == c.sop.progress.makes):
            continue
        place = next(((step, kind, index) for step, written in c.sop.steps.items() for kind in READS
                      for index, entry in enumerate(getattr(written, kind)) if artifact_of(entry) == name), None)
        mend = f"let a step make it (`makes: {name}`), give it `initial:`, or declare it under `inputs`"
        if place:
            step, kind, index = place
            c.say("nobody-makes", c.entry("steps", step, kind, index),
                  f"`{step}` {'needs' if kind == 'needs' else 'reads'} `{name}`, which no step makes", mend)
        elif name in (c.sop.outputs or ()):
            c.say("nobody-makes", ("outputs", list(c.sop.outputs or ()).index(name)),
                  f"the output `{name}` is made by no step", f"let a step make it (`makes: {name}`), or remove it")
        else:
            c.say("nobody-makes", ("artifacts", name), f"no step makes `{name}`", f"{mend}; or remove it", key=True)


def _unread(c: Context) -> None:
    read = {artifact for step in c.sop.steps.values() for artifact in reads(step)}
    read |= {c.mended[name] for name in read if name in c.mended} | c.named
    read |= {artifact for role in c.sop.roles.values() for artifact in role.watches}
    for name in c.sop.inputs:
        if name not in read and name not in c.muted and not _through_run(c, name):
            c.say("unused-input", ("inputs", name), f"no step reads the input `{name}`",
                  f"{_for_documents(c) if c.sop.inputs[name].type == 'folder' else ''}"
                  "name it in a step's `needs` or `sees`, or remove it", key=True)
    if c.sop.outputs is None:
        return                                          # what nobody reads is the output then
    for name in c.sop.artifacts:
        if name not in read and name not in c.sop.outputs and name not in c.muted and name in c.made:
            c.say("nobody-reads", ("artifacts", name), f"nobody reads `{name}`, and it is no output",
                  f"{_for_documents(c) if c.sop.artifacts[name].files else ''}"
                  "add it to `outputs`, let a step read it, or remove it with the step that makes it", key=True)


def _for_documents(c: Context) -> str:
    """The mend for files that may be pictures of a document."""
    makers = [(name, spec.documents) for name, step in c.sop.steps.items()
              if (spec := c.sop.artifacts.get(step.makes.artifact)) is not None and spec.documents]
    return "".join(f"where {', '.join(documents)} shows its pictures, add it to the `sees` of `{name}`; or "
                   for name, documents in makers[:1])


def _through_run(c: Context, name: str) -> bool:
    """Whether an input is named as `run.inputs.NAME`, or all of them as `run.inputs`."""
    return any(path[:2] == ("run", "inputs") and path[2:3] in ((), (name,)) for path in c.named_paths)


def _unused_roles(c: Context) -> None:
    used = {step.role for step in c.sop.steps.values() if step.role}
    used |= {c.sop.progress.role} if c.sop.progress is not None else set()
    if c.role_expressions or c.lost_strategies:
        used |= c.sop.roles.keys()                      # an expression may name each of them, or what could not be read
    used |= {role for step in c.sop.steps.values() for role in partners(step, c.strategies)}
    if any("start_role" in tools_in(c.sop, step, c.strategies) for step in c.sop.steps.values()):
        used |= c.sop.roles.keys()                      # and so may a role that hands work on
    used |= {nearest(name, c.sop.roles) or name for name in used}
    for name in c.sop.roles:
        if name not in used and name not in c.lost_roles:
            c.say("unused-role", ("roles", name), f"no step is done by the role `{name}`", "give it a step, or remove it",
                  key=True)


def _unread_results(c: Context) -> None:
    """A red exit code is data: where nothing looks at it, a failed command goes unnoticed."""
    for name, step in c.sop.steps.items():
        artifact = step.makes.artifact
        if step.run is None or (step.parse or "").startswith("json") or artifact in c.muted:
            continue
        if not _looked_at(c, artifact):
            c.say("result-unread", ("steps", name, "run"),
                  f"nothing reads `{artifact}.ok`: if this command fails, the run goes on as if it had not",
                  f"say it in `success` or in a `when`, such as `{artifact}.ok`")


def _looked_at(c: Context, artifact: str) -> bool:
    """Whether an expression or template names the result, or a role or function is given the whole of it."""
    if any(path[0] == artifact and (len(path) == 1 or path[1] not in ("stdout", "stderr")) for path in c.named_paths):
        return True
    return any(artifact in reads(step) and c.doers.get(name) in ("role", "call", "use") for name, step in c.sop.steps.items())
