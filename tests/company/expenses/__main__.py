"""`python -m expenses`."""

from __future__ import annotations

import sys

from expenses.cli import main

if __name__ == "__main__":
    sys.exit(main())
