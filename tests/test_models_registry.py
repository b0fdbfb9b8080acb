"""Which model a name means, where its key comes from, what the journal says of it, and that a resume asks the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scripted import events, write

from metaflow_agents import resume, run, start
from metaflow_agents.errors import ModelMissing, UsageError
from metaflow_agents.models.port import ModelRequest, Reply, Traits
from metaflow_agents.models.registry import Sources, resolve
from metaflow_agents.schema.endpoint import EndpointModel
from metaflow_agents.schema.event import Reserved, Resumed, RunOpened
from metaflow_agents.settings import Settings

SECRET = "sk-very-secret-0123456789"
LOCAL = "http://localhost:8000/v1"
SOP = """
    sop: desk
    models:
      default: {name: qwen3, endpoint: "http://localhost:8000/v1", temperature: 0.25, parameters: {seed: 7}}
      strong: "openai:big"
    roles: {ann: {profile: You write.}, bob: {profile: You judge., model: strong}}
    artifacts: {one: {}, two: {}}
    steps:
      first: {role: ann, makes: one}
      second: {role: bob, needs: [one], makes: two}
"""


UNNAMED = SOP[:SOP.index("    models:")] + SOP[SOP.index("    roles:"):].replace(", model: strong", "")


class Adapter:
    """Stands where the adapter stands: keeps what each model was made of, and answers with it."""

    def __init__(self) -> None:
        self.made: list[tuple[EndpointModel, str | None, str | None]] = []

    def __call__(self, spec: EndpointModel, key: str | None, base_url: str | None) -> Any:
        self.made.append((spec, key, base_url))
        own = {} if spec.temperature is None else {"temperature": spec.temperature}
        model = Endpoint()
        model.name, model.traits = f"openai:{spec.name}", Traits(endpoint=base_url, parameters={**own, **spec.parameters})
        return model

    @property
    def asked(self) -> list[tuple[str, str | None, str | None]]:
        return [(spec.name, key, url) for spec, key, url in self.made]


class Endpoint:
    name: str
    traits: Traits

    async def ask(self, request: ModelRequest) -> Reply:
        return Reply(text=f"{self.name} at {self.traits.endpoint}")


@pytest.fixture
def adapter(monkeypatch: pytest.MonkeyPatch) -> Adapter:
    found = Adapter()
    monkeypatch.setattr("metaflow_agents.models.endpoint.endpoint_model", found)
    return found


def settings(**variables: str) -> Settings:
    return Settings.read(variables)


def resolved(name: str | None, **sources: Any) -> Any:
    return resolve([("", name)], Sources(**sources))


# -- names and keys

def test_the_ways_to_name_an_endpoint(adapter: Adapter) -> None:
    env = settings(OPENAI_API_KEY=SECRET)
    assert resolved(None, given={"*": "openai:gpt"}, settings=env).told == {"*": "openai:gpt"}
    assert resolved(None, written={"default": "openai:gpt"}, settings=env).told == {"default": "openai:gpt"}
    assert resolved("openai:gpt", settings=env).told == {"openai:gpt": "openai:gpt"}
    assert resolved(None, settings=settings(OPENAI_API_KEY=SECRET, SOP_MODEL="openai:gpt")).told == {"default": "openai:gpt"}
    assert resolved("strong", configured=lambda: {"strong": "openai:gpt"}, settings=env).told == {"strong": "openai:gpt"}
    assert adapter.asked == [("gpt", SECRET, None)] * 5


def test_a_given_name_means_what_the_sop_or_the_configuration_says(adapter: Adapter) -> None:
    strong = EndpointModel(name="big", endpoint=LOCAL, temperature=0.5)
    found = resolved(None, given={"*": "strong"}, written={"strong": strong})
    assert found.told == {"*": f"openai:big at {LOCAL}"} and found.chosen == {"*": "strong"}        # the SOP's own word stays
    found = resolved(None, given={"*": "strong"}, configured=lambda: {"strong": strong})
    assert found.chosen == {"*": strong}
    found = resolved(None, settings=settings(SOP_MODEL="strong"), configured=lambda: {"strong": strong})
    assert found.chosen == {"default": strong} and found.models.of(None).traits.parameters == {"temperature": 0.5}


def test_the_order_of_who_names_a_model() -> None:
    def default(**sources: Any) -> str:
        everything = {"given": {"default": "python:g.py:f"}, "written": {"default": "python:w.py:f"},
                      "settings": settings(SOP_MODEL="python:e.py:f"), "configured": lambda: {"default": "python:c.py:f"}}
        with pytest.raises(UsageError) as caught:
            resolved(None, **{**everything, **sources})
        return str(caught.value)

    assert "`g.py`" in default()
    assert "`w.py`" in default(given={})
    assert "`e.py`" in default(given={}, written={})
    assert "`c.py`" in default(given={}, written={}, settings=Settings())
    with pytest.raises(ModelMissing, match="no model is configured"):
        resolved(None)


def test_the_configuration_is_asked_only_when_nobody_else_knows() -> None:
    def broken() -> Any:
        raise AssertionError("nobody needed it")

    assert resolved(None, given={"*": "dry"}, configured=broken).models.dry
    assert resolved("strong", written={"strong": "dry"}, configured=broken).told == {"strong": "dry"}
    assert resolved(None, settings=settings(SOP_MODEL="dry"), configured=broken).told == {"default": "dry"}


def test_a_key_comes_from_the_variable_that_is_named(adapter: Adapter) -> None:
    spec = EndpointModel(name="m", endpoint=LOCAL, key="MY_KEY")
    resolved(None, written={"default": spec}, settings=settings(MY_KEY=SECRET, OPENAI_API_KEY="another"))
    assert adapter.asked == [("m", SECRET, LOCAL)]
    with pytest.raises(ModelMissing, match=r"variable MY_KEY, which is not set: `export MY_KEY=…`") as caught:
        resolved(None, written={"default": spec}, settings=settings(OPENAI_API_KEY=SECRET))
    assert caught.value.exit_status == 5 and SECRET not in str(caught.value)


def test_the_key_of_openai_goes_nowhere_that_only_the_sop_names(adapter: Adapter) -> None:
    spec = EndpointModel(name="m", endpoint="https://else.example/v1")
    resolved(None, written={"default": spec}, settings=settings(OPENAI_API_KEY=SECRET))
    resolved(None, written={"default": spec}, settings=settings(OPENAI_API_KEY=SECRET, OPENAI_BASE_URL="https://else.example/v1/"))
    resolved(None, written={"default": "openai:m"}, settings=settings(OPENAI_API_KEY=SECRET, OPENAI_BASE_URL=LOCAL))
    resolved(None, written={"default": "openai:m"}, settings=settings(OPENAI_BASE_URL=LOCAL))
    openai = EndpointModel(name="m", endpoint="https://api.openai.com/v1")
    resolved(None, written={"default": openai}, settings=settings(OPENAI_API_KEY=SECRET, OPENAI_BASE_URL=LOCAL))
    assert [(key, url) for _, key, url in adapter.asked] == [
        (None, "https://else.example/v1"), (SECRET, "https://else.example/v1"), (SECRET, LOCAL), (None, LOCAL),
        (SECRET, "https://api.openai.com/v1")]


@pytest.mark.parametrize(("sources", "error", "told"), [
    ({"given": {"*": "openai:m"}}, ModelMissing, "OPENAI_API_KEY is not set"),
    ({"given": {"*": "gpt-5"}}, UsageError, "`openai:gpt-5` asks an endpoint for it"),
    ({"given": {"*": "ollama/qwen3"}}, UsageError, "`openai:qwen3` asks an endpoint for it"),
    ({"given": {"*": "stron"}, "written": {"strong": "dry"}}, UsageError, "did you mean `strong`"),
    ({"given": {"*": "openai:"}}, UsageError, "write `openai:NAME`"),
    ({"given": {"*": "http://localhost:1/v1"}}, UsageError, "declare it: `models: {NAME: {endpoint:"),
    ({"given": {"*": EndpointModel(name="m", key="sk-0123456789abcdef")}}, UsageError, "keys are never written in a SOP"),
    ({"given": {"*": EndpointModel(name="m", endpoint="ftp://x")}}, UsageError, "is no address of an endpoint"),
    ({"given": {"*": EndpointModel(name="m", endpoint=LOCAL, parameters={"n": 2})}}, UsageError, "`n` is set by the engine"),
    ({"given": {"*": "openai:m"}, "settings": settings(OPENAI_BASE_URL="http://ada:swordfish@x/v1")}, UsageError, "no password"),
    ({"given": {"*": "openai:m"}, "settings": settings(OPENAI_BASE_URL="localhost:1/v1")}, UsageError, "write `http://localhost"),
])
def test_what_cannot_be_had_is_told_with_the_mend(adapter: Adapter, sources: dict[str, Any], error: type[Exception],
                                                  told: str) -> None:
    with pytest.raises(error, match=told) as caught:
        resolved(None, **sources)
    assert "swordfish" not in str(caught.value) and "0123456789abcdef" not in str(caught.value)
    assert adapter.made == []


def test_one_model_is_made_once(adapter: Adapter) -> None:
    spec = EndpointModel(name="m", endpoint=LOCAL, parameters={"seed": 1})
    models = resolve([("", None), ("", "a"), ("", "b")], Sources(
        written={"default": spec, "a": spec.model_copy(), "b": "dry"})).models
    assert models.of(None) is models.of("a") and len(adapter.made) == 1


# -- secrets

def files_with(text: str, folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file() and text.encode() in file.read_bytes()]


async def test_a_key_stands_nowhere(adapter: Adapter, tmp_path: Path) -> None:
    env = settings(OPENAI_API_KEY=SECRET, MY_KEY=f"{SECRET}-2")
    assert SECRET not in repr(env) and env.variable("MY_KEY") == f"{SECRET}-2" and env.variable("OTHER") is None
    path = write(tmp_path, SOP.replace("name: qwen3", "name: qwen3, key: MY_KEY"))
    result = await run(path, workspace=tmp_path, settings=env)
    assert result.ok and [key for _, key, _ in adapter.made] == [f"{SECRET}-2", SECRET]
    assert not files_with(SECRET, tmp_path)


# -- the journal, and a resume

async def test_the_journal_says_who_was_asked_where(adapter: Adapter, tmp_path: Path) -> None:
    result = await run(write(tmp_path, SOP), workspace=tmp_path, settings=settings(OPENAI_API_KEY=SECRET))
    (opened,) = events(tmp_path, result.name, RunOpened)
    assert opened.models == {"default": f"openai:qwen3 at {LOCAL}", "strong": "openai:big"}
    assert opened.chosen == {} and opened.base_url is None
    assert result["two"] == "openai:big at None"


async def test_a_resume_asks_what_the_sop_says_again(adapter: Adapter, tmp_path: Path) -> None:
    path = write(tmp_path, SOP)
    env = settings(OPENAI_API_KEY=SECRET)
    name = (await run(path, workspace=tmp_path, settings=env, until="first")).name
    adapter.made.clear()
    assert (await resume(name, workspace=tmp_path, settings=env)).ok
    ((spec, _, _), _) = adapter.made
    assert (spec.endpoint, spec.temperature, spec.parameters) == (LOCAL, 0.25, {"seed": 7})
    (resumed,) = events(tmp_path, name, Resumed)
    assert resumed.models["default"] == f"openai:qwen3 at {LOCAL}"


async def test_a_changed_model_is_told_as_a_change_of_the_sop(adapter: Adapter, tmp_path: Path) -> None:
    path = write(tmp_path, SOP)
    env = settings(OPENAI_API_KEY=SECRET)
    name = (await run(path, workspace=tmp_path, settings=env, until="first")).name
    write(tmp_path, SOP.replace("temperature: 0.25", "temperature: 0.75"))
    with pytest.raises(UsageError, match=r"models\.default\.temperature changed") as caught:
        await resume(name, workspace=tmp_path, settings=env)
    assert "--accept-changes" in str(caught.value)
    adapter.made.clear()
    assert (await resume(name, workspace=tmp_path, settings=env, accept_changes=True)).ok
    assert adapter.made[0][0].temperature == 0.75


async def test_a_resume_keeps_what_was_given_and_what_the_environment_said(adapter: Adapter, tmp_path: Path) -> None:
    path = write(tmp_path, UNNAMED)
    env = settings(OPENAI_BASE_URL=LOCAL, SOP_MODEL="openai:small")
    name = (await run(path, workspace=tmp_path, settings=env, until="first")).name
    (opened,) = events(tmp_path, name, RunOpened)
    assert opened.models == {"default": f"openai:small at {LOCAL}"}
    assert (opened.chosen, opened.base_url) == ({"default": "openai:small"}, LOCAL)
    result = await resume(name, workspace=tmp_path, settings=Settings())            # neither variable is set any more
    assert result["two"] == f"openai:small at {LOCAL}"
    assert adapter.asked[-1] == ("small", None, LOCAL)


async def test_a_moved_server_is_found_by_the_variable(adapter: Adapter, tmp_path: Path) -> None:
    path = write(tmp_path, SOP.replace(', endpoint: "http://localhost:8000/v1"', "").replace('"openai:big"', "dry"))
    name = (await run(path, workspace=tmp_path, settings=settings(OPENAI_BASE_URL=LOCAL), until="first")).name
    await resume(name, workspace=tmp_path, settings=settings(OPENAI_BASE_URL="http://localhost:9/v1"))
    assert [url for _, _, url in adapter.asked] == [LOCAL, "http://localhost:9/v1"]


async def test_the_users_own_model_is_kept_with_the_run(adapter: Adapter, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(f"models: {{strong: {{name: mine, endpoint: '{LOCAL}', temperature: 0.5}}}}\n")
    env = Settings(configuration=tmp_path / "config.yaml")
    path = write(tmp_path, SOP.replace('      strong: "openai:big"\n', ""))
    name = (await run(path, workspace=tmp_path, settings=env, until="first")).name
    (opened,) = events(tmp_path, name, RunOpened)
    assert opened.chosen == {"strong": EndpointModel(name="mine", endpoint=LOCAL, temperature=0.5)}
    (tmp_path / "config.yaml").write_text("models: {strong: dry}\n")
    assert (await resume(name, workspace=tmp_path, settings=env))["two"] == f"openai:mine at {LOCAL}"


async def test_another_model_is_taken_on_a_resume_where_one_is_given(adapter: Adapter, tmp_path: Path) -> None:
    env = settings(OPENAI_API_KEY=SECRET)
    name = (await run(write(tmp_path, SOP), workspace=tmp_path, settings=env, until="first")).name
    assert (await resume(name, workspace=tmp_path, settings=env, models={"strong": "dry"})).ok
    assert [event.model for event in events(tmp_path, name, Reserved)] == ["openai:qwen3", "dry"]
    (resumed,) = events(tmp_path, name, Resumed)
    assert resumed.chosen == {"strong": "dry"}


# -- reuse

async def test_a_changed_parameter_is_another_model_for_a_run_that_takes_over(adapter: Adapter, tmp_path: Path) -> None:
    env = settings(OPENAI_API_KEY=SECRET)
    path = write(tmp_path, SOP)
    first = await run(path, workspace=tmp_path, settings=env)
    assert (await run(path, workspace=tmp_path, settings=env, from_run=first.name)).calls == 0
    write(tmp_path, SOP.replace("seed: 7", "seed: 8"))
    async with start(path, workspace=tmp_path, settings=env, from_run=first.name) as going:
        assert (await going.result()).calls == 1
