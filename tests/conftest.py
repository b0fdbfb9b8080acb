"""The environment of all tests: nobody's own models, keys and configuration; and nothing of ours is left when they end."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import suppress
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import settings
from patience import PATIENCE
from tiers import ALL, CHOICE, SEED, examples, takes_part

# A busy machine is no fault of what is tested: no deadline.
settings.register_profile("tier", deadline=None, max_examples=examples(settings.default.max_examples))
settings.load_profile("tier")
for name in ("SOP_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL", *(name for name in os.environ if name.startswith("OTEL_"))):
    os.environ.pop(name, None)
signal.signal(signal.SIGINT, signal.default_int_handler)         # a shell's background job is begun with Ctrl-C ignored

PLACES = (Path(tempfile.gettempdir()), Path("/dev/shm"))
OURS = ("sop-*", "crash-of-sop-*", "tmp*.j2")
OWN = "sop-tests-"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """The tier decides what is marked out, and the seed what hypothesis makes up. Raises UsageError for a tier that is none."""
    if CHOICE not in ("", "all"):
        raise pytest.UsageError(f"SOP_TESTS={CHOICE}: it is `all`, or not set")
    if ALL and config.option.markexpr == "not slow":
        config.option.markexpr = ""
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(SEED)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the tests that are marked `one_in(N)`, the fast tier takes those whose turn it is. In the full tier each worker begins
    with its part of what takes long: at the end the others would wait for it.
    """
    marked = [(item, mark) for item in items if (mark := item.get_closest_marker("one_in")) is not None and not ALL]
    waits = {item for item, mark in marked if not takes_part(item.nodeid, *mark.args, **mark.kwargs)}
    if waits:
        config.hook.pytest_deselected(items=[item for item in items if item in waits])
        items[:] = [item for item in items if item not in waits]
    if ALL:
        items[:] = slow_first(items, getattr(config, "workerinput", {"workercount": 1})["workercount"])


def slow_first(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """The tests with those that are marked `slow` at the head of each worker's part: `--dist worksteal` gives each an equal part,
    in order, and takes from the end of one for another.
    """
    slow = [item for item in items if item.get_closest_marker("slow")]
    rest = iter([item for item in items if not item.get_closest_marker("slow")])
    bounds = [len(items) * number // workers for number in range(workers + 1)]
    found: list[pytest.Item] = []
    for number in range(workers):
        own = slow[number::workers]
        found += [*own, *islice(rest, max(bounds[number + 1] - len(found) - len(own), 0))]
    return [*found, *rest]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How to run the random tests again as they were."""
    terminalreporter.ensure_newline()
    terminalreporter.write_line(f"SOP_TESTS_SEED={SEED} takes the same examples again")


def seen() -> set[Path]:
    """What has a name of ours, where temporary files lie."""
    return {path for place in PLACES for pattern in OURS for path in place.glob(pattern)}


def held(path: Path) -> bool:
    """Whether some process says that it uses this folder: another run of the tests, or a copy that a command works in."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
    return False


for _left in PLACES[0].glob(f"{OWN}*"):                          # by tests that were killed
    with suppress(OSError):                                     # another run of the tests was faster
        if time.time() - _left.stat().st_mtime > 60 and os.access(_left, os.W_OK) and not held(_left):
            shutil.rmtree(_left, ignore_errors=True)
BEFORE = seen()
_OVER = os.environ.get("SOP_TESTS_HOME", "")                    # who started this worker removes what it leaves
HOME = Path(tempfile.mkdtemp(prefix=OWN, dir=_OVER if os.access(_OVER, os.W_OK) else None))
_HELD = os.open(HOME, os.O_RDONLY | os.O_DIRECTORY)
fcntl.flock(_HELD, fcntl.LOCK_EX)
os.environ.setdefault("SOP_TESTS_HOME", str(HOME))              # of whoever starts the workers, for all of them
os.environ["XDG_CONFIG_HOME"], os.environ["XDG_STATE_HOME"] = str(HOME / "configuration"), str(HOME / "state")
os.environ["XDG_CACHE_HOME"] = str(HOME / "cache")


def left(before: set[Path]) -> tuple[list[Path], bool]:
    """What came since `before` and stays though nobody uses it and one was patient; and whether it may be another's, whose tests
    run beside these.
    """
    from metaflow_agents.sandbox.places import _swept

    for place in PLACES:                    # whoever makes the next copy removes those of processes that were killed
        _swept.__wrapped__(place)
    until = time.monotonic() + PATIENCE
    while (new := [path for path in seen() - before if not held(path)]) and time.monotonic() < until:
        time.sleep(0.1)
    return sorted(path for path in new if path.exists()), any(path.name.startswith(OWN) for path in seen() if held(path))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    """A run that leaves something behind has failed, whatever its tests said."""
    result = yield
    shutil.rmtree(HOME, ignore_errors=True)
    os.close(_HELD)
    if hasattr(session.config, "workerinput") or "SOP_TESTS_MUTATED" in os.environ:
        return result                                           # who started it looks, when all have ended
    found, perhaps_anothers = left(BEFORE)
    if found:
        told = f"left behind{' (or by other tests beside these)' if perhaps_anothers else ''}: {', '.join(map(str, found))}"
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(told, red=True)
        if not perhaps_anothers:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
    return result


@pytest.fixture(autouse=True)
def _nothing_learned() -> None:
    """What was found out about an endpoint goes with its test: the next server may get the same port."""
    known = sys.modules.get("metaflow_agents.models.endpoint.learned")
    if known is not None:
        known._KNOWN.clear()


@pytest.fixture(scope="session")
def acme(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a stranger's distribution is installed (`tests/plugins/acme`); nobody has it on their path yet."""
    from plugged import install, wheel

    folder = tmp_path_factory.mktemp("acme")
    install(wheel(folder), folder / "installed")
    return folder / "installed"


@pytest.fixture
def acme_here(acme: Path) -> Generator[Path, None, None]:
    """The same, installed for this process too."""
    from plugged import acme_installed

    with acme_installed(acme):
        yield acme
