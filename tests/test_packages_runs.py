"""Runs whose commands have packages: a step locks them under the policy, and `packages: LOCK` gives them to commands."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from package_index import only, wheel
from sandboxes import by_an_ordinary_user, needs_bubblewrap, no_landlock
from scripted import Scripted, write

from metaflow_agents import resume, start
from metaflow_agents.journal.journal import Journal
from metaflow_agents.models.port import ModelRequest, Reply, ToolCall
from metaflow_agents.packages import environments
from metaflow_agents.sandbox.landlock import missing
from metaflow_agents.schema.event import Asked, Decided, Done, Intended, RunOpened
from metaflow_agents.settings import Settings

BUILT = """
sop: built
inputs: {{wanted: {{type: [string], default: [alpha]}}}}
policy: {policy}
artifacts:
  lock: {{}}
  source: {{file: test_alpha.py}}
  bare: {{}}
  tested: {{}}
  shown: {{schema: string}}
steps:
  resolve: {{tool: packages, inputs: {{requirements: wanted}}, needs: [wanted], makes: lock}}
  write: {{value: "'import alpha\\ndef test_alpha(): assert alpha.VERSION\\n'", makes: source}}
  without: {{run: [python, -c, "import pydantic, alpha"], needs: [source, lock], makes: bare}}
  tests: {{run: python -m pytest -q, packages: lock, parse: junit, needs: [source, lock], makes: tested}}
  show: {{value: "lock.packages | map(attribute='name') | join(', ')", needs: [lock], makes: shown}}
outputs: [lock, bare, tested, shown]
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    wheel(tmp_path / "index", "alpha", requires=["beta"])
    wheel(tmp_path / "index", "beta", files={"beta.py": "def main(): print('beta by', __file__)\n"}, scripts="beta = beta:main")
    return Settings(cache=tmp_path / "cache", pip_environment=only(tmp_path / "index"), state=tmp_path / "state",
                    command_environment={"PATH": "/usr/bin:/bin"})


def built(folder: Path, policy: str = '{allow: ["install(alpha)"]}') -> Path:
    return write(folder, BUILT.format(policy=policy))


async def ran(path: Path, settings: Settings, *, sandbox: str = "none", **options: Any) -> tuple[Any, Journal]:
    async with start(path, workspace=path.parent / "w", sandbox=sandbox, settings=settings, **options) as going:
        return await going.result(), going.journal


def of(journal: Journal, kind: type[Any]) -> list[Any]:
    return [event for _, event in journal.events(kind)]


@pytest.mark.one_in(8, always=False)
@pytest.mark.parametrize("sandbox", ["none", pytest.param("bubblewrap", marks=needs_bubblewrap)])
async def test_commands_that_ask_for_the_lock_have_its_packages_and_others_do_not(
        tmp_path: Path, settings: Settings, sandbox: str) -> None:
    result, journal = await ran(built(tmp_path), settings, sandbox=sandbox)
    assert result.ok, result.reason
    assert result.outputs["tested"]["ok"] and result.outputs["tested"]["passed"] == 1
    assert "No module named 'alpha'" in result.outputs["bare"]["stderr"], "as ever: our own packages, and none of the lock"
    assert result.outputs["shown"] == "alpha, beta"
    assert [(one.verdict, one.action) for one in of(journal, Decided)] == [("allow", "install(alpha)")]
    assert [one.key for one in of(journal, Done)] == ["resolve@1~0/tool.0"]
    assert {one.effect for one in of(journal, Intended)} == {"none"}


@pytest.mark.one_in(16)
@needs_bubblewrap
async def test_the_sandbox_shows_the_packages_read_only_and_nothing_of_ours(tmp_path: Path, settings: Settings) -> None:
    code = ("import importlib.util as u, os, socket, sys\\n"
            "print([u.find_spec(n) is not None for n in ('alpha', 'pytest', 'pydantic', 'metaflow_agents')])\\n"
            "print(os.access(sys.prefix, os.W_OK), sys.executable)\\n"
            "print(os.path.exists('PREFIX'), socket.socket().connect_ex(('192.0.2.1', 9)) != 0)\\n".replace("PREFIX", "/nowhere"))
    text = BUILT.format(policy='{allow: ["install(*)"]}').replace('"import pydantic, alpha"], needs: [source, lock]',
                                                                  f'"{code}"], packages: lock, needs: [source, lock]')
    result, _ = await ran(write(tmp_path, text), settings, sandbox="bubblewrap")
    assert result.outputs["bare"]["stdout"].splitlines() == [
        "[True, True, False, False]", "False ~packages/bin/python", "False True"], result.outputs["bare"]


SEEN = """
sop: seen
policy: {allow: ["install(alpha)"]}
inputs: {wanted: {type: [string], default: [alpha]}}
artifacts: {lock: {}, script: {}, imported: {}, change: {}}
steps:
  resolve: {tool: packages, inputs: {requirements: wanted}, needs: [wanted], makes: lock}
  print: {run: beta, packages: lock, needs: [lock], makes: script}
  try: {run: [python, -c, "import alpha, gamma"], packages: lock, needs: [lock], makes: imported}
  spoil: {run: [sh, -c, "echo bad > $(dirname $(command -v beta))/beta"], packages: lock, needs: [lock], makes: change}
outputs: [script, imported, change]
"""


@pytest.mark.one_in(16)
@pytest.mark.parametrize("sandbox", [pytest.param("bubblewrap", marks=needs_bubblewrap), "landlock"])
async def test_scripts_are_on_path_and_what_is_not_locked_fails_by_name(
        tmp_path: Path, settings: Settings, sandbox: str) -> None:
    if sandbox == "landlock" and (why := no_landlock() or (missing() or ("",))[0]):
        pytest.skip(why)
    found, _ = await ran(write(tmp_path, SEEN), settings, sandbox=sandbox)
    assert found.ok, found.reason
    script, imported, change = (found.outputs[name] for name in ("script", "imported", "change"))
    assert script["ok"] and script["stdout"].startswith("beta by ~packages/lib/"), script
    assert not imported["ok"] and "No module named 'gamma'" in imported["stderr"] and "'alpha'" not in imported["stderr"]
    assert not change["ok"], change


@pytest.mark.one_in(12, always=False)
@pytest.mark.skipif(os.geteuid() != 0 or bool(no_landlock()), reason="an ordinary user did this in the test above")
def test_an_ordinary_user_has_the_packages_under_landlock() -> None:
    here = Path(__file__)
    with tempfile.TemporaryDirectory(prefix="sop-ordinary-") as home:
        done = by_an_ordinary_user(
            ["-m", "pytest", "-q", "-x", "-rs", "-p", "no:cacheprovider", f"--rootdir={here.parent.parent}",
             f"--basetemp={home}/pytest",
             f"{here}::test_scripts_are_on_path_and_what_is_not_locked_fails_by_name[landlock]"], Path(home))
    assert done.stdout.startswith(". "), done.stdout[-3000:] + done.stderr


PRODUCT = """
sop: product
policy: {allow: ["install(beta)"]}
inputs: {wanted: {type: [string], default: [beta]}}
artifacts: {lock: {}, source: {files: "*"}, tested: {}}
steps:
  resolve: {tool: packages, inputs: {requirements: wanted}, needs: [wanted], makes: lock}
  write: {role: author, needs: [lock], makes: source, CHECK}
  test: {run: python -m pytest -q, parse: junit, packages: lock, needs: [source, lock], makes: tested}
roles: {author: {profile: writes Python}}
outputs: [tested]
"""


@pytest.mark.one_in(8, always=False)
async def test_a_product_that_declares_what_is_not_locked_fails_by_name(tmp_path: Path, settings: Settings) -> None:
    """Though its tests, which do not import it, are green."""
    def files(*names: str) -> dict[str, str]:
        return {"test_it.py": "import beta\ndef test_it(): pass\n",
                "pyproject.toml": f"[project]\nname = 'it'\nversion = '1'\ndependencies = {list(names)}\n"}

    path = write(tmp_path, PRODUCT.replace(", CHECK", ""))
    found, _ = await ran(path, settings, model=Scripted(write=lambda _: files("beta", "gamma>=2")))
    assert [one["message"] for one in found.outputs["tested"]["failures"]] == [
        "pyproject.toml: [project] dependencies: `gamma>=2` is not in the lock; the lock has beta: depend on these alone, or let "
        "the step that makes the lock ask for what is missing"]
    assert not found.outputs["tested"]["ok"]
    path = write(tmp_path, PRODUCT.replace("CHECK", "packages: lock, check: {run: python -m compileall -q .}"))
    answers = iter([files("gamma"), files("beta")])
    found, _ = await ran(path, settings, name="again", model=Scripted(write=lambda _: next(answers)))
    assert found.ok and found.outputs["tested"]["ok"] and next(answers, None) is None, found.reason


async def test_what_the_policy_does_not_name_is_asked_about_or_denied(tmp_path: Path, settings: Settings) -> None:
    result, journal = await ran(built(tmp_path, "{}"), settings)
    assert result.exit_status == 4 and len(of(journal, Asked)) == 1 and "`install(alpha)`" in result.reason
    result, _ = await ran(built(tmp_path, '{deny: ["install(beta)"]}'), settings, name="no", inputs={"wanted": ["alpha", "beta"]},
                          yes=True)
    assert "deny install(beta) of the SOP (`beta`)" in result.reason and result.exit_status == 1
    result, _ = await ran(built(tmp_path, "{preset: read-only}"), settings, name="never", yes=True)
    assert "`install(alpha)` is not allowed" in result.reason


@pytest.mark.one_in(8, always=False)
async def test_what_the_user_allows_stands_in_the_journal_and_holds_after_a_resume(tmp_path: Path, settings: Settings) -> None:
    path = built(tmp_path, '{deny: ["install(gamma)"]}')
    result, journal = await ran(path, settings, allow=["Alpha"], until="write")
    assert of(journal, RunOpened)[0].allowed == ("Alpha",)
    ended = await resume("built-1", workspace=tmp_path / "w", settings=settings)
    assert ended.ok, ended.reason
    result, _ = await ran(path, settings, name="no", allow=["gamma"], inputs={"wanted": ["gamma"]})
    assert "deny install(gamma)" in result.reason, "what the SOP denies stays denied"


async def test_a_hostile_requirement_is_told_and_nothing_is_asked(tmp_path: Path, settings: Settings) -> None:
    result, journal = await ran(built(tmp_path, "{preset: danger-full-access}"), settings,
                                inputs={"wanted": ["alpha", "evil @ https://example.com/evil.whl"]})
    assert "names a URL" in result.reason and not of(journal, Decided)


@pytest.mark.one_in(8)
async def test_a_run_goes_on_where_its_environment_is_gone(tmp_path: Path, settings: Settings) -> None:
    """On another machine: the journal has the lock, and the index its wheels; a wheel that was replaced is refused."""
    path = built(tmp_path)
    await ran(path, settings, until="resolve")
    kept = [one for one in (tmp_path / "cache/packages").iterdir() if not one.suffix]
    environments._remove(kept[0])
    wheel(tmp_path / "index", "alpha", files={"alpha.py": "VERSION = 'bad'"}, requires=["beta"])
    stopped = await resume("built-1", workspace=tmp_path / "w", settings=settings)
    assert stopped.exit_status == 1 and "hash" in stopped.reason.lower()
    wheel(tmp_path / "index", "alpha", requires=["beta"])
    wheel(tmp_path / "index", "alpha", "2.0")
    ended = await resume("built-1", workspace=tmp_path / "w", settings=settings)
    assert ended.ok, ended.reason
    locked = {one["name"]: one["version"] for one in ended.outputs["lock"]["packages"]}
    assert locked["alpha"] == "1.0", "what was locked stays locked"


CHECKED = """
sop: checked
policy: {allow: ["install(alpha)"]}
inputs: {wanted: {type: [string], default: [alpha]}}
roles: {author: {profile: writes Python, tools: [run, python]}}
artifacts: {lock: {}, source: {files: "*.py"}}
steps:
  resolve: {tool: packages, inputs: {requirements: wanted}, needs: [wanted], makes: lock}
  write:
    role: author
    needs: [lock]
    makes: source
    packages: lock
    check: {run: [python, -c, "import alpha, work"]}
outputs: [source]
"""


@pytest.mark.one_in(16)
async def test_checks_and_the_tools_of_a_role_have_the_packages(tmp_path: Path, settings: Settings) -> None:
    told: list[str] = []

    def author(request: ModelRequest) -> Any:
        told.extend(one["content"] for one in request.messages if one["role"] == "tool")
        if told:
            return {"work.py": "import alpha\n"}
        return Reply("", calls=(ToolCall("1", "run", {"command": ["python", "-c", "import alpha; print(alpha.VERSION)"]}),
                                ToolCall("2", "python", {"code": "import alpha; alpha.VERSION"})))
    result, _ = await ran(write(tmp_path, CHECKED), settings, model=author)
    assert result.ok, result.reason
    assert "1.0" in told[0] and "--- value\n'1.0'" in told[1], told
    model = Scripted(write=lambda request: {"work.py": "import alpha\n"})
    without = CHECKED.replace("    packages: lock\n", "")
    result, _ = await ran(write(tmp_path, without), settings, model=model, name="without")
    assert "No module named 'alpha'" in (result.reason or "")


@pytest.mark.one_in(4)
async def test_a_step_that_only_wants_a_lock_does_without(tmp_path: Path, settings: Settings) -> None:
    """With the lock its commands have these packages and no others; without, those of the machine."""
    sop = write(tmp_path, """
        sop: at_will
        inputs: {install: {type: boolean, default: false}}
        policy: {allow: ["install(alpha)"]}
        artifacts: {lock: {}, said: {}}
        steps:
          resolve: {tool: packages, inputs: {requirements: "['alpha']"}, needs: [install], when: install, makes: lock}
          say: {run: [python, -c, "import alpha"], needs: [install], wants: [lock], packages: lock, makes: said}
        outputs: [said]
    """)
    for install, code in ((False, 1), (True, 0)):
        result, _ = await ran(sop, settings, name=str(install), inputs={"install": install})
        assert result["said"]["exit_code"] == code, result
