"""Each entry of an interface against what stands in its file: is it there, is it of its kind, does it take what was promised."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence

from metaflow_agents.kits.python_package.callables import constructor, nature, prevailing, signature_of
from metaflow_agents.kits.python_package.declared import Declared
from metaflow_agents.kits.python_package.fault import PackageFault, there_is
from metaflow_agents.kits.python_package.module import Class, PythonModule, literal
from metaflow_agents.kits.python_package.names import FUNCTIONS, Binding, last_name
from metaflow_agents.kits.python_package.repository import MISSING, FoundName, PackageRepository, standalone
from metaflow_agents.kits.python_package.signature import FunctionSignature, differences
from metaflow_agents.kits.python_package.types import contradict

_KINDS = {"function": "a function", "class": "a class", "property": "a property", "value": "a value", "module": "a module"}


class Promised:
    """Compares the entries of one file.

    `told` holds the dotted names that a fault was told of, so that nobody is blamed twice.
    """

    def __init__(self, repository: PackageRepository, module: PythonModule, entries: Sequence[Declared]) -> None:
        self._repository, self._module, self._entries = repository, module, entries
        self.told: set[str] = set()

    def faults(self) -> Iterator[PackageFault]:
        """What is missing, of another kind, or takes other parameters than its entry says."""
        for entry in self._entries:
            for name in entry.names:
                for line, why in self._of_name(entry, name):
                    self.told.add(name)
                    yield PackageFault(self._module.path, line, why)

    def _of_name(self, entry: Declared, name: str) -> Iterator[tuple[int, str]]:
        found = self._repository.look(self._module, name)
        if found == [MISSING]:
            if not any(one.kind == "from" and not one.typing for one in self._module.names.get(name, ())):
                yield 0, self._missing(entry, name)
            return                   # it is imported here: what it is taken from lacks it, or the import is wrong
        if entry.binding.kind in ("from", "import"):
            return
        judged = [list(self._of_found(entry, one)) for one in self._prevailing(found)]
        if judged and all(judged):  # of several definitions under conditions, one that keeps the promise is enough
            yield from judged[-1]

    def _missing(self, entry: Declared, name: str) -> str:
        typing = any(one.typing for one in self._module.names.get(name, ()))
        there = "it stands there for type checkers alone" if typing else there_is(name, self._repository.exports(self._module))
        noted = any(one.kind == "note" for one in self._module.names.get(name, ()))
        if noted:
            there = "it is annotated there and never given a value"
        return (f"`{name}` is not defined here; the design promises `{entry.written}`; {there}; "
                f"fix: define `{name}` as the design has it")

    @staticmethod
    def _prevailing(found: Sequence[FoundName]) -> list[FoundName]:
        kept = prevailing([one.binding for one in found if one.binding is not None])
        return [one for one in found if one.binding is None or any(one.binding is other for other in kept)]

    def _of_found(self, entry: Declared, found: FoundName) -> Iterator[tuple[int, str]]:
        """(line, why) of all that is wrong with one definition."""
        declared, written = entry.binding, found.binding
        if written is None or found.means not in ("function", "class", "value"):
            return
        line = written.line if found.module is self._module else 0
        match declared.kind, found.means:
            case "function", "function":
                yield from self._called(entry, entry.binding.name, declared.node, written.node, line, member=False)
            case "class", "class" if found.cls is not None:
                yield from self._class(entry, found.cls, line)
            case "function" | "class", "value":
                yield from self._stands_in(entry, written, line)
            case "value" | "note", "value":
                yield from self._value(entry, entry.binding.name, written, line)
            case "value" | "note", _ if _is_callable_type(declared.annotation) or not literal(declared.value)[0]:
                return                           # a function or a class is a value too
            case _:
                yield line, self._other_kind(entry, declared.name, _KINDS[declared.kind if declared.kind != "note" else "value"],
                                             _KINDS[found.means])

    @staticmethod
    def _other_kind(entry: Declared, name: str, wanted: str, there: str) -> str:
        return f"`{name}` is {there}; the design promises {wanted}: `{entry.written}`; fix: write it as the design has it"

    def _stands_in(self, entry: Declared, written: Binding, line: int) -> Iterator[tuple[int, str]]:
        """A plain value where a function or a class was promised; what a call makes may well be one."""
        if isinstance(written.value, ast.Lambda) and entry.binding.kind == "function":
            yield from self._called(entry, entry.binding.name, entry.binding.node, written.value, line, member=False)
        elif literal(written.value)[0] and literal(written.value)[1] is not None:
            yield line, self._other_kind(entry, entry.binding.name, _KINDS[entry.binding.kind], "a value")

    # --- functions

    def _called(self, entry: Declared, name: str, declared: ast.AST, written: ast.AST, line: int, *, member: bool,
                ) -> Iterator[tuple[int, str]]:
        ours, theirs = signature_of(declared, member=member), signature_of(written, member=member)
        for decorated in (declared, written):
            if isinstance(decorated, ast.FunctionDef | ast.AsyncFunctionDef) and nature(decorated) == "unknown":
                return
        told = [] if ours is None or theirs is None else [*differences(ours, theirs), *_types(ours, theirs)]
        if isinstance(declared, ast.AsyncFunctionDef) and isinstance(written, ast.FunctionDef) and not _awaitable(written):
            told.append("it is not `async`")
        elif isinstance(declared, ast.FunctionDef) and isinstance(written, ast.AsyncFunctionDef) and not _awaitable(declared):
            told.append("it is `async`")
        if told:
            yield line, self._differs(entry, f"{name}{theirs or ''}", told)

    @staticmethod
    def _differs(entry: Declared, written: str, told: Sequence[str]) -> str:
        return (f"`{written}` is not what the design promises, `{entry.written}`: {'; '.join(told)}; "
                "fix: write it as the design has it")

    # --- values

    def _value(self, entry: Declared, name: str, written: Binding, line: int) -> Iterator[tuple[int, str]]:
        """A constant whose value the design gives has that value."""
        plain, wanted = literal(entry.binding.value)
        known, there = literal(written.value)
        if plain and known and (wanted != there or type(wanted) is not type(there)):
            shown = ast.unparse(written.value) if written.value is not None else ""
            yield (
                line,
                (
                    f"`{name}` is `{shown[:80]}`; the design promises `{entry.written}`; "
                    "fix: give it the value that the design has"
                ),
            )

    # --- classes

    def _class(self, entry: Declared, cls: Class, line: int) -> Iterator[tuple[int, str]]:
        yield from ((line, why) for why in self._bases(entry, cls))
        yield from ((line, why) for why in self._constructor(entry, cls))
        for member in entry.members:
            for name in member.names:
                if name in ("__init__", "__new__"):
                    continue
                for place, why in self._member(entry, member, name, cls):
                    self.told.add(f"{entry.binding.name}.{name}")
                    yield place or line, why

    def _bases(self, entry: Declared, cls: Class) -> Iterator[str]:
        lineage = self._repository.lineage(cls)
        there = {one.node.name for one in lineage.classes[1:]} | {
            last_name(base) for one in lineage.classes for base in one.node.bases
        }
        there |= {parent.__name__ for kind in lineage.builtin for parent in kind.__mro__} | {"object"}
        node = entry.binding.node
        for base in node.bases if isinstance(node, ast.ClassDef) else []:
            name = last_name(base)
            if name in there or not name or self._is_alias(name):
                continue
            if not lineage.whole and not self._is_plain_base(name):
                continue
            shown = ", ".join(ast.unparse(one) for one in cls.node.bases) or "nothing"
            yield (f"`{cls.node.name}` inherits from {shown}; the design promises `{entry.written}`; "
                   f"fix: make it inherit from `{name}`")

    def _is_plain_base(self, name: str) -> bool:
        """Whether it is a class of the repository or of Python itself: what inherits from it, inherits in plain sight."""
        return any(one.node.name == name for one in self._repository.every_class()) or isinstance(
            getattr(builtins, name, None), type
        )

    def _is_alias(self, name: str) -> bool:
        return any(binding.kind == "value" for binding in self._module.names.get(name, ()))

    def _constructor(self, entry: Declared, cls: Class) -> Iterator[str]:
        first = self._repository.lineage(cls).member("__init__")
        if first is not None and isinstance(first[1][-1].node, ast.AsyncFunctionDef):
            yield f"`{cls.node.name}.__init__` is `async`, and no object can be made so; fix: write `def __init__`"
        declared = _declared_constructor(entry)
        written = constructor(self._repository.lineage(cls))
        if declared is None or written is None:
            return
        told = [*differences(declared, written), *_types(declared, written)]
        if told:
            promised = next(
                (one.written for one in entry.members if one.names == ["__init__"]), f"{entry.binding.name}{declared}"
            )
            self.told.add(f"{entry.binding.name}.__init__")
            yield (f"`{cls.node.name}{written}` is not how the design has it made, `{promised}`: {'; '.join(told)}; "
                   "fix: let it take what the design says")

    def _member(self, entry: Declared, member: Declared, name: str, cls: Class) -> Iterator[tuple[int, str]]:
        lineage = self._repository.lineage(cls)
        whole = f"{entry.binding.name}.{name}"
        found = lineage.member(name)
        if found is None:
            if not lineage.has(name):
                yield 0, (f"`{whole}` is not there; the design promises `{member.written}` in `{entry.binding.name}`; "
                          f"{there_is(name, lineage.names)}; fix: add it to the class")
            elif member.binding.kind == "function" and any(name in one.attributes for one in lineage.classes):
                return
            return
        owner, bound = found
        if member.binding.kind == "value" and any(name in one.attributes for one in lineage.classes):
            return                                           # its objects have their own, whatever the class has
        judged = [list(self._of_member(member, whole, one, owner)) for one in prevailing(bound)]
        if judged and all(judged):
            yield from judged[-1]

    def _of_member(self, member: Declared, name: str, written: Binding, owner: Class) -> Iterator[tuple[int, str]]:
        line = written.line if owner.module is self._module else 0
        declared = member.binding
        if declared.kind == "function" and written.kind == "function":
            ours, theirs = (nature(one.node) for one in (declared, written) if isinstance(one.node, FUNCTIONS))
            if "unknown" in (ours, theirs):
                return
            if (ours == "property") is not (theirs == "property"):
                wanted, there = ("a property", "a method") if ours == "property" else ("a method", "a property")
                yield line, self._other_kind(member, name, wanted, there)
            elif ours in ("static", "class") and theirs == "function":
                yield line, self._other_kind(member, name, f"a {ours}method", "a method of its objects")
            elif ours != "property":
                yield from self._called(member, name, declared.node, written.node, line, member=True)
        elif declared.kind == "function" and written.kind in ("value", "note"):
            if isinstance(declared.node, FUNCTIONS) and nature(declared.node) != "property" and literal(written.value)[0]:
                yield line, self._other_kind(member, name, "a method", "a value")
        elif declared.kind in ("value", "note") and written.kind == "function":
            natures = ("property", "unknown")
            if (
                not _is_callable_type(declared.annotation)
                and isinstance(written.node, FUNCTIONS)
                and nature(written.node) not in natures
            ):
                yield line, self._other_kind(member, name, "a value", "a method")
        elif declared.kind == "value" and written.kind == "value":
            yield from self._value(member, name, written, line)


def _declared_constructor(entry: Declared) -> FunctionSignature | None:
    """What the design has the class made with: `__init__` where it has one, else the fields of its dataclass or named tuple."""
    for member in entry.members:
        if member.names == ["__init__"]:
            return signature_of(member.binding.node, member=True)
    node = entry.binding.node
    if not isinstance(node, ast.ClassDef):
        return None
    made = ast.ClassDef(node.name, [one for one in node.bases if last_name(one) == "NamedTuple"], [],
                        [member.binding.node for member in entry.members if isinstance(member.binding.node, ast.stmt)],
                        [one for one in node.decorator_list if last_name(one) == "dataclass"])
    if not made.bases and not made.decorator_list:
        return None
    inherited = len(node.bases) > len(made.bases)
    return None if inherited else constructor(standalone(Class(PythonModule("", "", "", ast.Module([], [])), made)))


def _types(declared: FunctionSignature, written: FunctionSignature) -> list[str]:
    """Parameters and results whose types can't both be right."""
    told = []
    for ours in declared.parameters:
        theirs = written.named(ours.name)
        if theirs is not None and ours.annotation and theirs.annotation and contradict(ours.annotation, theirs.annotation):
            told.append(f"`{ours.name}` is a `{ast.unparse(theirs.annotation)}`, not a `{ast.unparse(ours.annotation)}`")
    if declared.returns and written.returns and contradict(declared.returns, written.returns):
        told.append(f"it gives `{ast.unparse(written.returns)}`, not `{ast.unparse(declared.returns)}`")
    return told


def _awaitable(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a plain function says that what it gives is awaited or iterated asynchronously."""
    return last_name(node.returns) in (
        "Awaitable",
        "Coroutine",
        "Future",
        "Task",
        "AsyncIterator",
        "AsyncIterable",
        "AsyncGenerator",
    )


def _is_callable_type(annotation: ast.expr | None) -> bool:
    return annotation is not None and "Callable" in ast.unparse(annotation)
