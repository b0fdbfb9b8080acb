"""What test workers do: bad things, each as a parser might."""

from __future__ import annotations

import os
import sys
import time
from typing import Any


def job(data: bytes, **arguments: Any) -> Any:  # noqa: C901  a table
    """Does what the data name."""
    match data.decode():
        case "echo":
            return arguments
        case "spin":
            while True:
                pass
        case "spin in C":
            return sum(range(10**15))               # holds the interpreter's lock
        case "sleep":
            time.sleep(1000)
        case "eat":
            return len(b"x" * (1 << 34))
        case "eat slowly":
            kept = []
            while True:
                kept.append(bytearray(1 << 20))
        case "raise":
            raise ValueError("no such\nthing")
        case "recurse":
            return job(data)
        case "crash":
            os.abort()
        case "exit":
            os._exit(3)
        case "large":
            return "x" * (1 << 20)
        case "surrogate":
            return "a\ud800b"
        case "deep":
            found: Any = 1
            for _ in range(900):
                found = [found]
            return found
        case "look":
            held = sorted(map(int, os.listdir("/proc/self/fd")))[:-1] if os.path.isdir("/proc/self/fd") else [0, 1, 2]
            wrote = "done"
            try:
                os.write(os.open(arguments["place"], os.O_CREAT | os.O_WRONLY), b"x")
            except OSError as error:
                wrote = type(error).__name__
            loaded = {name.partition(".")[0] for name in sys.modules}
            return {"environment": dict(os.environ), "descriptors": held,
                    "modules": sorted(loaded & {"asyncio", "pydantic", "yaml"}),
                    "path": [one for one in sys.path if "site-packages" in one],
                    "folder": os.getcwd(), "write": wrote}
        case "pid":
            return os.getpid()
    return None


def structures(_: bytes, what: str, texts: list[str]) -> Any:
    """In the place of `kits.chemistry.molecules`, does what the last text names."""
    return job(texts[-1].partition("[")[2].rstrip("]").encode())
