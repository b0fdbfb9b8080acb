"""Habits from other languages, each with its fix: what people write who come from Python, JavaScript or GitHub Actions."""

from __future__ import annotations

import re

MOST = 2_000
"""Characters that a foreign operator is looked for in: a hint is worth no more, and what follows takes quadratic time."""
_STRING = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"", re.S)
_WRITTEN: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (re.compile(r"&&"), "`&&` is not known here", "write `and`"),
    (re.compile(r"\|\|"), "`||` is not known here", "write `or`"),
    (re.compile(r"[!=]=="), "`===` and `!==` are not known here", "write `==` or `!=`"),
    (re.compile(r"!(?!=)"), "`!` is not known here", "write `not`"),
    (re.compile(r"(?<![\w.])[fF](?=['\"])"), "formatted texts (`f'…'`) are not known here", "join with `~`: `'a' ~ x`"),
    (re.compile(r"\?\?"), "`??` is not known here", "write `x | default('…')`"),
    (re.compile(r"\?\."), "`?.` is not known here", "write `.`: what is missing is falsy, and so is any field of it"),
    (re.compile(r"\?"), "`? :` is not known here", "write `a if condition else b`"),
    (re.compile(r"=>|\blambda\b"), "functions can't be written here", "use `map`, `select` or `selectattr`"),
    (re.compile(r"\bfor\b.*\bin\b"), "comprehensions are not known here", "use `map`, `select` or `selectattr`"),
    (re.compile(r"\bis\s+(?:not\s+)?(?=[\[{\d\"'])"), "`is` takes a test, not a value", "compare with `==`"),
    (re.compile(r"(?<![=!<>])=(?!=)"), "`=` does not compare", "write `==`"),
)

NAMES = {"null": "none", "undefined": "none", "nil": "none", "NULL": "none", "Null": "none", "TRUE": "true", "FALSE": "false",
         "this": "the item's own name", "env": "an input of the SOP", "matrix": "`foreach`, and the item's own name",
         "inputs": "the input's own name", "steps": "the artifact that the step makes", "needs": "the artifact's own name",
         "github": "an input of the SOP", "secrets": "nothing: secrets never stand in an expression"}

FUNCTIONS = {
    "len": "x | length", "str": "x | string", "int": "x | int", "float": "x | float", "list": "x | list", "sorted": "x | sort",
    "sum": "x | sum", "min": "x | min", "max": "x | max", "abs": "x | abs", "round": "x | round", "reversed": "x | reverse",
    "set": "x | unique", "any": "x | select | first", "all": "not (x | reject | first)", "map": "x | map(attribute='…')",
    "filter": "x | selectattr('…')", "dict": "{'key': value}", "enumerate": "loop.index in a {% for %}",
    "zip": "one list of mappings",
    "print": "{{ x }}", "isinstance": "x is mapping", "bool": "x", "type": "x is string", "format": "'%s' | format(x)",
    "contains": "'part' in x", "startsWith": "x is startingwith('…')", "endsWith": "x is endingwith('…')", "toJSON": "x | tojson",
    "fromJSON": "the artifact itself: it is data already", "success": "the artifact's own field", "failure": "not artifact.ok",
    "always": "true", "lookup": "an input of the SOP", "ref": "the artifact's own name"}

METHODS = {
    "items": "x | items", "keys": "x | keys", "values": "x | values", "get": "x['key'] | default('…')", "split": "x | split('…')",
    "splitlines": "x | lines", "join": "x | join('…')", "lower": "x | lower", "upper": "x | upper", "strip": "x | trim",
    "title": "x | title", "capitalize": "x | capitalize", "replace": "x | replace('a', 'b')", "format": "'%s' | format(x)",
    "startswith": "x is startingwith('…')", "endswith": "x is endingwith('…')", "count": "x | length", "append": "x + [item]",
    "extend": "x + y", "index": "x.index in a loop", "sort": "x | sort", "reverse": "x | reverse", "includes": "item in x",
    "filter": "x | selectattr('…')", "map": "x | map(attribute='…')", "length": "x | length", "toLowerCase": "x | lower",
    "toUpperCase": "x | upper", "trim": "x | trim", "some": "x | select | first", "every": "not (x | reject | first)",
    "copy": "x", "pop": "x[:-1]", "union": "(x + y) | unique", "isdigit": "x | int", "find": "'part' in x", "encode": "x"}

LENGTHS = ("length", "size", "len", "count")


def braces(text: str) -> str | None:
    """The expression inside `{{ }}` or `${{ }}` that stand around the whole text, else None."""
    inner = text.strip().removeprefix("$")
    if not (inner.startswith("{{") and inner.endswith("}}") and len(inner) >= 4):
        return None
    inner = inner[2:-2].removeprefix("-").removesuffix("-").strip()
    return None if "{{" in inner else inner


def written(text: str) -> tuple[str, str, int] | None:
    """The first foreign operator outside of texts, as (message, mend, offset)."""
    # the quotes stay, so that a prefix in front of them is still seen
    masked = _STRING.sub(lambda m: m[0][0] + " " * (len(m[0]) - 2) + m[0][-1], text[:MOST])
    for pattern, message, mend in _WRITTEN:
        found = pattern.search(masked)
        if found:
            return message, mend, found.start()
    return None
