"""The modules of the web UI's pages as one script, so that a file needs no server, and its policy names one script by its hash.

The modules are this package's own, written in a few forms (tests/test_web_static.py): imports of one statement, `export` before
what it exports, or a list of names. What is written otherwise is refused here, and a test makes the script of all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from posixpath import dirname, join, normpath

from metaflow_agents.errors import RunError

_IMPORT = re.compile(r'^import\s+(?:(?P<default>\w+)\s*,?\s*)?(?:\{(?P<names>[^}]*)\}\s*)?from\s*"(?P<path>[^"]+)";$',
                     re.MULTILINE)
_PASSED_ON = re.compile(r'^export\s*\{(?P<names>[^}]*)\}\s*from\s*"(?P<path>[^"]+)";$', re.MULTILINE)
_LISTED = re.compile(r"(?:^|(?<=[;}]))export\s*\{(?P<names>[^}]*)\};?\s*\Z", re.MULTILINE)
_DEFAULT = re.compile(r"^export default (?:(?P<kind>(?:async )?function\*?|class) (?P<name>\w+))?", re.MULTILINE)
_NAMED = re.compile(r"^export (?P<kind>(?:async )?function\*?|class|const|let) (?P<name>\w+)", re.MULTILINE)
_LAZY = re.compile(r'\bimport\("(?P<path>[^"]+)"\)')
_LEFT = re.compile(r"^(?:import|export)\b(?!\()", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*//.*\n", re.MULTILINE)


def bundled(entry: str, text: Callable[[str], str], left_out: Iterable[str] = (),
            replaced: Mapping[str, str] | None = None) -> str:
    """A script that does what the module `entry` does. `text` gives a module by its path; `replaced`: path → text of another
    module in its place; those `left_out` are not there for who asks for them later (`import("…")`).

    Raises RunError for a module in a form that is not known, and for modules that import each other.
    """
    gone, others = frozenset(left_out), replaced or {}
    modules: dict[str, _Module] = {}
    waiting = [entry]
    while waiting:
        path = waiting.pop()
        if path not in modules:
            modules[path] = _Module(path, others[path] if path in others else text(path), gone)
            waiting += modules[path].needs
    try:
        order = [*TopologicalSorter({path: module.needs for path, module in modules.items()}).static_order()]
    except CycleError as error:
        raise RunError(f"modules of the pages import each other: {' → '.join(error.args[1])}") from None
    return "\n".join(['"use strict";', "(() => {", "const modules = {};", *(modules[path].script for path in order), "})();", ""])


class _Module:
    """One module, as a function's body. `needs`: the modules that it imports, at once or later."""

    def __init__(self, path: str, text: str, gone: frozenset[str]) -> None:
        self.path, self.needs, self._made = path, list[str](), list[str]()
        self._gone = gone
        text = _COMMENT.sub("", text)
        text = _PASSED_ON.sub(self._passed_on, text)
        text = _IMPORT.sub(self._imported, text)
        text = _LAZY.sub(self._lazy, text)
        text = _DEFAULT.sub(self._default, text)
        text = _NAMED.sub(self._named, text)
        text = _LISTED.sub(self._listed, text)
        left = _LEFT.search(text)
        if left is not None:
            raise RunError(f"{path}: `{text[left.start():left.start() + 60].splitlines()[0]}` is a form that is not bundled")
        made = f"Object.assign(exported, {{{', '.join(self._made)}}});\n" if self._made else ""
        self.script = (f'modules["{path}"] = (() => {{\nconst exported = {{}};\n{text.rstrip()}\n{made}'
                       "return exported;\n})();")

    def _place(self, written: str) -> str:
        path = normpath(join(dirname(self.path), written))
        if path.startswith(".."):
            raise RunError(f"{self.path} imports {written}, which is no module of the pages")
        return path

    def _needed(self, written: str) -> str:
        path = self._place(written)
        self.needs.append(path)
        return f'modules["{path}"]'

    def _imported(self, found: re.Match[str]) -> str:
        module = self._needed(found["path"])
        names = [name.strip().replace(" as ", ": ") for name in (found["names"] or "").split(",") if name.strip()]
        names += [f"default: {found['default']}"] if found["default"] else []
        return f"const {{ {', '.join(names)} }} = {module};"

    def _passed_on(self, found: re.Match[str]) -> str:
        module = self._needed(found["path"])
        pairs = [_pair(name) for name in found["names"].split(",") if name.strip()]
        self._made += [f"{outer}: {module}.{inner}" for inner, outer in pairs]
        return ""

    def _lazy(self, found: re.Match[str]) -> str:
        path = self._place(found["path"])
        if path in self._gone:
            return 'Promise.reject(new Error("This file holds one run: this page is not in it."))'
        return f"Promise.resolve({self._needed(found['path'])})"

    def _default(self, found: re.Match[str]) -> str:
        if found["name"]:
            self._made.append(f"default: {found['name']}")
            return f"{found['kind']} {found['name']}"
        return "exported.default = "

    def _named(self, found: re.Match[str]) -> str:
        self._made.append(found["name"])
        return f"{found['kind']} {found['name']}"

    def _listed(self, found: re.Match[str]) -> str:
        pairs = [_pair(name) for name in found["names"].split(",") if name.strip()]
        self._made += [f"{outer}: {inner}" for inner, outer in pairs]
        return "\n"


def _pair(written: str) -> tuple[str, str]:
    """`a as b` → what it is called inside, and outside."""
    inner, _, outer = written.strip().partition(" as ")
    return inner, outer or inner
