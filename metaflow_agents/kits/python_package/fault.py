"""One thing that has to change, and the words it is told in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from metaflow_agents.errors import did_you_mean

DESIGN = "design"
"""The path of a fault that no file can fix: the design has to change, and the architect is who hears of it."""
Blamed = Callable[[str, str], bool]
"""Whether a fault was told already of a name, by the path of its file and its dotted name: who uses it is not to blame."""


@dataclass(frozen=True, slots=True, order=True)
class PackageFault:
    """What is wrong with one file.

    `path` is the file to change, `pyproject.toml`, or `design`; `line` counts from 1, 0 is the whole.
    """

    path: str
    line: int
    why: str = field(compare=True)

    def as_json(self) -> dict[str, str]:
        """The form in which the artifact holds it: `{path, why}`, the line being part of the words."""
        return {"path": self.path, "why": f"line {self.line}: {self.why}" if self.line else self.why}


def there_is(name: str, choices: Iterable[str]) -> str:
    """The nearest name and the public ones that exist: what somebody who got a name wrong needs to see."""
    return did_you_mean(name, sorted(choice for choice in choices if not choice.startswith("_") or choice == name))


def listed(names: Iterable[str]) -> str:
    """Names in backticks, with commas."""
    return ", ".join(f"`{name}`" for name in names)
