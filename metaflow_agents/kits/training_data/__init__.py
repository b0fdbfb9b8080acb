"""Data sets from journals: what methods that train a model would train on, in the chat format of fine-tuning.

The functions are exports (`plugins.py`): each takes journals, and leaves out what came from outside the user but for `untrusted`.
"""

from __future__ import annotations

from collections.abc import Iterable

from metaflow_agents.journal.run_summary import RawJournal
from metaflow_agents.kits.training_data.kinds import DataSet, dataset
from metaflow_agents.kits.training_data.lived import lives


def _of(kind: str, journals: Iterable[RawJournal], untrusted: bool) -> DataSet:
    return dataset(kind, [one for journal in journals for one in lives(journal)], untrusted=untrusted)


def finetune(journals: Iterable[RawJournal], *, untrusted: bool) -> DataSet:
    """Prompts and the answers that were accepted."""
    return _of("finetune", journals, untrusted)


def tool_calls(journals: Iterable[RawJournal], *, untrusted: bool) -> DataSet:
    """Conversations with tool calls that all went well."""
    return _of("tool_calls", journals, untrusted)


def hindsight(journals: Iterable[RawJournal], *, untrusted: bool) -> DataSet:
    """Answers with what was said of them, the better last."""
    return _of("hindsight", journals, untrusted)


def episodes(journals: Iterable[RawJournal], *, untrusted: bool) -> DataSet:
    """Whole histories of learning, in order."""
    return _of("episodes", journals, untrusted)
