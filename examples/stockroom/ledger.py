"""The ledger: an MCP server over standard input and output. Its books are a JSON file beside it."""

import json
from pathlib import Path

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

BOOKS = Path(__file__).with_name("books.json")
server = MCPServer("ledger")


def books() -> dict:
    """What there is, and what is reserved."""
    return json.loads(BOOKS.read_text()) if BOOKS.exists() else {"stock": {"kettle": 5, "teapot": 1}, "reserved": []}


@server.tool()
def stock(item: str) -> int:
    """How many of an item there are."""
    return books()["stock"].get(item, 0)


@server.tool()
def reserve(item: str, quantity: int) -> str:
    """Reserve some of an item; gives the reservation's number."""
    held = books()
    if held["stock"].get(item, 0) < quantity:
        raise ToolError(f"there are only {held['stock'].get(item, 0)} of {item}")
    held["stock"][item] -= quantity
    held["reserved"].append([item, quantity])
    BOOKS.write_text(json.dumps(held))
    return f"R-{len(held['reserved'])}"


if __name__ == "__main__":
    server.run()
