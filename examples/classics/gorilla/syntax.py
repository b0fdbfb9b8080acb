"""Answers checked by their syntax trees, as Gorilla's authors do: a call is right where a documented call is a sub-tree of it."""

from __future__ import annotations

import ast
from typing import Any

from library import library


def calls(code: str) -> list[ast.Call]:
    """The calls of a text of Python, outermost first. Raises SyntaxError."""
    return [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]


def name_of(call: ast.Call) -> str:
    """`a.b.c` of `a.b.c(…)`."""
    return ast.unparse(call.func)


def holds(call: ast.Call, documented: str) -> bool:
    """Whether a documented call is a sub-tree of this one: the same function, and each argument that it fixes."""
    wanted = ast.parse(documented, mode="eval").body
    assert isinstance(wanted, ast.Call)
    given = {one.arg: ast.dump(one.value) for one in call.keywords}
    return name_of(call) == name_of(wanted) and all(given.get(one.arg) == ast.dump(one.value) for one in wanted.keywords)


def wrong_arguments(call: ast.Call, document: dict[str, Any]) -> list[str]:
    """What is wrong with the arguments of a call, held against the document that it is of."""
    fixed = {one.arg for one in ast.parse(document["call"], mode="eval").body.keywords}     # type: ignore[attr-defined]
    names = [*document["parameters"]]
    given = [*names[:len(call.args)], *(one.arg for one in call.keywords if one.arg is not None)]
    faults = [f"`{name}` is no parameter of `{name_of(call)}`: there is: {', '.join(names)}"
              for name in given
              if name not in document["parameters"] and name not in fixed]
    if len(call.args) > len(names):
        faults.append(f"`{name_of(call)}` takes {len(names)} arguments, not {len(call.args)}")
    missing = [name for name in document["required"] if name not in given]
    return faults + [f"`{name}` is missing in the call of `{name_of(call)}`" for name in missing]


def faults(code: str, found: list[dict[str, Any]]) -> list[str]:
    """What is wrong with an answer, by the documents that were fetched for it; without any, whether it is a call at all."""
    try:
        made = calls(code)
    except (SyntaxError, ValueError, RecursionError) as error:
        return [f"it is no Python: {error}"]
    if not made:
        return ["it calls nothing"]
    if not found:
        return []
    for document in found:
        if holds(made[0], document["call"]):
            return wrong_arguments(made[0], document)
    return [f"`{ast.unparse(made[0])}` calls what none of the documents describes; they describe: "
            + "; ".join(f"`{document['call']}`" for document in found)]


def verdict(code: str, folder: str) -> dict[str, str]:
    """Of an answer, held against all documents of a folder: `documented`, with the file; `hallucinated`, where no document is a
    sub-tree of what it calls; `arguments`, where they are not those of its document.
    """
    made = calls(code)[0]
    for file, document in library(folder).documents.items():
        if holds(made, document["call"]):
            return {"kind": "arguments" if wrong_arguments(made, document) else "documented", "name": name_of(made), "file": file}
    return {"kind": "hallucinated", "name": name_of(made), "file": ""}
