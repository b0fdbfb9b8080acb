"""The job of a worker: small changes of a script, each of which its tests should notice. The kinds are those of `mutants`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_OPERATORS = {b"<": b"<=", b"<=": b"<", b">": b">=", b">=": b">", b"===": b"!==", b"!==": b"===", b"==": b"!=", b"!=": b"==",
              b"+": b"-", b"-": b"+", b"*": b"/", b"/": b"*", b"%": b"*", b"&&": b"||", b"||": b"&&", b"??": b"&&"}
_TEXTS = frozenset({"string", "template_string"})
_NAMED = frozenset({"function_declaration", "generator_function_declaration", "method_definition", "class_declaration",
                    "variable_declarator", "function_expression"})
_LEFT_OUT = frozenset({"formal_parameters", "regex", "comment", "import_statement", "export_specifier"})
_BESIDE = re.compile(rb"\s*(?:await\s+)?console\s*\.")
_FOR_THE_START = re.compile(rb"typeof\s+(?:module|exports|window|document|require|globalThis|self)\b|\brequire\.main\b")
_DRIVES_A_PAGE = re.compile(rb"(?<!typeof )\b(?:document|window|localStorage|navigator|location)\s*[.\[]")
_MOST = 4_000
_DEEPEST = 400                      # nodes in nodes; deeper ones are not changed


@cache
def _parser() -> Parser:
    import tree_sitter_javascript
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_javascript.language()))


def drives_a_page(data: bytes) -> bool:
    """Whether a script can't be run without a browser, so that no test of it is asked for."""
    return _DRIVES_A_PAGE.search(data) is not None


def changes_job(data: bytes) -> list[list[Any]]:
    """`[line, start, end, now, within]` of each change: the bytes from `start` to `end` become `now`, a text. `within`: the
    functions around it. Nothing of a script with faults, or of one that drives a page.
    """
    root = _parser().parse(data).root_node
    if root.has_error or drives_a_page(data):
        return []
    found: list[list[Any]] = []
    for node, now, within in _changes(root, data):
        if len(found) < _MOST and now != data[node.start_byte:node.end_byte]:
            found.append([node.start_point[0] + 1, node.start_byte, node.end_byte, now.decode(), within])
    return found


def _changes(root: Node, data: bytes) -> Iterator[tuple[Node, bytes, str]]:
    waiting = [(root, "", 0)]
    while waiting:                                          # without recursion: nodes may be nested as deep as they like
        node, within, depth = waiting.pop()
        if node.type in _LEFT_OUT or depth > _DEEPEST or (node.type == "if_statement" and _is_for_the_start(node, data)):
            continue
        name = node.child_by_field_name("name") if node.type in _NAMED else None
        inner = f"{within}.{data[name.start_byte:name.end_byte].decode(errors='replace')}".lstrip(".") if name else within
        if now := _instead(node, data):
            yield node, now, inner
        waiting += [(child, inner, depth + 1) for child in reversed(node.named_children)]


def _is_for_the_start(node: Node, data: bytes) -> bool:
    condition = node.child_by_field_name("condition")
    return condition is not None and _FOR_THE_START.search(data, condition.start_byte, condition.end_byte) is not None


def _instead(node: Node, data: bytes) -> bytes:
    """What could stand there instead; empty where nothing could."""
    text = data[node.start_byte:node.end_byte]
    match node.type:
        case "binary_expression":
            return _other_operator(node, data)
        case "unary_expression" if text.startswith(b"!"):
            argument = node.child_by_field_name("argument")
            return b"" if argument is None else b"(" + data[argument.start_byte:argument.end_byte] + b")"
        case "true" | "false":
            return b"false" if node.type == "true" else b"true"
        case "number" if text.isdigit() and len(text) < 5 and (text == b"0" or not text.startswith(b"0")):
            return str(int(text) + 1).encode()
        case "return_statement" if node.named_children and node.named_children[0].type not in ("null", "undefined"):
            return b"return undefined;"
        case "throw_statement":
            return b";"
        case "expression_statement" if node.named_children and _is_a_call(node.named_children[0]) and not _BESIDE.match(text):
            return b";"
        case _:
            return b""


def _other_operator(node: Node, data: bytes) -> bytes:
    """The expression with another operator, in brackets. Not where it begins a statement, which may have no `;` before it."""
    left, sign, right = (node.child_by_field_name(name) for name in ("left", "operator", "right"))
    if left is None or sign is None or right is None or (node.parent is not None and node.parent.type == "expression_statement"):
        return b""
    now = _OPERATORS.get(data[sign.start_byte:sign.end_byte])
    if now is None or (now == b"-" and _TEXTS & {left.type, right.type}):
        return b""
    return b"(" + data[node.start_byte:sign.start_byte] + now + data[sign.end_byte:node.end_byte] + b")"


def _is_a_call(node: Node) -> bool:
    inner = node.named_children[0] if node.type == "await_expression" and node.named_children else node
    return inner.type == "call_expression"
