"""All files of a package together: what a name means across files, and what a class inherits."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Literal

from metaflow_agents.kits.python_package.module import Class, PythonModule
from metaflow_agents.kits.python_package.names import Binding, last_name

Means = Literal["module", "function", "class", "value", "outside", "unknown", "missing"]

OF_MODULES = frozenset({"__file__", "__name__", "__doc__", "__path__", "__spec__", "__loader__", "__package__", "__builtins__",
                        "__annotations__", "__dict__", "__cached__", "__debug__"})
_EMPTY_BASES = frozenset(
    {"typing.Generic", "typing.Protocol", "typing_extensions.Generic", "typing_extensions.Protocol", "abc.ABC"}
)
_ENUMS = frozenset(f"enum.{name}" for name in ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"))
_OF_ENUMS = frozenset({"name", "value", "_name_", "_value_", "__members__"})
_TUPLES = frozenset({"typing.NamedTuple", "typing_extensions.NamedTuple"})
_OF_TUPLES = frozenset({"_replace", "_asdict", "_fields", "_make", "_field_defaults", *dir(tuple)})


@dataclass(frozen=True, slots=True)
class FoundName:
    """What a name means.

    `outside`: it comes from another package, `dotted` says from where; `value`: an object of an unknown kind.
    """

    means: Means
    module: PythonModule | None = None
    """The module itself, or the one in which the function, class or value stands."""
    binding: Binding | None = None
    dotted: str = ""
    cls: Class | None = None


UNKNOWN, MISSING = FoundName("unknown"), FoundName("missing")


@dataclass(frozen=True)
class Lineage:
    """A class and all that it inherits from. `whole` is False where some of it stands outside of the repository."""

    classes: tuple[Class, ...]
    builtin: tuple[type, ...] = ()
    outside: tuple[str, ...] = ()
    whole: bool = True

    @cached_property
    def _given(self) -> frozenset[str]:
        found = set(dir(object)) | {
            "__dict__",
            "__annotations__",
            "__qualname__",
            "__name__",
            "__mro__",
            "__bases__",
            "__wrapped__",
            "__subclasses__",
            "__dataclass_fields__",
            "__post_init__",
            "__slots__",
            "__members__",
        }
        for base in self.builtin:
            found |= set(dir(base))
        for name in self.outside:
            found |= _OF_ENUMS if name in _ENUMS else _OF_TUPLES if name in _TUPLES else frozenset()
        return frozenset(found)

    def member(self, name: str) -> tuple[Class, list[Binding]] | None:
        """The nearest class whose body binds the name, and those bindings; bare annotations count, they are fields."""
        for one in self.classes:
            if name in one.members:
                return one, one.members[name]
        return None

    def has(self, name: str) -> bool:
        """Whether objects of the class have the attribute, as far as can be known; what can't be known counts as yes."""
        if not self.whole or name in self._given or self.member(name):
            return True
        return any(name in one.attributes or name in one.extra for one in self.classes)

    @property
    def names(self) -> set[str]:
        """All attributes that the repository gives it."""
        found: set[str] = set()
        for one in self.classes:
            found |= {*one.members, *one.attributes, *one.extra}
        return found


def standalone(cls: Class) -> Lineage:
    """A class by itself, with no ancestors looked for."""
    return Lineage((cls,))


class PackageRepository:
    """The parsed files. Names are resolved as Python would on import, without running anything."""

    def __init__(self, modules: Iterable[PythonModule], paths: Iterable[str] = ()) -> None:
        """`paths` are those of all Python files that are there or ought to be: of what can't be read, nothing is said."""
        self.modules = {module.name: module for module in modules}
        self.by_path = {module.path: module for module in self.modules.values()}
        self.unread = {names_of(path)[0] for path in paths} - set(self.modules)
        every = {*self.modules, *self.unread}
        self.folders = {name.rpartition(".")[0] for name in every} - {""}
        for name in list(self.folders):
            while "." in name:
                name = name.rpartition(".")[0]
                self.folders.add(name)
        self.roots = {name.partition(".")[0] for name in every}
        self._lineages: dict[Class, Lineage] = {}
        self._open: dict[PythonModule, bool] = {}
        self._note_given_away()
        self._note_outer_attributes()

    # --- modules

    def holds(self, dotted: str) -> bool:
        """Whether there is a module or a package of that name."""
        return dotted in self.modules or dotted in self.folders or dotted in self.unread

    def absolute(self, module: PythonModule, source: str) -> str | None:
        """The dotted name that an import's source means in a module; None where its dots lead out of the package."""
        level = len(source) - len(source.lstrip("."))
        if not level:
            return source
        parts = module.package.split(".") if module.package else []
        if level > len(parts):
            return None
        base = parts[:len(parts) - level + 1]
        return ".".join([*base, *([source[level:]] if source[level:] else [])])

    def is_open(self, module: PythonModule) -> bool:
        """Whether a module may hold names that no text of the repository shows."""
        if module not in self._open:
            self._open[module] = False                       # a circle of stars adds nothing of its own
            self._open[module] = module.dynamic or any(self._star_is_open(module, star) for star in module.stars)
        return self._open[module]

    def _star_is_open(self, module: PythonModule, star: Binding) -> bool:
        source = self.absolute(module, star.source)
        target = self.modules.get(source or "")
        return target is None or self.is_open(target)

    def exports(self, module: PythonModule, seen: frozenset[PythonModule] = frozenset()) -> set[str]:
        """The names that one can take from a module: its own, and those of its stars."""
        found = set(module.names) - {"*"}
        for star in module.stars:
            target = self.modules.get(self.absolute(module, star.source) or "")
            if target is not None and target not in seen:
                theirs = self.exports(target, seen | {module})
                found |= theirs if target.listed is None else theirs & set(target.listed)
        return found

    # --- names

    def look(
        self, module: PythonModule, name: str, *, typing: bool = False, seen: frozenset[tuple[str, str]] = frozenset()
    ) -> list[FoundName]:
        """What a name of a module may mean: each way in which it may be bound at run time; with `typing`, for checkers too."""
        mark = (module.name, name)
        if mark in seen:
            return [UNKNOWN]
        bound = [one for one in module.names.get(name, ()) if one.kind != "note" and (typing or not one.typing)]
        if bound:
            return [found for one in bound for found in self.meaning(module, one, seen | {mark})]
        found = []
        for star in module.stars:
            target = self.modules.get(self.absolute(module, star.source) or "")
            if target is not None and (target.listed is None or name in target.listed):
                found += [one for one in self.look(target, name, typing=typing, seen=seen | {mark}) if one.means != "missing"]
        inner = f"{module.name}.{name}"
        if self.holds(inner) and self._is_package(module):
            found.append(self._module(inner))
        if found:
            return found
        if name in OF_MODULES:
            return [UNKNOWN]
        return [UNKNOWN] if self.is_open(module) else [MISSING]

    def meaning(self, module: PythonModule, binding: Binding, seen: frozenset[tuple[str, str]] = frozenset()) -> list[FoundName]:
        """What one binding binds its name to."""
        match binding.kind:
            case "function":
                return [FoundName("function", module, binding)]
            case "class" if isinstance(binding.node, ast.ClassDef):
                return [FoundName("class", module, binding, cls=module.classes[binding.node])]
            case "import":
                return [self._named(binding.target or binding.source)]
            case "from":
                return self._taken(module, binding, seen)
            case "value" if isinstance(binding.value, ast.Name) and binding.value.id != binding.name:
                found = self.look(module, binding.value.id, seen=seen)
                return found if found != [MISSING] else [FoundName("value", module, binding)]
        return [FoundName("value", module, binding)]

    def _named(self, dotted: str) -> FoundName:
        if self.holds(dotted):
            return self._module(dotted)
        return UNKNOWN if dotted.partition(".")[0] in self.roots else FoundName("outside", dotted=dotted)

    def _taken(self, module: PythonModule, binding: Binding, seen: frozenset[tuple[str, str]]) -> list[FoundName]:
        source = self.absolute(module, binding.source)
        if source is None:
            return [UNKNOWN]
        target = self.modules.get(source)
        if source in self.unread:
            return [UNKNOWN]
        if target is not None:
            return self.look(target, binding.target, seen=seen, typing=binding.typing)
        if source in self.folders:
            inner = f"{source}.{binding.target}"
            return [self._module(inner)] if self.holds(inner) else [MISSING]
        return (
            [UNKNOWN] if source.partition(".")[0] in self.roots else [FoundName("outside", dotted=f"{source}.{binding.target}")]
        )

    def _module(self, dotted: str) -> FoundName:
        return FoundName("module", self.modules.get(dotted), dotted=dotted)

    @staticmethod
    def _is_package(module: PythonModule) -> bool:
        return module.name == module.package

    def attribute(self, base: FoundName, name: str) -> list[FoundName]:
        """What `base.name` means, where the base is a module or a class."""
        if base.means == "module":
            if base.module is not None:
                return self.look(base.module, name)
            inner = f"{base.dotted}.{name}"
            return [self._module(inner)] if self.holds(inner) else [UNKNOWN if base.dotted in self.unread else MISSING]
        if base.means == "outside":
            return [FoundName("outside", dotted=f"{base.dotted}.{name}")]
        if base.means == "class" and base.cls is not None:
            lineage = self.lineage(base.cls)
            member = lineage.member(name)
            if member is not None:
                owner, bound = member
                return [found for one in bound for found in self._member_meaning(owner, one)]
            return [UNKNOWN] if lineage.has(name) else [MISSING]
        return [UNKNOWN]

    def _member_meaning(self, owner: Class, binding: Binding) -> list[FoundName]:
        if binding.kind == "function":
            return [FoundName("function", owner.module, binding, cls=owner)]
        if binding.kind == "class" and isinstance(binding.node, ast.ClassDef):
            return [FoundName("class", owner.module, binding, cls=owner.module.classes[binding.node])]
        return [UNKNOWN]

    def expression(self, module: PythonModule, node: ast.expr) -> list[FoundName]:
        """What an expression of plain names and dots means at the level of a module."""
        if isinstance(node, ast.Subscript):
            return self.expression(module, node.value)
        if isinstance(node, ast.Name):
            found = self.look(module, node.id, typing=True)
            if found == [MISSING] and hasattr(builtins, node.id):
                return [FoundName("outside", dotted=f"builtins.{node.id}")]
            return found
        if isinstance(node, ast.Attribute):
            return [inner for base in self.expression(module, node.value) for inner in self.attribute(base, node.attr)]
        return [UNKNOWN]

    # --- classes

    def lineage(self, cls: Class) -> Lineage:
        """A class with its ancestors, nearest first."""
        if cls not in self._lineages:
            self._lineages[cls] = Lineage((cls,), whole=False)            # a class that is its own ancestor is nobody's to judge
            self._lineages[cls] = self._traced(cls)
        return self._lineages[cls]

    def _traced(self, cls: Class) -> Lineage:
        orders: list[list[Class]] = []
        builtin, outside, whole = list[type](), list[str](), not cls.dynamic and not cls.given_away
        for base in cls.node.bases:
            found = self.expression(cls.module, base)
            whole = whole and len(found) == 1 and found[0].means in ("class", "outside")
            for parent in found:
                if parent.cls is not None and parent.means == "class":
                    above = self.lineage(parent.cls)
                    orders.append(list(above.classes))
                    builtin += above.builtin
                    outside += above.outside
                    whole = whole and above.whole
                elif parent.means == "outside":
                    outside.append(parent.dotted)
                    kind = getattr(builtins, parent.dotted.removeprefix("builtins."), None)
                    if parent.dotted.startswith("builtins.") and isinstance(kind, type):
                        builtin.append(kind)
                    elif parent.dotted not in _EMPTY_BASES | _ENUMS | _TUPLES:
                        whole = False
        merged = _merged([*orders, [order[0] for order in orders]])
        return Lineage((cls, *merged), tuple(builtin), tuple(outside), whole)

    def every_class(self) -> Iterator[Class]:
        """All classes of the repository."""
        for module in self.modules.values():
            yield from module.classes.values()

    @cached_property
    def heirs(self) -> Mapping[Class, list[Class]]:
        """Class → those that inherit from it, at any distance."""
        found: dict[Class, list[Class]] = {}
        for one in self.every_class():
            for above in self.lineage(one).classes[1:]:
                found.setdefault(above, []).append(one)
        return found

    @cached_property
    def attributes_set(self) -> frozenset[str]:
        """Attributes that somebody gives an object from outside (`thing.x = …`, `setattr(thing, "x", …)`): whose is not known."""
        found = set()
        own = {node for one in self.every_class() for node in one.own}
        for module in self.modules.values():
            for node in module.nodes:
                if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and node not in own:
                    found.add(node.attr)
                elif isinstance(node, ast.Call) and last_name(node.func) == "setattr" and len(node.args) > 1:
                    named = node.args[1]
                    if isinstance(named, ast.Constant) and isinstance(named.value, str):
                        found.add(named.value)
        return frozenset(found)

    @cached_property
    def called(self) -> frozenset[str]:
        """The last names of all that is called somewhere: a class that is not among them is made by others, or inherited from."""
        every = (node for module in self.modules.values() for node in module.nodes)
        return frozenset(last_name(node.func) for node in every if isinstance(node, ast.Call))

    def _note_given_away(self) -> None:
        """`add_to(Name)` at the level of a module may give a class what its own text does not show."""
        for module in self.modules.values():
            calls = [one.value for one in module.tree.body if isinstance(one, ast.Expr) and isinstance(one.value, ast.Call)]
            for argument in (argument for call in calls for argument in call.args if isinstance(argument, ast.Name)):
                for found in self.expression(module, argument):
                    if found.cls is not None:
                        found.cls.given_away = True

    def _note_outer_attributes(self) -> None:
        """`Name.attribute = …` outside of a class gives a module or a class what its own text does not show."""
        for module in self.modules.values():
            for node in module.nodes:
                if not (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name)):
                    continue
                for base in self.expression(module, node.value) if node.value.id in module.names else ():
                    if base.cls is not None:
                        base.cls.extra.add(node.attr)
                    elif base.module is not None and base.means == "module":
                        base.module.names.setdefault(node.attr, []).append(
                            Binding(node.attr, "value", node.lineno, node, maybe=True))


def _merged(orders: list[list[Class]]) -> list[Class]:
    """The order in which Python looks through ancestors (C3); where there is none, the first that comes."""
    merged: list[Class] = []
    orders = [list(order) for order in orders if order]
    while orders:
        head = next((order[0] for order in orders if not any(order[0] in other[1:] for other in orders)), orders[0][0])
        merged.append(head)
        orders = [rest for order in orders if (rest := [one for one in order if one is not head])]
    return merged


def names_of(path: str) -> tuple[str, str]:
    """(dotted name, package where relative imports start) of a path: `a/b.py` is `a.b` in `a`, `a/__init__.py` is `a` in `a`."""
    parts = PurePosixPath(path).with_suffix("").parts
    if parts[-1] == "__init__":
        return ".".join(parts[:-1]), ".".join(parts[:-1])
    return ".".join(parts), ".".join(parts[:-1])


def module_of(path: str, tree: ast.Module) -> PythonModule:
    """The module that a file of a package is."""
    return PythonModule(path, *names_of(path), tree)
