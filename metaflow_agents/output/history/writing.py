"""Brings a run's repository to what its journal says. Blocking: it is for a thread, or a command of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from metaflow_agents.errors import UsageError
from metaflow_agents.journal.lock import RunLock
from metaflow_agents.journal.places import never_began
from metaflow_agents.journal.run_summary import RawJournal
from metaflow_agents.journal.store import unknown_run
from metaflow_agents.output.history.objects import Chain, Packer
from metaflow_agents.output.history.plan import KINDS, commits
from metaflow_agents.output.history.repository import BRANCH, Repository
from metaflow_agents.output.workspace import cant_write


@dataclass(frozen=True, slots=True)
class WrittenHistory:
    """The run's history as it stands now: its last commit, how many there are, how many objects were new.

    `kept` are branches that hold what somebody else had committed where the run's commits go.
    """

    tip: str
    commits: int
    objects: int
    kept: tuple[str, ...] = ()


def write(journal: Path, folder: Path) -> WrittenHistory:
    """Writes what the repository lacks and makes it the branch in use. The run rests, and its folder is settled.

    Commits of somebody else on that branch stay, on a branch of their own. Raises RunError where the disk refuses,
    JournalError.
    """
    try:
        repository = Repository(folder)
        chain, new = _lay_down(journal, repository)
        kept = [repository.keep(name) for name in repository.strangers(chain.ids)]
        repository.point(chain.tip, chain.files(), check_out=True)
    except OSError as error:
        raise cant_write(".git", folder, error) from error
    return WrittenHistory(chain.tip.decode(), len(chain.ids), new, tuple(kept))


def rebuild(journal: Path, folder: Path) -> WrittenHistory:
    """Writes what the repository lacks, and changes nothing else: no file of the folder, no branch of somebody's.

    For a run that nobody has open. Raises UsageError where there is no such run, or the branch holds commits that are
    not the run's; RunBusy, RunError, JournalError.
    """
    if not journal.is_file():
        raise unknown_run(journal)
    lock = RunLock(journal)
    try:
        repository = Repository(folder)
        chain, new = _lay_down(journal, repository)
        before = repository.main()
        if before is not None and before in repository.strangers(chain.ids):
            raise UsageError(f"`main` in {folder} is at {before.decode()[:12]}, which is no commit of the run: name that branch "
                             f"otherwise (`git -C {folder} branch -m main mine`), then try again")
        repository.point(chain.tip, chain.files(), check_out=repository.head() in ("", f"ref: {BRANCH}"))
    except OSError as error:
        raise cant_write(".git", folder, error, f"sop history {journal.stem}") from error
    finally:
        lock.release()
    return WrittenHistory(chain.tip.decode(), len(chain.ids), new)


def _lay_down(journal: Path, repository: Repository) -> tuple[Chain, int]:
    """All objects of the history are in the repository then, and nothing points at them yet."""
    with RawJournal(journal) as source:
        if next(source.events("committed"), None) is None:
            raise never_began(journal.stem)
        repository.lay_out()
        with Packer(repository.packs, repository.known()) as packer:
            chain = Chain(packer)
            for commit in commits(source.events(*KINDS), source.blob):
                chain.add(commit)
            return chain, packer.finish()
