"""A process that stores memories, batch after batch, and says each number once it is durable.

    python -m memory_writer FILE NAME BATCHES SIZE
"""

from __future__ import annotations

import sys
from pathlib import Path

from metaflow_agents.memory.store import MemoryDatabase, StoredMemory


def batch(name: str, number: int, size: int) -> list[StoredMemory]:
    return [StoredMemory(f"{name}.{number}.{place}", "turn", name, name, "poet", f"write@{number}~0", float(number),
                   f"{name} wrote poem {number} of {size} with word{place} in it", place % 10 + 1) for place in range(size)]


def main() -> None:
    path, name, batches, size = sys.argv[1:]
    store = MemoryDatabase(Path(path))
    for number in range(int(batches)):
        store.keep(batch(name, number, int(size)))
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
    store.close()


if __name__ == "__main__":
    main()
