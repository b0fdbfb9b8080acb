"""Which sandbox a run has: decided before anything is made, and never replaced by a weaker one in silence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from metaflow_agents.errors import RunError, UsageError, did_you_mean
from metaflow_agents.sandbox.port import Completed, Interpreter, Sandbox

NAMES = ("bubblewrap", "none")
NOT_BUILT = ("sandlock", "landlock", "docker", "podman", "gvisor", "seatbelt")
"""What people ask for elsewhere. None is taken for another: what can't be put to this package's own tests is refused by name."""


class Unchosen:
    """For a run that carries out no command. `name` is that of the sandbox that was asked for all the same, if any."""

    owner = None

    def __init__(self, name: str = "") -> None:
        self.name = name

    async def run(
        self,
        argv: Sequence[str],
        *,
        files: Mapping[str, bytes],
        timeout: float | None = None,  # noqa: ASYNC109
        collect: Sequence[str] = (),
        changes: bool = False,
        proxy: Path | None = None,
    ) -> Completed:
        """Raises RunError."""
        raise RunError(f"`{argv[0]}` would run without a sandbox: none was chosen for this run")

    def interpreter(
        self, *, files: Mapping[str, bytes], timeout: float | None = None
    ) -> AbstractAsyncContextManager[Interpreter]:
        """Raises RunError."""
        raise RunError("Python would run without a sandbox: none was chosen for this run")


def refuse_unknown(name: str | None) -> None:
    """Raises UsageError for a name that no sandbox has, or one that is not built."""
    if name in NOT_BUILT:
        raise UsageError(f"the sandbox `{name}` is not built: what confines commands is put to the same tests of escape first; "
                         f"choices: {', '.join(NAMES)}")
    if name not in (None, "", *NAMES):
        raise UsageError(f"there is no sandbox `{name}` in this version: {did_you_mean(str(name), NAMES)}")


def choose(name: str | None, environment: Mapping[str, str], *, what_for: str) -> Sandbox:
    """The sandbox of that name; of none, `bubblewrap`. `environment`: what commands may get of the user's.

    Raises UsageError where it does not hold here, with the line that mends it; `what_for` begins that message.
    """
    refuse_unknown(name)
    if name == "none":
        from metaflow_agents.sandbox.unconfined import Unconfined

        return Unconfined(environment)
    from metaflow_agents.sandbox.bubblewrap import Bubblewrap
    from metaflow_agents.sandbox.probe import bubblewrap_holds

    found = bubblewrap_holds(environment.get("PATH"))
    if found.program is None:
        raise UsageError(f"{what_for}, and no sandbox holds here: {found.why}\n"
                         f"  to have one:    {found.mend}\n"
                         "  to do without:  --sandbox none    runs commands unconfined, on copies of the run's files")
    return Bubblewrap(found.program, environment)
