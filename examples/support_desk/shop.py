"""The shop's own system, as an MCP server over standard input and output: orders, parcels, refunds.

Its books: `orders.json` beside it, and `state/refunds.json`, in which each refund stands under its key.
"""

import json
from pathlib import Path

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

HERE = Path(__file__).parent
STATE = HERE / "state"
PARCELS = {
    "P-71": "delivered on 2025-11-20",
    "P-72": "has not moved since 2025-11-15, in Leipzig",
    "P-73": "delivered on 2025-11-14",
    "P-74": "in delivery, arrives on 2025-11-26",
    "P-75": "delivered on 2025-11-22",
}
server = MCPServer("shop")


def orders() -> dict:
    """All orders by their number."""
    return json.loads((HERE / "orders.json").read_text())


def refunds() -> dict:
    """All refunds so far by their key."""
    book = STATE / "refunds.json"
    return json.loads(book.read_text()) if book.exists() else {}


@server.tool()
def orders_of(customer: str) -> dict:
    """The orders of one customer, with what was paid and what was paid back."""
    own = {number: order for number, order in orders().items() if order["customer"] == customer}
    back = refunds().values()
    return {
        "orders": [
            {
                "order": number,
                "date": order["date"],
                "parcel": order["parcel"],
                "items": order["items"],
                "paid": sum(one["price"] for one in order["items"]),
                "refunded": sum(one["amount"] for one in back if one["order"] == number),
            }
            for number, order in own.items()
        ]
    }


@server.tool()
def track(parcel: str) -> str:
    """Where a parcel is, by its number (P-…). Tells nothing of whose it is."""
    return PARCELS.get(parcel, "no such parcel")


@server.tool()
def refund(customer: str, order: str, amount: float, key: str) -> dict:
    """Pay money of an order back. The same key never pays twice: it gives the receipt of the first time."""
    STATE.mkdir(exist_ok=True)
    book = refunds()
    if key in book:
        return book[key]
    bought = orders().get(order)
    if bought is None or bought["customer"] != customer:
        raise ToolError(f"{customer} has no order {order}")
    left = sum(one["price"] for one in bought["items"]) - sum(one["amount"] for one in book.values() if one["order"] == order)
    if not 0 < amount <= left:
        raise ToolError(f"of {order} at most {left:.2f} can be paid back, not {amount:.2f}")
    book[key] = {"receipt": f"R-{len(book) + 1}", "key": key, "customer": customer, "order": order, "amount": amount}
    (STATE / "refunds.json.new").write_text(json.dumps(book, indent=1))
    (STATE / "refunds.json.new").rename(STATE / "refunds.json")
    return book[key]


if __name__ == "__main__":
    server.run()
