"""The environment of all tests: nobody's own models, keys and configuration."""

from __future__ import annotations

import os
import tempfile

for name in ("SOP_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
    os.environ.pop(name, None)
os.environ["XDG_CONFIG_HOME"] = tempfile.mkdtemp(prefix="sop-no-configuration-")
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="sop-no-state-")
