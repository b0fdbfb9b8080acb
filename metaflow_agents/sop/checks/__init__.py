"""Groups of checks, one idea a file; `sop/check.py` runs them in order."""
