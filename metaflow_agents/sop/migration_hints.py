"""Keys that people bring from GitHub Actions, Ansible, dbt and other agent frameworks, each with what to write here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_GITHUB, _ANSIBLE, _DBT, _OTHERS = "GitHub Actions", "Ansible", "dbt", "another tool"

FOREACH = "write `foreach: {in: LIST, as: NAME}`: one activation an item"
_PARALLEL = "write `foreach: {in: LIST, parallel: N}`"
_ON_FAIL = "write `on_fail: skip`"
_DOER = "name who works with one of `role`, `run`, `call`, `value`"
_INPUTS = "declare it under `inputs`, or give a `call` its `args`"

FOREIGN: dict[str, dict[str, tuple[str, str]]] = {
    "step": {
        "uses": (_GITHUB, _DOER),
        "with": (_GITHUB, "give a `call` its `args`"),
        "env": (_GITHUB, "put the value into the command: `run: tool --level {{ level }}`"),
        "if": (_GITHUB, "write `when: EXPRESSION`"),
        "matrix": (_GITHUB, FOREACH),
        "max-parallel": (_GITHUB, _PARALLEL),
        "runs-on": (_GITHUB, "remove it; where commands run is said with `--sandbox`"),
        "continue-on-error": (_GITHUB, _ON_FAIL),
        "timeout-minutes": (_GITHUB, "write `timeout: 5m`"),
        "name": (_GITHUB, "the step's name is its key"),
        "id": (_GITHUB, "the step's name is its key"),
        "shell": (_GITHUB, "no shell is used; `run: [bash, -c, \"…\"]` says that you want one"),
        "working-directory": (_GITHUB, "commands run at the top of the run's repository"),
        "steps": (_GITHUB, "steps don't nest; write them all under the SOP's `steps`"),
        "container": (_GITHUB, "remove it; where commands run is said with `--sandbox`"),
        "hosts": (_ANSIBLE, _DOER),
        "tasks": (_ANSIBLE, "steps don't nest; write them all under the SOP's `steps`"),
        "register": (_ANSIBLE, "write `makes: ARTIFACT`"),
        "loop": (_ANSIBLE, FOREACH),
        "with_items": (_ANSIBLE, FOREACH),
        "loop_control": (_ANSIBLE, FOREACH),
        "vars": (_ANSIBLE, _INPUTS),
        "become": (_ANSIBLE, "remove it; commands run as you"),
        "ignore_errors": (_ANSIBLE, _ON_FAIL),
        "failed_when": (_ANSIBLE, "a red exit code is data: write `when` on the step that reads it"),
        "changed_when": (_ANSIBLE, "remove it; a version is new when its content is"),
        "notify": (_ANSIBLE, "let the other step read what this one makes, in its `needs`"),
        "delegate_to": (_ANSIBLE, _DOER),
        "command": (_ANSIBLE, "write `run: COMMAND`"),
        "materialized": (_DBT, "write `makes: ARTIFACT`"),
        "ref": (_DBT, "write `needs: [ARTIFACT]`"),
        "config": (_DBT, "write the keys into the step itself"),
        "depends_on": (_DBT, "write `needs: [ARTIFACT]`, naming what the other step makes"),
        "agent": (_OTHERS, "write `role: NAME`"),
        "prompt": (_OTHERS, "write `task:`; a role's own template is its `prompt`"),
        "input": (_OTHERS, "write `needs: [ARTIFACT]`"),
        "inputs": (_OTHERS, "write `needs: [ARTIFACT]`"),
        "output": (_OTHERS, "write `makes: ARTIFACT`"),
        "outputs": (_OTHERS, "write `makes: ARTIFACT`; the SOP's `outputs` stand at its top"),
        "parallel": (_OTHERS, _PARALLEL),
        "max_rounds": (_OTHERS, "write `rounds: N`"),
        "max_retries": (_OTHERS, "write `retries: N`"),
        "description": (_OTHERS, "write a comment, or `task:` where the role should read it"),
    },
    "sop": {
        "jobs": (_GITHUB, "write its steps under `steps`"),
        "on": (_GITHUB, "a SOP is started with `sop run FILE`; what it is given stands under `inputs`"),
        "name": (_GITHUB, "write `sop: NAME`"),
        "env": (_GITHUB, _INPUTS),
        "permissions": (_GITHUB, "remove it"),
        "concurrency": (_GITHUB, "write `foreach: {parallel: N}` in the step"),
        "runs-on": (_GITHUB, "remove it; where commands run is said with `--sandbox`"),
        "matrix": (_GITHUB, "write `foreach: {in: LIST, as: NAME}` in the step"),
        "hosts": (_ANSIBLE, "declare who works under `roles`"),
        "tasks": (_ANSIBLE, "write them under `steps`, each under its name"),
        "vars": (_ANSIBLE, "declare them under `inputs`"),
        "handlers": (_ANSIBLE, "write them under `steps`, reading what triggers them in `needs`"),
        "become": (_ANSIBLE, "remove it; commands run as you"),
        "gather_facts": (_ANSIBLE, "remove it"),
        "sources": (_DBT, "declare them under `inputs`"),
        "seeds": (_DBT, "declare them under `inputs`"),
        "materialized": (_DBT, "declare what is made under `artifacts`"),
        "version": (_DBT, "write `language: 1`, or nothing"),
        "agents": (_OTHERS, "write them under `roles`"),
        "workflow": (_OTHERS, "write it under `steps`"),
    },
    "foreach": {
        "matrix": (_GITHUB, "write `in: LIST`"),
        "max-parallel": (_GITHUB, "write `parallel: N`"),
        "items": (_OTHERS, "write `in: LIST`"),
        "loop_var": (_ANSIBLE, "write `as: NAME`"),
        "when": (_OTHERS, "`where` picks items; `when` stands in the step and speaks of the whole firing"),
        "if": (_OTHERS, "`where` picks items"),
    },
    "artifact": {
        "type": (_OTHERS, "write `schema: TYPE`"),
        "path": (_OTHERS, "write `file: PATH`"),
        "default": (_OTHERS, "write `initial: VALUE`"),
        "template": (_OTHERS, "write `render: TEMPLATE`"),
        "materialized": (_DBT, "remove it; every version is kept in the journal"),
        "columns": (_DBT, "write the fields under `schema`"),
    },
    "role": {
        "name": (_OTHERS, "the role's name is its key, and `role:` in its own file"),
        "system": (_OTHERS, "write `prompt: TEMPLATE`, or `profile` and `goal`"),
        "system_prompt": (_OTHERS, "write `prompt: TEMPLATE`, or `profile` and `goal`"),
        "instructions": (_OTHERS, "write `constraints: [...]`, or `prompt: TEMPLATE`"),
        "backstory": (_OTHERS, "write `profile`"),
        "description": (_OTHERS, "write `profile`"),
        "llm": (_OTHERS, "write `model`"),
    },
    "model": {
        **{key: (_OTHERS, "write `endpoint: URL`, the part before `/chat/completions`")
           for key in ("base_url", "api_base", "baseURL", "base-url", "url", "host", "openai_api_base")},
        **{key: (_OTHERS, "write `key: NAME`, the environment variable that holds the key; a key is never written in a SOP")
           for key in ("api_key", "apiKey", "api-key", "token", "secret", "openai_api_key", "api_key_env")},
        **{key: (_OTHERS, "write `name: NAME`, as the endpoint calls it")
           for key in ("model", "model_name", "deployment", "engine")},
        **{key: (_OTHERS, "remove it; `endpoint` says where it is, and speaks the OpenAI protocol")
           for key in ("provider", "api_type", "type", "litellm_provider")},
        **{key: (_OTHERS, "write `max_tokens: N`") for key in ("max_completion_tokens", "max_output_tokens", "num_predict")},
        **{key: (_OTHERS, f"write `parameters: {{{key}: …}}`")
           for key in ("top_p", "top_k", "min_p", "seed", "stop", "frequency_penalty", "presence_penalty", "reasoning_effort",
                       "logit_bias", "user", "service_tier", "num_ctx")},
        **{key: (_OTHERS, "write `parameters: {…}`") for key in ("params", "options", "extra_body", "model_kwargs", "settings")},
        **{key: (_OTHERS, "write `timeout: 10m`") for key in ("request_timeout", "timeout_seconds")},
        "max_retries": (_OTHERS, "remove it; calls are tried again by themselves, and a step's attempts are its `retries`"),
        "rpm": (_OTHERS, "write `limits: {rpm: N}` at the top"),
        "tpm": (_OTHERS, "write `limits: {tpm: N}` at the top"),
        "cost": (_OTHERS, "write `price: {in: …, out: …}`"),
    },
    "price": {
        **{key: (_OTHERS, "write `in: DOLLARS`, for a million tokens") for key in ("input", "prompt", "input_cost_per_token")},
        **{key: (_OTHERS, "write `out: DOLLARS`, for a million tokens")
           for key in ("output", "completion", "output_cost_per_token")},
        **{key: (_OTHERS, "write `cached: DOLLARS`, for a million tokens") for key in ("cache", "cached_input", "cache_read")},
    },
    "configuration": {
        "default": (_OTHERS, "write `models: {default: …}`"),
        "model": (_OTHERS, "write `models: {default: …}`"),
        "api_key": (_OTHERS, "put it into the environment as OPENAI_API_KEY; a key is never written in a file"),
    },
    "check": {"command": (_OTHERS, "write `run: COMMAND`"), "retries": (_OTHERS, "write `repairs: N`")},
    "case": {"assert": (_OTHERS, "write `expect: EXPRESSION`"), "with": (_OTHERS, "write `inputs`")},
    "input": {"required": (_OTHERS, "an input without `default` is required"),
              "choices": (_OTHERS, "write `type: low | high`"), "options": (_OTHERS, "write `type: low | high`")},
}

_REF = re.compile(r"\s*(?:\{\{-?\s*)?(?:ref|source)\s*\(")


def strategy_matrix(steps: Any) -> Iterator[tuple[tuple[str, str, str], str]]:
    """Steps whose `strategy` is that of a GitHub Actions job: its path, and the key that tells."""
    for name, step in _mappings(steps):
        strategy = step.get("strategy")
        for key in ("matrix", "max-parallel"):
            if isinstance(strategy, dict) and key in strategy:
                yield ("steps", name, "strategy"), key


def dbt_references(steps: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """`ref('x')` where the name of an artifact belongs: its path and text."""
    for name, step in _mappings(steps):
        for key in ("needs", "wants", "sees"):
            written = step.get(key)
            for index, one in enumerate(written if isinstance(written, list) else [written]):
                if isinstance(one, str) and _REF.match(one):
                    place = ("steps", name, key, index) if isinstance(written, list) else ("steps", name, key)
                    yield place, one


def _mappings(written: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(written, dict):
        yield from ((name, value) for name, value in written.items() if isinstance(value, dict))
