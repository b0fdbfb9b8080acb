"""A lock: each package with the version, the wheel and the SHA-256 that an environment is made from. Pure; read strictly, since a
journal may be somebody else's.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Annotated, Any

from packaging.tags import Tag, sys_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version
from pydantic import Field, ValidationError, model_validator

from metaflow_agents.errors import AttemptFailed
from metaflow_agents.sandbox.interpreter import python_version
from metaflow_agents.schema.model import Value, fingerprint

MOST = 200
"""Packages of a lock."""


class Package(Value):
    """One package. `file`: the name of its wheel, which says name and version too."""

    name: Annotated[str, Field(max_length=100)]
    version: Annotated[str, Field(max_length=100)]
    file: Annotated[str, Field(max_length=250)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

    @model_validator(mode="after")
    def _agree(self) -> Package:
        try:
            name, version, _, _ = parse_wheel_filename(self.file)
        except InvalidWheelFilename:
            raise ValueError(f"`{self.file}` is no name of a wheel") from None
        if name != canonicalize_name(self.name, validate=True) or version != Version(self.version) or name != self.name:
            raise ValueError(f"the wheel `{self.file}` is not that of {self.name} {self.version}")
        if "/" in self.file or "\\" in self.file or not self.file.isprintable():
            raise ValueError(f"`{self.file}` is no name of a file")
        return self

    @property
    def fits(self) -> bool:
        """Whether the wheel is for this Python on this machine."""
        return not parse_wheel_filename(self.file)[3].isdisjoint(_tags())


class Lock(Value):
    """Packages by name, for a version of Python (`3.11`). `left_out`: files of theirs that environments do not get, and why."""

    python: Annotated[str, Field(pattern=r"^\d+\.\d+$")]
    packages: Annotated[tuple[Package, ...], Field(max_length=MOST)]
    left_out: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _once(self) -> Lock:
        twice = [name for name, count in Counter(one.name for one in self.packages).items() if count > 1]
        if twice:
            raise ValueError(f"`{twice[0]}` stands in it twice")
        return self

    @property
    def digest(self) -> str:
        """Of all that decides what an environment holds."""
        return fingerprint({"python": self.python, "packages": [one.model_dump() for one in self.packages]})


@cache
def _tags() -> frozenset[Tag]:
    return frozenset(sys_tags())


def parse_lock(value: Any, name: str) -> Lock:
    """The lock that an artifact holds. Raises AttemptFailed where it is none, or one for another Python or machine."""
    try:
        lock = Lock.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        at = ".".join(map(str, first["loc"]))
        raise AttemptFailed(f"`{name}` is no lock of packages: {at + ': ' if at else ''}{first['msg']}; let a step with "
                            "`tool: packages` make it") from None
    if lock.python != python_version():
        raise AttemptFailed(f"`{name}` is a lock for Python {lock.python}, and commands run by {python_version()}: go on with "
                            f"Python {lock.python}, or let its step make it anew (`sop fork --at`)")
    if alien := next((one for one in lock.packages if not one.fits), None):
        raise AttemptFailed(f"`{alien.file}` of `{name}` is a wheel for another machine: let the step that made the "
                            "lock run here (`sop fork --at`)")
    return lock
