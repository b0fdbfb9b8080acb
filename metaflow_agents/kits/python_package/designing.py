"""What a schema can't say of a design: that it holds together, so that people who can't ask each other can build from it."""

from __future__ import annotations

import ast
import builtins
import keyword
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from metaflow_agents.errors import did_you_mean, nearest
from metaflow_agents.kits.python_package.callables import nature, signature_of
from metaflow_agents.kits.python_package.declared import BadSignature, Declared, declared
from metaflow_agents.kits.python_package.dependencies import Environment, normal
from metaflow_agents.kits.python_package.fault import listed
from metaflow_agents.kits.python_package.names import last_name

USER = "user"
"""Who begins a flow that no file begins."""


def design_faults(design: dict[str, Any], prd: dict[str, Any] | None = None) -> list[str]:
    """What is wrong with a design, each fault with its place and its mend; empty where nothing is. For `check: {call: …}`.

    `design` is a value that `design.schema.yaml` admits; with `prd`, every requirement has to be covered by a file.
    """
    return designed(design, prd, Environment())


def designed(design: Mapping[str, Any], prd: Mapping[str, Any] | None, environment: Environment) -> list[str]:
    """As `design_faults`, with the environment in which the code is to run."""
    looked = _Design(design)
    return [
        *looked.paths(),
        *looked.uses(),
        *looked.unread,
        *looked.entries(),
        *looked.types(),
        *looked.scripts(),
        *looked.flows(),
        *_dependencies(design, environment),
        *_coverage(design, prd),
    ]


class _Design:
    """A design, its interfaces read."""

    def __init__(self, design: Mapping[str, Any]) -> None:
        self._design, self._files = design, design["files"]
        self._places = {file["path"]: f"files[{number}]" for number, file in reversed(list(enumerate(self._files)))}
        self._uses = {file["path"]: list(file["uses"]) for file in self._files}
        self.unread: list[str] = []
        self._entries: dict[str, list[Declared]] = {path: [] for path in self._places}
        for number, file in enumerate(self._files):
            if file["path"].endswith(".py"):
                for index, entry in enumerate(file["interface"]):
                    self._read(file["path"], entry, f"files[{number}].interface[{index}]")

    def _read(self, path: str, entry: Mapping[str, Any], place: str) -> None:
        try:
            self._entries[path].append(declared(entry, place))
        except BadSignature as error:
            self.unread.append(f"`{place}` ({path}): {error}")

    # --- files

    def paths(self) -> Iterator[str]:
        """Paths that are no modules of the package, twice there, or without their `__init__.py`."""
        package = self._design["package"]
        if package in sys.stdlib_module_names or package in ("tests", "docs") or keyword.iskeyword(package):
            yield f"`package`: `{package}` is the name of something else already; fix: choose another, such as `{package}_app`"
        seen: set[str] = set()
        for number, file in enumerate(self._files):
            path, place = file["path"], f"files[{number}].path"
            if path in seen:
                yield f"`{place}`: `{path}` is duplicated; fix: one entry for each file"
            seen.add(path)
            if not path.startswith(f"{package}/"):
                yield f"`{place}`: `{path}` does not lie in the package; fix: begin it with `{package}/`"
            if path.endswith(".py"):
                yield from self._module_path(path, place)
        folders = {parent.as_posix() for path in seen if path.endswith(".py") for parent in PurePosixPath(path).parents} - {"."}
        for folder in sorted(folders):
            if f"{folder}/__init__.py" not in seen:
                yield (f"`files`: `{folder}/__init__.py` is missing; "
                       "fix: list it, with its purpose and an interface that may be empty")
            if f"{folder}.py" in seen:
                yield f"`files`: `{folder}.py` and the folder `{folder}` are one module to Python; fix: rename one of them"

    @staticmethod
    def _module_path(path: str, place: str) -> Iterator[str]:
        for part in PurePosixPath(path).with_suffix("").parts:
            if not part.isidentifier() or keyword.iskeyword(part):
                yield (f"`{place}`: `{part}` in `{path}` can't be imported; "
                       "fix: lower-case letters, digits and `_`, and no word of Python")

    def uses(self) -> Iterator[str]:
        """Uses of files that are not there, of files that promise nothing, and in a circle."""
        for path, used in self._uses.items():
            place = f"`{self._places[path]}.uses`"
            for other in used:
                if other == path:
                    yield f"{place}: `{path}` uses itself; fix: leave it out"
                elif other not in self._uses:
                    yield f"{place}: there is no file `{other}`; {did_you_mean(other, self._uses)}; fix: a path of `files`"
                elif other.endswith(".py") and not other.endswith("__init__.py") and not self._promises(other):
                    yield (f"{place}: `{path}` uses `{other}`, whose interface is empty; "
                           f"fix: declare in it what `{path}` needs, or leave the use out")
        circle = _circle(self._uses)
        if circle:
            yield (f"`files`: uses in a circle: {' → '.join(circle)}; no file of it can be written first; "
                   "fix: move what they share into a file that uses none of them")

    def _promises(self, path: str) -> bool:
        return any(file["path"] == path and file["interface"] for file in self._files)

    # --- interfaces

    def entries(self) -> Iterator[str]:
        """Duplicated names, members of what is no class, methods without `self`, fields in an order that Python refuses."""
        for path, entries in self._entries.items():
            seen: dict[str, str] = {}
            for entry in entries:
                for name in entry.names:
                    if name in seen:
                        yield (f"`{entry.place}` ({path}): `{name}` is declared before, in `{seen[name]}`; "
                               "fix: one entry for each name")
                    seen[name] = entry.place
                yield from self._members(path, entry)
                yield from self._raised(path, entry)

    def _members(self, path: str, entry: Declared) -> Iterator[str]:
        if entry.members and entry.binding.kind != "class":
            yield (f"`{entry.place}` ({path}): `{entry.written}` has members and is no class; "
                   "fix: write `class Name`, or give each its own entry")
            return
        seen: set[str] = set()
        for member in entry.members:
            for name in member.names:
                whole = f"{entry.binding.name}.{name}"
                if name in seen and not _is_setter(member):
                    yield f"`{member.place}` ({path}): `{whole}` is declared twice; fix: one entry for each member"
                seen.add(name)
            node = member.binding.node
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and nature(node) in ("function", "class", "property"):
                places = [*node.args.posonlyargs, *node.args.args]
                wanted = "cls" if nature(node) == "class" else "self"
                if not node.args.vararg and (not places or places[0].arg not in (wanted, "cls", "mcs")):
                    yield (f"`{member.place}` ({path}): `{member.written}` is a method and does not take `{wanted}`; "
                           f"fix: make `{wanted}` its first parameter, or write `@staticmethod` before it")
        yield from self._fields(path, entry)

    @staticmethod
    def _fields(path: str, entry: Declared) -> Iterator[str]:
        node = entry.binding.node
        if not isinstance(node, ast.ClassDef) or not any(last_name(one) == "dataclass" for one in node.decorator_list):
            return
        if any(isinstance(one, ast.Call) and any(word.arg == "kw_only" for word in one.keywords) for one in node.decorator_list):
            return
        given = ""
        for member in entry.members:
            one = member.binding
            if (
                one.annotation is None
                or one.kind not in ("value", "note")
                or last_name(one.annotation) in ("ClassVar", "KW_ONLY")
            ):
                continue
            if one.kind == "value":
                given = given or one.name
            elif given:
                yield (
                    f"`{member.place}` ({path}): in the dataclass `{entry.binding.name}` the field `{one.name}` without a "
                    "default "
                    f"follows `{given}`, which has one; fix: put it before, or give it a default"
                )

    def _raised(self, path: str, entry: Declared) -> Iterator[str]:
        number, index = _numbers(entry.place)
        written = self._files[number]["interface"][index]
        for part, place in ((written, entry.place), *((one, f"{entry.place}.members[{at}]")
                                                     for at, one in enumerate(written.get("members", ())))):
            for one in part.get("raises", ()):
                name = one.partition(":")[0].strip()
                if "." in name or isinstance(getattr(builtins, name, None), type) or name in self._classes:
                    continue
                yield (
                    f"`{place}.raises` ({path}): `{name}` is no exception of Python and no class of the design; "
                    f"{did_you_mean(name, self._classes)}; "
                    "fix: declare the class in the file that raises it or in one that it uses; "
                    "one of the standard library is written with its module: `json.JSONDecodeError`"
                )

    @property
    def _classes(self) -> dict[str, str]:
        """Class → the file whose interface declares it."""
        return {
            entry.binding.name: path
            for path, entries in self._entries.items()
            for entry in entries
            if entry.binding.kind == "class"
        }

    def types(self) -> Iterator[str]:
        """Classes of other files in signatures of a file that may not import them."""
        classes = self._classes
        for path, entries in self._entries.items():
            reached = _reached(self._uses, path)
            for entry in entries:
                for one in (entry, *entry.members):
                    for name in dict.fromkeys(_named(one)):
                        home = classes.get(name)
                        if home is None or home == path:
                            close = nearest(name, classes) if home is None and name[:1].isupper() else None
                            if close and close.lower() == name.lower():
                                yield f"`{one.place}` ({path}): there is no `{name}`; fix: write `{close}`"
                        elif home not in reached:
                            yield (f"`{one.place}` ({path}): `{one.written}` names `{name}`, which stands in `{home}`; "
                                   f"fix: add `{home}` to `uses` of `{path}`, or move the class")

    # --- what starts, and what calls what

    def scripts(self) -> Iterator[str]:
        """Console scripts that start nothing."""
        for number, script in enumerate(self._design.get("scripts", ())):
            place, (module, _, name) = f"`scripts[{number}].target`", script["target"].partition(":")
            path = next((one for one in (module.replace(".", "/") + ".py", module.replace(".", "/") + "/__init__.py")
                         if one in self._entries), None)
            if path is None:
                yield (f"{place}: there is no module `{module}`; {did_you_mean(module, map(_dotted, self._entries))}; "
                       "fix: write `package.module:function`")
                continue
            entry = self._entry(path, name)
            if entry is None:
                names = [one for declared_one in self._entries[path] for one in declared_one.names]
                yield (f"{place}: the interface of `{path}` has no `{name}`; {did_you_mean(name, names)}; "
                       f"fix: declare `def {name}(arguments: list[str] | None = None) -> int` there")
                continue
            signature = signature_of(entry.binding.node)
            if signature is not None and signature.required:
                names = [one.name for one in signature.required]
                yield (f"{place}: a script is started without arguments, and `{entry.written}` needs {listed(names)}; "
                       "fix: give them defaults, such as `arguments: list[str] | None = None`")

    def _entry(self, path: str, name: str) -> Declared | None:
        return next((entry for entry in self._entries[path] if name in entry.names), None)

    def flows(self) -> Iterator[str]:
        """Calls between files that the design does not have, or of what the called file does not offer."""
        known = [USER, *self._entries]
        for number, flow in enumerate(self._design.get("flows", ())):
            for index, step in enumerate(flow["steps"]):
                place = f"flows[{number}].steps[{index}]"
                for end in ("from", "to"):
                    if step[end] not in known:
                        yield (f"`{place}.{end}`: there is no file `{step[end]}`; {did_you_mean(step[end], known)}; "
                               f"fix: a path of `files`, or `{USER}`")
                to = step["to"]
                if to in self._entries and to.endswith(".py") and step["from"] != USER:
                    yield from self._flow_call(place, to, step["call"])

    def _flow_call(self, place: str, path: str, call: str) -> Iterator[str]:
        name = call.partition("(")[0].strip()
        offered = {name for entry in self._entries[path] for name in entry.names}
        inside = {
            f"{entry.binding.name}.{name}" for entry in self._entries[path] for member in entry.members for name in member.names
        }
        if name not in offered and name not in inside and not any(one.endswith(f".{name.rpartition('.')[2]}") for one in inside):
            yield (f"`{place}.call`: the interface of `{path}` has no `{name}`; {did_you_mean(name, sorted(offered | inside))}; "
                   f"fix: call what it declares, as `name(arguments)` or `Class.method(arguments)`, or declare `{name}` there")


def _is_setter(member: Declared) -> bool:
    return any(isinstance(one, ast.Attribute) for one in getattr(member.binding.node, "decorator_list", ()))


def _numbers(place: str) -> tuple[int, int]:
    """The indices in `files[2].interface[0]`."""
    file, _, entry = place.partition("].interface[")
    return int(file.removeprefix("files[")), int(entry.partition("]")[0])


def _dotted(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _named(entry: Declared) -> Iterator[str]:
    """Names in the annotations and bases of a declaration, those in quotes included."""
    node = entry.binding.node
    parts: list[ast.AST | None] = [entry.binding.annotation]
    if isinstance(node, ast.ClassDef):
        parts += node.bases
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        parts += [one.annotation for one in ast.walk(node.args) if isinstance(one, ast.arg)]
        parts.append(node.returns)
    for part in parts:
        for inner in ast.walk(part) if part is not None else ():
            if isinstance(inner, ast.Name):
                yield inner.id
            elif isinstance(inner, ast.Constant) and isinstance(inner.value, str) and inner.value.isidentifier():
                yield inner.value


def _reached(uses: Mapping[str, Sequence[str]], path: str) -> set[str]:
    """All files that a file uses, directly or by others: what they offer, it may name."""
    found: set[str] = set()
    ends = [path]
    while ends:
        for other in uses.get(ends.pop(), ()):
            if other not in found:
                found.add(other)
                ends.append(other)
    return found


def _circle(uses: Mapping[str, Sequence[str]]) -> list[str]:
    """One circle of uses, its first file again at its end; empty where there is none."""
    done: set[str] = set()
    for start in uses:
        chain: list[str] = []
        ends: list[tuple[str, int]] = [(start, 0)]
        while ends:
            path, depth = ends.pop()
            del chain[depth:]
            if path in chain:
                return [*chain[chain.index(path):], path]
            if path not in done:
                chain.append(path)
                ends.extend((other, depth + 1) for other in uses.get(path, ()) if other != path)
        done.add(start)
    return []


def _dependencies(design: Mapping[str, Any], environment: Environment) -> Iterator[str]:
    for number, one in enumerate(design.get("dependencies", ())):
        if environment.modules(normal(one["name"])) is None:
            yield (
                f"`dependencies[{number}].name`: `{one['name']}` is not in the environment in which the tests run, "
                "and nothing can be "
                "installed there; fix: do it with the standard library, and leave the dependency out"
            )


def _coverage(design: Mapping[str, Any], prd: Mapping[str, Any] | None) -> Iterator[str]:
    if prd is None:
        return
    wanted = [one["id"] for one in prd["requirements"]]
    covered = {name for file in design["files"] for name in file["covers"]}
    for number, file in enumerate(design["files"]):
        for name in file["covers"]:
            if name not in wanted:
                yield (f"`files[{number}].covers`: there is no requirement `{name}`; {did_you_mean(name, wanted)}; "
                       "fix: an id that is there")
    missing = [name for name in wanted if name not in covered]
    if missing:
        yield f"`files`: no file covers {listed(missing)}; fix: add each id to `covers` of the file that serves it"

