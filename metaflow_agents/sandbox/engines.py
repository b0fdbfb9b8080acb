"""Which program carries containers out, and of which image: what the user says, and what is looked for where nothing is said."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass

from metaflow_agents.settings import Settings

PROGRAMS = ("docker", "podman", "nerdctl")
IMAGE = f"metaflow-agents-python:{sys.version_info.major}.{sys.version_info.minor}"
"""The image that is looked for where none is named: the line that `sop doctor` tells builds it."""


@dataclass(frozen=True, slots=True)
class Engine:
    """What carries containers out. `program`: docker, podman, or one of their kind; None: the first that works. `image`: the
    image's name or digest; None: `IMAGE`. `environment`: (name, value)… of the program itself, such as where its machine is;
    none of it reaches a container.
    """

    program: str | None = None
    image: str | None = None
    environment: tuple[tuple[str, str], ...] = ()

    def found(self) -> list[str]:
        """The paths of the program, or of those that are looked for."""
        path = dict(self.environment).get("PATH")
        return [found for name in ([self.program] if self.program else PROGRAMS) if (found := shutil.which(name, path=path))]

    @property
    def wanted(self) -> str:
        """The image by the name that it was given."""
        return self.image or IMAGE


def engine_of(settings: Settings) -> Engine:
    """What carries containers out, as the environment says."""
    return Engine(settings.container, settings.container_image, tuple(settings.container_environment.items()))
