"""A fuzzer for every parser of bytes that somebody else wrote; see `run.py`."""
