"""What a name can be called with: of a function behind its decorators, of a class by what makes its objects."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Literal

from metaflow_agents.kits.python_package.module import Class
from metaflow_agents.kits.python_package.names import Binding, Function, last_name
from metaflow_agents.kits.python_package.repository import Lineage
from metaflow_agents.kits.python_package.signature import FunctionParameter, FunctionSignature

_TRANSPARENT = frozenset(
    {
        "staticmethod",
        "classmethod",
        "cache",
        "lru_cache",
        "wraps",
        "contextmanager",
        "asynccontextmanager",
        "abstractmethod",
        "final",
        "override",
        "deprecated",
        "no_type_check",
        "singledispatch",
        "singledispatchmethod",
        "overload",
        "coroutine",
    }
)
"""Decorators that leave the parameters as they are."""
_PROPERTIES = frozenset({"property", "cached_property", "abstractproperty"})
_OF_PROPERTIES = frozenset({"setter", "deleter", "getter"})
_DATACLASS_WORDS = frozenset(
    {"init", "kw_only", "frozen", "order", "eq", "repr", "slots", "unsafe_hash", "match_args", "weakref_slot"}
)

Nature = Literal["function", "static", "class", "property", "unknown"]


def nature(node: Function) -> Nature:
    """How a function of a class behaves; `unknown` behind a decorator that may do anything."""
    names = [last_name(one) for one in node.decorator_list]
    if any(name in _PROPERTIES for name in names):
        return "property"
    if any(name not in _TRANSPARENT for name in names):
        return "unknown"
    if node.name in ("__new__",) or "staticmethod" in names:
        return "static"
    return "class" if "classmethod" in names or node.name in ("__init_subclass__", "__class_getitem__") else "function"


def prevailing(bound: Sequence[Binding]) -> list[Binding]:
    """Of several definitions of one name those that count: no overloads, no setters of properties, no registered variants."""
    kept = [one for one in bound if not _is_part(one.node)]
    whole = [one for one in kept if not _has(one.node, "overload")]
    # A definition that no condition guards replaces the ones before it.
    for index in range(len(whole) - 1, 0, -1):
        if whole[index].kind in ("function", "class") and not whole[index].maybe:
            return whole[index:]
    return whole or kept


def _is_part(node: ast.AST) -> bool:
    for one in getattr(node, "decorator_list", ()):
        inner = one.func if isinstance(one, ast.Call) else one
        if isinstance(inner, ast.Attribute) and inner.attr in _OF_PROPERTIES | {"register", "overload"}:
            return inner.attr != "overload"
    return False


def _has(node: ast.AST, name: str) -> bool:
    return any(last_name(one) == name for one in getattr(node, "decorator_list", ()))


def signature_of(node: ast.AST, *, member: bool = False) -> FunctionSignature | None:
    """The parameters that callers see: of a method, those behind `self` or `cls`. None where a decorator may change them."""
    if isinstance(node, ast.Lambda):
        return FunctionSignature.of(node)
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    kind = nature(node)
    if kind in ("property", "unknown") or _has(node, "overload"):
        return None
    found = FunctionSignature.of(node)
    return found.bound() if member and kind in ("function", "class") else found


def constructor(lineage: Lineage) -> FunctionSignature | None:
    """What a class is called with, by `__init__` or the fields of a dataclass or named tuple; None where that can't be known."""
    for one in lineage.classes:
        if "__new__" in one.members or any(keyword.arg == "metaclass" and last_name(keyword.value) != "ABCMeta"
                                           for keyword in one.node.keywords):
            return None
        if "__init__" in one.members:
            return _written_init(prevailing(one.members["__init__"]))
        if _dataclass(one) is not None:
            return _dataclass_init(one, lineage)
        if any(last_name(base) == "NamedTuple" for base in one.node.bases):
            return FunctionSignature(tuple(_fields(one, keyword_only=False)))
        if any(last_name(decorator) not in ("total_ordering", "final", "runtime_checkable", "unique")
               for decorator in one.node.decorator_list):
            return None
    known = lineage.whole and not lineage.builtin and set(lineage.outside) <= {"abc.ABC", "typing.Generic", "builtins.object"}
    return FunctionSignature() if known else None


def _written_init(bound: Sequence[Binding]) -> FunctionSignature | None:
    return signature_of(bound[0].node, member=True) if len(bound) == 1 else None


def _dataclass(cls: Class) -> dict[str, bool] | None:
    """The words of its `@dataclass(…)`; None where it has none."""
    for one in cls.node.decorator_list:
        if last_name(one) != "dataclass":
            continue
        keywords = one.keywords if isinstance(one, ast.Call) else []
        return {
            keyword.arg or "**": isinstance(keyword.value, ast.Constant) and bool(keyword.value.value) for keyword in keywords
        }
    return None


def _dataclass_init(cls: Class, lineage: Lineage) -> FunctionSignature | None:
    """Fields from the furthest ancestor on; a field that is declared anew keeps its place."""
    fields: dict[str, FunctionParameter] = {}
    if not lineage.whole and not set(lineage.outside) <= {"abc.ABC", "typing.Generic", "typing.Protocol"}:
        return None
    for one in reversed(lineage.classes):
        words = _dataclass(one)
        if words is None:
            continue
        if set(words) - _DATACLASS_WORDS or (one is cls and words.get("init") is False):
            return None
        if any(last_name(base) == "dataclass" for base in one.node.decorator_list if not _is_stdlib_dataclass(base, one)):
            return None
        for parameter in _fields(one, keyword_only=words.get("kw_only", False)):
            fields[parameter.name] = parameter
        for name in [name for name, bound in one.members.items() if _left_out(bound)]:
            fields.pop(name, None)
    ordered = sorted(fields.values(), key=lambda one: one.kind == "keyword")
    return FunctionSignature(tuple(ordered))


def _is_stdlib_dataclass(node: ast.expr, cls: Class) -> bool:
    """Not pydantic's or another package's decorator of the same name."""
    inner = node.func if isinstance(node, ast.Call) else node
    if isinstance(inner, ast.Attribute):
        return last_name(inner.value) in ("dataclasses", "dc")
    bound = cls.module.names.get(inner.id, []) if isinstance(inner, ast.Name) else []
    return all(one.source == "dataclasses" for one in bound)


def _left_out(bound: Sequence[Binding]) -> bool:
    last = bound[-1]
    return last.annotation is not None and _word(last.value, "init") is False


def _fields(cls: Class, *, keyword_only: bool) -> list[FunctionParameter]:
    found = []
    for name, bound in cls.members.items():
        last = next((one for one in reversed(bound) if one.annotation is not None), None)
        if last is None or last_name(last.annotation) == "ClassVar" or _text_is(last.annotation, "ClassVar"):
            continue
        if last_name(last.annotation) == "KW_ONLY":
            keyword_only = True
            continue
        if _word(last.value, "init") is False:
            continue
        own = _word(last.value, "kw_only")
        kind: Literal["keyword", "plain"] = "keyword" if (keyword_only if own is None else own) else "plain"
        found.append(FunctionParameter(name, kind, _has_default(last.value), last.annotation))
    return found


def _text_is(annotation: ast.expr | None, word: str) -> bool:
    return isinstance(annotation, ast.Constant) and isinstance(annotation.value, str) and word in annotation.value


def _word(value: ast.expr | None, name: str) -> bool | None:
    if not isinstance(value, ast.Call) or last_name(value.func) != "field":
        return None
    return next(
        (bool(one.value.value) for one in value.keywords if one.arg == name and isinstance(one.value, ast.Constant)), None
    )


def _has_default(value: ast.expr | None) -> bool:
    if not isinstance(value, ast.Call) or last_name(value.func) != "field":
        return value is not None
    return any(one.arg in ("default", "default_factory") for one in value.keywords)
