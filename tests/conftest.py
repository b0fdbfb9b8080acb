"""The environment of all tests: nobody's own models, keys and configuration."""

from __future__ import annotations

import os
import signal
import sys
import tempfile

import pytest
from hypothesis import settings

settings.register_profile("no deadline", deadline=None)         # a busy machine is no fault of what is tested
settings.load_profile("no deadline")
for name in ("SOP_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
    os.environ.pop(name, None)
signal.signal(signal.SIGINT, signal.default_int_handler)         # a shell's background job is begun with Ctrl-C ignored
os.environ["XDG_CONFIG_HOME"] = tempfile.mkdtemp(prefix="sop-no-configuration-")
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="sop-no-state-")


@pytest.fixture(autouse=True)
def _nothing_learned() -> None:
    """What was found out about an endpoint goes with its test: the next server may get the same port."""
    known = sys.modules.get("metaflow_agents.models.endpoint.learned")
    if known is not None:
        known._KNOWN.clear()
