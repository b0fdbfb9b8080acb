"""Which sandbox a run has: decided before anything is made, and never replaced by a weaker one in silence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from metaflow_agents.errors import NotHere, RunError, UsageError, did_you_mean
from metaflow_agents.sandbox.engines import Engine
from metaflow_agents.sandbox.port import Completed, Interpreter, Sandbox

if TYPE_CHECKING:
    from metaflow_agents.sandbox.probe import SandboxHolding

CONFINING = ("bubblewrap", "landlock", "container")
"""In the order in which they are tried where none is named: what promises more comes first."""
NAMES = (*CONFINING, "none")
MEANT = {"sandlock": "landlock", "bwrap": "bubblewrap", "docker": "container", "podman": "container", "nerdctl": "container"}
"""What people may call them. None is taken for another: what is meant is told."""
NOT_BUILT = ("gvisor", "firejail", "seatbelt")
"""What people ask for elsewhere, and what was never put to this package's own tests of escape."""


class Unchosen:
    """For a run that carries out no command. `name` is that of the sandbox that was asked for all the same, if any; `why`
    there is none, where a command may come all the same.
    """

    owner = None
    image = ""

    def __init__(self, name: str = "", why: str = "") -> None:
        self.name, self._why = name, why

    async def run(
        self,
        argv: Sequence[str],
        *,
        files: Mapping[str, bytes],
        timeout: float | None = None,  # noqa: ASYNC109
        collect: Sequence[str] = (),
        changes: bool = False,
        proxy: Path | None = None,
        denied: Sequence[str] = (),
        packages: Path | None = None,
    ) -> Completed:
        """Raises RunError, or NotHere where it was said why there is no sandbox."""
        self._refuse()
        raise RunError(f"`{argv[0]}` would run without a sandbox: none was chosen for this run")

    def interpreter(
        self, *, files: Mapping[str, bytes], timeout: float | None = None, denied: Sequence[str] = (),
        packages: Path | None = None,
    ) -> AbstractAsyncContextManager[Interpreter]:
        """Raises RunError, or NotHere where it was said why there is no sandbox."""
        self._refuse()
        raise RunError("Python would run without a sandbox: none was chosen for this run")

    def _refuse(self) -> None:
        if self._why:
            raise NotHere(self._why)


def refuse_unknown(name: str | None) -> None:
    """Raises UsageError for a name that no sandbox has, or one that is not built."""
    if name in MEANT:
        raise UsageError(f"there is no sandbox `{name}`: `--sandbox {MEANT[name]}` runs commands by it")
    if name in NOT_BUILT:
        raise UsageError(f"the sandbox `{name}` is not built: what confines commands is put to the same tests of escape first; "
                         f"choices: {', '.join(NAMES)}")
    if name not in (None, "", *NAMES):
        raise UsageError(f"there is no sandbox `{name}` in this version: {did_you_mean(str(name), NAMES)}")


def looked_at(name: str, environment: Mapping[str, str], engine: Engine) -> SandboxHolding:
    """Whether a confining sandbox holds here; looked at once in a process."""
    from metaflow_agents.sandbox import probe

    if name == "bubblewrap":
        return probe.bubblewrap_holds(environment.get("PATH"))
    return probe.landlock_holds() if name == "landlock" else probe.container_holds(engine)


def choose(name: str | None, environment: Mapping[str, str], *, what_for: str, engine: Engine | None = None) -> Sandbox:
    """The sandbox of that name; of none, the first of `CONFINING` that holds here. `environment`: what commands may get of the
    user's. `engine`: what carries containers out.

    Raises NotHere where it does not hold here, with the lines that fix it; `what_for` begins that message.
    """
    refuse_unknown(name)
    if name == "none":
        from metaflow_agents.sandbox.unconfined import Unconfined

        return Unconfined(environment)
    engine = engine or Engine()
    refused: dict[str, SandboxHolding] = {}
    for one in (name,) if name else CONFINING:
        found = looked_at(one, environment, engine)
        if found.program is not None:
            return _made(one, found, environment, engine)
        refused[one] = found
    told = f"the sandbox `{name}` does not work here" if name else "no sandbox works here"
    lines = [f"{what_for}, and {told}:"]
    for one, found in refused.items():
        lines += [f"  {one}: {found.why}", f"    fix:          {found.mend}"]
    others = [one for one in CONFINING if name and one != name and looked_at(one, environment, engine).program is not None]
    lines += [f"  to use another: --sandbox {one}    works here" for one in others]
    lines.append("  to do without:  --sandbox none    runs commands unconfined, on copies of the run's files")
    raise NotHere("\n".join(lines))


def _made(name: str, found: SandboxHolding, environment: Mapping[str, str], engine: Engine) -> Sandbox:
    if name == "bubblewrap":
        from metaflow_agents.sandbox.bubblewrap import Bubblewrap

        return Bubblewrap(str(found.program), environment)
    if name == "landlock":
        from metaflow_agents.sandbox.landlock import Landlock

        return Landlock(environment)
    from metaflow_agents.sandbox.container import Container

    return Container(str(found.program), found.image, dict(engine.environment))
