"""Who stands in for a language model here: it looks at what its tools said, and does the next thing.

Any model with tool calls does the same from the prompt alone: `--model openai:NAME`.
"""

import re
import time

SECONDS = 1.0           # that it thinks over each answer, so that there is time to kill it


def clerk(request):
    """The next call, or the receipt once everything is booked."""
    time.sleep(SECONDS)
    task = str(request.messages[-1]["content"]) if request.messages[-1]["role"] == "user" else ""
    task = next((str(one["content"]) for one in request.messages if "Handle this order:" in str(one["content"])), task)
    order = re.search(r"(\d+) x (\w+) to (\w+)", task)
    if order is None:
        raise ValueError("this stand-in for a model reads orders like `3 x kettle to Lisbon`, and no others")
    pieces, item, city = order.groups()
    said = [str(message["content"]) for message in request.messages if message["role"] == "tool"]
    match len(said):
        case 0:
            return {"calls": [{"name": "ledger.stock", "arguments": {"item": item}},
                              {"name": "carrier.get_rate", "arguments": {"city": city, "pieces": int(pieces)}}]}
        case 2:
            return {"calls": [{"name": "ledger.reserve", "arguments": {"item": item, "quantity": int(pieces)}}]}
        case 3 if reservation(said[2]):
            body = {"city": city, "pieces": int(pieces), "reservation": reservation(said[2])}
            return {"calls": [{"name": "carrier.book_shipment", "arguments": {"body": body}}]}
    shipment, price = re.search(r"S-\d+", said[-1]), re.search(r'"price": *([\d.]+)', said[1])
    return {"item": item, "quantity": int(pieces), "to": city, "reservation": reservation(said[2]),
            "shipment": shipment[0] if shipment else "not booked (staged)" if staged(said[-1]) else "",
            "price": float(price[1]) if shipment and price else 0}


def reservation(said):
    """The reservation's number, as the ledger gave it; empty where there are not enough; with `--dry-tools` it was not asked."""
    found = re.search(r"R-\d+", said)
    return found[0] if found else "not reserved (staged)" if staged(said) else ""


def staged(said):
    """Whether a tool only told what it would have done."""
    return said.startswith("staged:")
