"""What runs pytest inside the sandbox: a script of its own, never imported by us.

    python -P -c SCRIPT HOW FILE ARGUMENTS…

pytest and what it reports with are imported before the folder of the product is on `sys.path`, so that no `pytest.py` and no
`_pytest/` of the product takes their place. HOW is `module` where `python -m pytest` was asked for, which puts the folder first.
FILE, unless it is `-`, gets the ids of the tests that were collected.
"""

import json
import os
import sys

import _pytest.junitxml
import pytest


class Collected:
    """A plugin that writes down which tests there are."""

    def __init__(self, file: str) -> None:
        self._file = os.path.abspath(file)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """After everything that leaves tests out."""
        with open(self._file, "w", encoding="utf-8", errors="replace") as file:
            json.dump([item.nodeid for item in session.items], file)


def main(how: str, file: str, arguments: list[str]) -> int:
    """Runs pytest. Returns its exit status."""
    if how == "module":
        sys.path.insert(0, os.getcwd())
    sys.argv[:] = [os.path.join(os.path.dirname(pytest.__file__), "__main__.py"), *arguments]
    return int(pytest.main(arguments, [] if file == "-" else [Collected(file)]))


if __name__ == "__main__":
    assert _pytest.junitxml is not None
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
