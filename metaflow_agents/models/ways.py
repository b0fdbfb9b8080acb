"""How models are written, and the ways to get one, for whoever has none."""

from __future__ import annotations

import re
from collections.abc import Iterable

from metaflow_agents.errors import nearest
from metaflow_agents.plugins import Plugin, installed
from metaflow_agents.settings import Settings

FORMS = ("openai:NAME", "python:FILE.py:function", "replay:RECORDING", "manual", "dry")
_FORM = re.compile(r"dry|manual(:.+)?|(openai|python):.+|replay:[^,]+(,.+)?", re.DOTALL)
_OWN = tuple(form.partition(":")[0] for form in FORMS)
_BARE = re.compile(r"[A-Za-z0-9][\w.-]*+[/:]?[\w.:-]*")


def is_form(text: str) -> bool:
    """Whether a text is a model by its form, and no name of one: by a form of this package, or of an installed one."""
    return _FORM.fullmatch(text) is not None or plugin_of(text) is not None


def plugin_of(text: str) -> Plugin | None:
    """The plugin whose models a text of the form `FORM:NAME` means; None for forms of this package, and for what is none."""
    form, _, name = text.partition(":")
    return installed("models").get(form) if name and form not in _OWN else None


def mend(text: str, names: Iterable[str]) -> str:
    """What somebody meant who wrote this for a model; `names` are those that exist."""
    known = list(dict.fromkeys(names))
    close = nearest(text, [*known, "dry", "manual"])
    if close is not None:
        return f"did you mean `{close}`? {_listed(known)}"
    kind = text.partition(":")[0]
    if kind not in _OWN and kind in installed("models"):
        return f"write `{kind}:NAME`"
    if kind in ("openai", "python", "replay", "manual"):
        form = {"openai": "openai:NAME", "python": "python:FILE.py:function", "replay": "replay:RECORDING",
                "manual": "manual:FOLDER"}[kind]
        return f"write `{form}`"
    if re.match(r"https?://", text):
        return f"declare it: `models: {{NAME: {{endpoint: \"{text}\", name: …}}}}`"
    asked = re.sub(r"^(openai|ollama|ollama_chat|vllm|hosted_vllm|litellm)[/:]", "", text)
    endpoint = f"`openai:{asked}` asks an endpoint for it; " if _BARE.fullmatch(text) else ""
    return f"{endpoint}{_listed(known)}"


def _listed(names: Iterable[str]) -> str:
    return f"there is: {', '.join([*names, *FORMS, *(f'{form}:NAME' for form in installed('models') if form not in _OWN)])}"


def none_configured(settings: Settings, *, demo: bool) -> str:
    """What a person is told who has no model, one way a line. `demo`: the SOP has a recording."""
    key, url = settings.openai_api_key is not None, settings.openai_base_url
    rows = [("a key", "export OPENAI_API_KEY=…", "--model openai:NAME"),
            ("a local server", "export OPENAI_BASE_URL=http://localhost:11434/v1", "--model openai:NAME"),
            ("yourself", "", "--model manual"), ("a function", "", "--model python:FILE.py:function")]
    if demo:
        rows.append(("a recording", "", "--demo"))
    rows.append(("nobody", "", "--model dry"))
    if key or url:
        has = " and ".join(name for name, there in (("OPENAI_API_KEY", key), ("OPENAI_BASE_URL", url)) if there)
        first = f"{has} {'are' if key and url else 'is'} set, but no model is named: add `--model openai:NAME`"
        rows = rows[2:]
        others = "other ways:"
    else:
        first, others = "no model is configured", "ways to get one:"
    notes = {"a local server": "(Ollama; vLLM and others likewise)", "yourself": "(prompts are shown, you answer)",
             "a recording": "(answers as they were recorded)", "nobody": "(walks the SOP free of charge)"}
    lines = [f"  {who + ':':<16}{', then ' .join(part for part in (before, option) if part)}"
             f"{'  ' + notes[who] if who in notes else ''}" for who, before, option in rows]
    return "\n".join([f"{first}; {others}", *lines, "SOP_MODEL=openai:NAME, or `models: {default: …}` in the SOP or in your "
                      "configuration (`sop doctor` tells where that is), names one for good"])
