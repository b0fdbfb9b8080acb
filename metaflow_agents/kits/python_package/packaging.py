"""What makes a package installable: pyproject.toml against the package that it is to install.

Sources: PEP 517, 518 and 621; the entry points specification; what setuptools and hatchling do where nothing is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from metaflow_agents.kits.python_package.callables import constructor, prevailing, signature_of
from metaflow_agents.kits.python_package.dependencies import Environment, normal, requirement
from metaflow_agents.kits.python_package.fault import DESIGN, Blamed, PackageFault, listed, there_is
from metaflow_agents.kits.python_package.repository import MISSING, PackageRepository
from metaflow_agents.packages.pyproject import PYPROJECT, read_toml

_NAME = re.compile(r"[A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9._-]*[A-Za-z0-9]")
_BACKENDS = {
    "setuptools.build_meta": "setuptools",
    "setuptools.build_meta:__legacy__": "setuptools",
    "hatchling.build": "hatchling",
    "flit_core.buildapi": "flit-core",
    "poetry.core.masonry.api": "poetry-core",
    "pdm.backend": "pdm-backend",
    "uv_build": "uv-build",
}
_TARGET = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)((?:\.[A-Za-z_]\w*)*)\s*(?:\[[^\]]*\])?")
_LOWEST = re.compile(r">=\s*3\.(\d+)")


class Packaging:
    """One pyproject.toml, read. `broken` says why it can't be."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files
        self.data: dict[str, Any] = {}
        self.broken = ""
        if PYPROJECT not in files:
            self.broken = f"`{PYPROJECT}` is missing; fix: write it, with [build-system] and [project]"
            return
        try:
            self.data = read_toml(files[PYPROJECT])
        except ValueError as error:
            self.broken = f"it is no TOML: {error}; fix: write it as TOML"

    def table(self, *keys: str) -> dict[str, Any]:
        """A table by its dotted name; empty where there is none."""
        found: Any = self.data
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}

    @property
    def project(self) -> dict[str, Any]:
        """The table [project]."""
        return self.table("project")

    @property
    def dependencies(self) -> list[str]:
        """Normal names of what it needs to run, on any machine."""
        return [found[0] for one in _strings(self.project.get("dependencies")) if (found := requirement(one)) and found[1]]

    @property
    def all_dependencies(self) -> list[str]:
        """Those, the ones for some machines, and the optional ones: all that the code may import."""
        optional = self.project.get("optional-dependencies")
        groups = [_strings(group) for group in optional.values()] if isinstance(optional, dict) else []
        every = [*_strings(self.project.get("dependencies")), *(one for group in groups for one in group)]
        return [found[0] for one in every if (found := requirement(one))]

    @property
    def lowest_python(self) -> int | None:
        """The minor version of the oldest Python 3 that `requires-python` admits."""
        found = _LOWEST.search(str(self.project.get("requires-python", "")))
        return int(found[1]) if found else None

    def faults(
        self, design: Mapping[str, Any], repository: PackageRepository, environment: Environment, blamed: Blamed
    ) -> Iterator[PackageFault]:
        """All that keeps it from being installed, or from starting."""
        if self.broken:
            yield PackageFault(PYPROJECT, 0, self.broken)
            return
        for why in (*self._head(), *self._backend(), *self._files_named(), *self._packages(design["package"], repository),
                    *self._scripts(design, repository, blamed), *self._dependencies(design)):
            yield PackageFault(PYPROJECT, 0, why)
        for name in sorted({*self.dependencies, *(normal(one["name"]) for one in design.get("dependencies", ()))}):
            if environment.modules(name) is None:
                yield PackageFault(
                    DESIGN,
                    0,
                    f"the dependency `{name}` is not in the environment in which the tests run, and nothing "
                    "can be installed there; fix: design it with the standard library",
                )

    def _head(self) -> Iterator[str]:
        if not self.project:
            yield "the table [project] is missing; fix: write it, with name, version and requires-python"
            return
        name = self.project.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            yield f"[project] `name` is {name!r}; fix: a name of letters, digits, `-`, `_` and `.`"
        dynamic = _strings(self.project.get("dynamic"))
        if "version" not in self.project and "version" not in dynamic:
            yield "[project] has no `version`; fix: `version = \"0.1.0\"`"
        for written in _strings(self.project.get("dependencies")):
            if requirement(written) is None:
                yield f"the dependency `{written}` is none; fix: write a name, and a version as `name>=1.2`"

    def _backend(self) -> Iterator[str]:
        system = self.table("build-system")
        backend, needed = (
            system.get("build-backend"),
            [found[0] for one in _strings(system.get("requires")) if (found := requirement(one))],
        )
        if not system:
            return                                              # then it is setuptools, by PEP 518
        if not isinstance(backend, str):
            if "setuptools" not in needed:
                yield "[build-system] has no `build-backend`; fix: `build-backend = \"setuptools.build_meta\"`"
            return
        wanted = _BACKENDS.get(backend)
        root = normal(backend.partition(".")[0])
        if wanted is None and (root in {one.partition(".")[0].replace("_", "-") for one in _BACKENDS} or root not in needed):
            yield (f'there is no build backend `{backend}`; '
                   f'fix: `build-backend = "setuptools.build_meta"`; {there_is(backend, _BACKENDS)}')
        elif wanted is not None and wanted not in needed:
            yield f"[build-system] `requires` lacks `{wanted}`, which `{backend}` is part of; fix: `requires = [\"{wanted}\"]`"

    def _files_named(self) -> Iterator[str]:
        for key in ("readme", "license"):
            written = self.project.get(key)
            name = written.get("file") if isinstance(written, dict) else written if key == "readme" else None
            if isinstance(name, str) and name not in self._files:
                yield (f"[project] `{key}` names `{name}`, which is not there; there is: {listed(sorted(self._files))}; "
                       "fix: name one of them")

    def _packages(self, package: str, repository: PackageRepository) -> Iterator[str]:
        wanted = sorted(name for name in repository.folders if name.partition(".")[0] == package)
        backend = str(self.table("build-system").get("build-backend", "setuptools.build_meta")).partition(".")[0]
        if backend == "setuptools":
            yield from self._of_setuptools(wanted)
        elif backend == "hatchling":
            yield from self._of_hatchling(package)

    def _of_setuptools(self, wanted: Sequence[str]) -> Iterator[str]:
        settings = self.table("tool", "setuptools")
        packages = settings.get("packages")
        if not isinstance(packages, list) or settings.get("package-dir"):
            return                                              # found by setuptools itself
        for name in packages:
            if isinstance(name, str) and name not in wanted:
                yield (f"[tool.setuptools] `packages` names `{name}`, which is no package here; {there_is(name, wanted)}; "
                       "fix: name what is there")
        for name in wanted:
            if name not in packages:
                yield f"[tool.setuptools] `packages` lacks `{name}`, which would not be installed; fix: add it"

    def _of_hatchling(self, package: str) -> Iterator[str]:
        build = self.table("tool", "hatch", "build")
        wheel = self.table("tool", "hatch", "build", "targets", "wheel")
        if any(
            key in part for part in (build, wheel) for key in ("packages", "include", "only-include", "force-include", "sources")
        ):
            packages = wheel.get("packages", build.get("packages"))
            for name in _strings(packages):
                if name.strip("/").rpartition("/")[2] != package and name.strip("/").partition("/")[0] != package:
                    yield f"[tool.hatch.build.targets.wheel] `packages` names `{name}`; fix: `packages = [\"{package}\"]`"
        elif normal(str(self.project.get("name", ""))) != normal(package):
            yield (
                f"hatchling looks for a package called like the project, `{self.project.get('name')}`, and the "
                f"package is `{package}`; "
                f'fix: [tool.hatch.build.targets.wheel] `packages = ["{package}"]`'
            )

    def _scripts(self, design: Mapping[str, Any], repository: PackageRepository, blamed: Blamed) -> Iterator[str]:
        scripts = self.table("project", "scripts")
        for name, target in scripts.items():
            why = unstartable(repository, str(target), blamed)
            if why:
                yield f"[project.scripts] `{name} = \"{target}\"`: {why}"
        for script in design.get("scripts", ()):
            name, target = script["name"], script["target"]
            if name not in scripts:
                yield f"[project.scripts] has no `{name}`; fix: `{name} = \"{target}\"`, as the design has it"
            elif str(scripts[name]).replace(" ", "") != target.replace(" ", ""):
                yield (f'[project.scripts] `{name}` starts `{scripts[name]}`, the design says `{target}`; '
                       f'fix: `{name} = "{target}"`')

    def _dependencies(self, design: Mapping[str, Any]) -> Iterator[str]:
        wanted = {normal(one["name"]) for one in design.get("dependencies", ())}
        there = set(self.all_dependencies)
        for name in sorted(wanted - there):
            yield f"[project] `dependencies` lacks `{name}`, which the design depends on; fix: add it"
        for name in sorted(set(self.dependencies) - wanted):
            yield (f"[project] `dependencies` has `{name}`, which the design does not depend on; fix: remove it"
                   + (f"; the design has {listed(sorted(wanted))}" if wanted else ""))


def unstartable(repository: PackageRepository, target: str, blamed: Blamed) -> str | None:
    """Why a console script can't start `module:function`; None where it can, as far as can be known."""
    found = _TARGET.fullmatch(target.strip())
    if found is None:
        return "it names no function; fix: write `package.module:function`"
    dotted, name = found[1], found[2]
    module = repository.modules.get(dotted)
    if dotted in repository.unread:
        return None
    if module is None:
        if dotted.partition(".")[0] in repository.roots or not repository.holds(dotted):
            return f"there is no module `{dotted}`; {there_is(dotted, repository.modules)}; fix: name one that is there"
        return None
    meant = repository.look(module, name)
    if blamed(module.path, name):
        return None
    if meant == [MISSING]:
        return (
            f"`{module.path}` has no `{name}`; {there_is(name, repository.exports(module))}; fix: name a function that is there"
        )
    kept = prevailing([one.binding for one in meant if one.binding is not None])
    if found[3] or len(kept) != 1:
        return None
    one = next(one for one in meant if one.binding is kept[0])
    signature = constructor(repository.lineage(one.cls)) if one.cls is not None else signature_of(kept[0].node)
    if signature is not None and signature.required:
        names = listed(parameter.name for parameter in signature.required)
        return f"a script is started without arguments, and `{name}{signature}` needs {names}; fix: give them defaults"
    return None


def _strings(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
