"""The project as a folder: what ships, what the documents promise, what CI runs."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from metaflow_agents.kits.company import means, script_of_tests
from metaflow_agents.schema.role import Role
from metaflow_agents.schema.sop import NOT_BUILT, SOP
from metaflow_agents.sop.check import check

TOP = Path(__file__).resolve().parent.parent
SOPS = sorted([*TOP.glob("sops/*.yaml"), *TOP.glob("examples/*/*.yaml")])
SOPS = [path for path in SOPS if not path.name.endswith((".schema.yaml", ".openapi.yaml"))]
ROLES = sorted(TOP.glob("roles/*.yaml"))
README = (TOP / "README.md").read_text(encoding="utf-8")
INCLUDED = re.compile(r"{% include '([^']+)' %}")
CI = (TOP / ".ci/run").read_text(encoding="utf-8")


def read(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return data


def project() -> dict[str, Any]:
    return tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.one_in(4)
def test_both_sops_and_their_roles_ship() -> None:
    assert {"software_company.yaml", "minutes.yaml", "research_report.yaml"} <= {path.name for path in TOP.glob("sops/*.yaml")}
    target = project()["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert set(target["force-include"]) == {"roles", "sops"}
    assert all(read(path)["sop"] == path.stem for path in SOPS)
    for path in (TOP / "sops").glob("*.yaml"):
        missing = [name for name, role in read(path).get("roles", {}).items()
                   if "profile" not in role and not (TOP / f"roles/{name}.yaml").exists()]
        assert missing == [], f"{path.name} names roles that do not ship"


@pytest.mark.parametrize("path", [*SOPS, *ROLES], ids=lambda path: path.name)
def test_shipped_files_name_the_schema_that_editors_use(path: Path) -> None:
    first = path.read_text(encoding="utf-8").splitlines()[0]
    found = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", first)
    assert found, f"{path}: the first line names the schema"
    kind = "role" if path in ROLES else "sop"
    schema = (path.parent / found[1]).resolve()
    assert schema == TOP / f"docs/{kind}.schema.json"
    assert schema.is_file()


@pytest.mark.parametrize("path", ROLES, ids=lambda path: path.name)
def test_every_role_is_whole(path: Path) -> None:
    role = Role.model_validate(read(path))
    assert role.role == path.stem
    assert role.profile and role.goal and role.constraints
    assert role.prompt == f"{path.stem}.md.j2"
    text = (TOP / "roles" / role.prompt).read_text(encoding="utf-8")
    told = set(re.findall(r"role\.\w+", text))
    assert {"role.profile", "role.goal", "role.constraints"} <= told, "what the YAML says reaches the prompt"
    assert "run." not in text, "a prompt that names the run does not replay in another one"


def test_every_template_ships_beside_who_uses_it() -> None:
    used = {f"roles/{read(path)['prompt']}" for path in ROLES}
    for path in TOP.glob("sops/*.yaml"):
        used |= {f"sops/{artifact['render']}" for artifact in read(path).get("artifacts", {}).values()
                 if isinstance(artifact, dict) and "render" in artifact}
        used |= {f"sops/{name}" for name in INCLUDED.findall(path.read_text(encoding="utf-8"))}
    for path in TOP.glob("sops/*.j2"):
        used |= {f"sops/{name}" for name in INCLUDED.findall(path.read_text(encoding="utf-8"))}
    assert used == {str(path.relative_to(TOP)) for path in TOP.glob("*/*.j2")}


@pytest.mark.parametrize("path", SOPS, ids=lambda path: path.name)
def test_sop_check_finds_nothing_in_what_ships(path: Path) -> None:
    report = check(path)
    assert [str(problem) for problem in report.problems] == [], "not even a warning"
    assert report.bounds is not None


@pytest.mark.one_in(4)
@pytest.mark.parametrize("path", SOPS, ids=lambda path: path.name)
def test_every_shipped_sop_is_capped_and_tested(path: Path) -> None:
    data, bounds = read(path), check(path).bounds
    asks_nobody = bounds is not None and bounds.calls == 0
    assert data["budget"].get("time") and (data["budget"].get("calls") or asks_nobody), "a shipped SOP has caps"
    assert data["tests"], "a shipped SOP has tests"
    assert not set(data) & set(NOT_BUILT["sop"])


def test_every_role_step_of_the_shipped_sops_says_what_is_good() -> None:
    for path in TOP.glob("sops/*.yaml"):
        for name, step in read(path).get("steps", {}).items():
            if "role" in step:
                task = INCLUDED.sub(lambda found: (TOP / "sops" / found[1]).read_text(encoding="utf-8"), step.get("task", ""))
                assert len(task) > 200, f"{path.name}: step {name} has a task"


@pytest.mark.one_in(4)
def test_a_role_that_a_shipped_sop_writes_whole_is_called_like_no_file() -> None:
    """Such a file, which lies beside shipped SOPs, would be laid beneath it."""
    files = {path.stem for path in TOP.glob("roles/*.yaml")}
    assert files
    for path in TOP.glob("sops/*.yaml"):
        whole = {name for name, role in read(path).get("roles", {}).items() if "profile" in (role or {})}
        assert whole & files == set(), f"{path.name}: another name"


@pytest.mark.parametrize(("name", "step"), [("prototype", "use"), ("harden", "run_tests"), ("harden", "try_changes"),
                                            ("bug_fix", "run_tests"), ("change", "run_tests")])
def test_what_a_model_wrote_and_hangs_is_data_and_ends_no_run(name: str, step: str) -> None:
    """The command ends what it started before the step's own time is up, which would fail the attempt and stop the run."""
    told = read(TOP / "sops" / f"{name}.yaml")["steps"][step]
    within = re.search(r"\btimeout -k 5 (\d+)\b", " ".join(told["run"]))
    if "{{ means.use }}" in told["run"]:
        within = re.search(r'"timeout", "-k", "5", "(\d+)"', means("cli")["use"])
    if "{{ script }}" in told["run"]:                                   # the first word behind its name is the time
        assert 'timeout -k 5 "$1"' in script_of_tests() and script_of_tests().count("timeout -k 5") == 2
        within = re.fullmatch(r"(\d+)", told["run"][told["run"].index("tests") + 1])
    assert within and int(within[1]) + 5 < 60 * int(told["timeout"].removesuffix("m"))


def test_every_quote_of_the_example_could_be_found() -> None:
    lines = (TOP / "examples/minutes/transcript.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) >= 60
    spoken = [line for line in lines if re.match(r"[A-Z]\w+ [A-Z]\w+: ", line)]
    assert len({line.split(":")[0] for line in spoken}) >= 4


def test_the_procedure_in_the_readme_is_one() -> None:
    written = re.findall(r"^```yaml\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert written
    for text in written:
        sop = SOP.model_validate(yaml.safe_load(text))
        assert {step.makes.artifact for step in sop.steps.values()} == set(sop.artifacts)
        assert {step.role for step in sop.steps.values()} <= set(sop.roles)


def test_ci_runs_the_command_that_the_readme_gives() -> None:
    script = re.search(r"^tests=\$\((.*)\)$", CI, re.MULTILINE)
    assert script, "CI reads the command out of the README"
    found = subprocess.run(["bash", "-c", script[1]], cwd=TOP, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(found) == 1
    assert found == ["bash .ci/test"] and found[0] in README
    for name in ("setup", "start", "test"):
        subprocess.run(["bash", "-n", str(TOP / ".ci" / name)], check=True)
    begun = r"^\"\$VENV/bin/python\" -m pytest -n \"\$workers\" --dist worksteal \"\$@\"$"
    assert re.search(begun, (TOP / ".ci/test").read_text(encoding="utf-8"), re.MULTILINE)


def test_ci_is_an_executable_script_that_stops_at_the_first_failure() -> None:
    assert os.access(TOP / ".ci/run", os.X_OK)
    subprocess.run(["bash", "-n", str(TOP / ".ci/run")], check=True)
    assert "set -euo pipefail" in CI
    assert "|| true" not in CI


def test_documents_name_make_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (TOP / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set()
    for document in ("README.md", "CONTRIBUTING.md"):
        named |= set(re.findall(r"^make (\w+)|`make (\w+)", (TOP / document).read_text(encoding="utf-8"), re.MULTILINE))
    assert {first or second for first, second in named} - targets == set()


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_inside_the_repository_lead_somewhere(document: str) -> None:
    text = (TOP / document).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    assert [link for link in links if not (TOP / link).exists()] == []


def test_the_changelog_begins_with_the_version_of_the_project() -> None:
    newest = re.search(r"^## (\S+)", (TOP / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest and newest[1] == project()["project"]["version"]


def test_decisions_are_numbered_without_gaps() -> None:
    notes = sorted(TOP.glob("docs/decisions/*.md"))
    assert [int(path.name[:4]) for path in notes] == list(range(1, len(notes) + 1))
    for number, path in enumerate(notes, 1):
        assert path.read_text(encoding="utf-8").startswith(f"# {number}. ")


def test_the_package_has_32_parts_at_most() -> None:
    top = TOP / "metaflow_agents"
    parts = {path.parent.name for path in top.glob("*/__init__.py")} | {path.name for path in top.glob("*.py")} - {"__init__.py"}
    assert len(parts) <= 32, "merge two that belong together, as `code/` did with the map and the edits"


def test_the_licence_is_the_one_that_the_project_names() -> None:
    assert project()["project"]["license"] == "MIT"
    assert (TOP / "LICENSE").read_text(encoding="utf-8").startswith("MIT License")
