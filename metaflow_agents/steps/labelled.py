"""What went wrong in the work of an attempt, labelled with what its words may have come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from metaflow_agents.errors import RunError, failure_of
from metaflow_agents.schema.trust import joined


@contextmanager
def labelled(label: Callable[[], str]) -> Iterator[None]:
    """Whatever is raised within is raised as an error of this package (`failure_of`), its `untrusted` joined with the label:
    what an exception quotes is as untrusted as what the work had read by then. `label` is asked where something was raised.
    """
    try:
        yield
    except Exception as raised:
        error = failure_of(raised)
        if isinstance(error, RunError):
            error.untrusted = joined(error.untrusted, label())
        if error is raised:
            raise
        raise error from raised
