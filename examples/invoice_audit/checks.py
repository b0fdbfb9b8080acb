"""What is reckoned without a model: tables, sums, orders, duplicates, and what the report is made of."""

from __future__ import annotations

import csv
import re
from collections import Counter
from decimal import ROUND_HALF_UP, Decimal
from pathlib import PurePosixPath

CENT = Decimal("0.01")


def money(value):
    """An amount in whole cents."""
    return Decimal(str(value)).quantize(CENT, ROUND_HALF_UP)


def finding(kind, text, field="", stated=None, right=None):
    """Something that is wrong, and what a field should say instead, where that is known."""
    return {
        "kind": kind,
        "text": text,
        "field": field,
        "stated": None if stated is None else float(stated),
        "right": None if right is None else float(right),
    }


def table(text, *columns):
    """The rows of a table whose first line names its columns."""
    reader = csv.DictReader(text.lstrip("\ufeff").splitlines(), delimiter=";")
    if missing := [column for column in columns if column not in (reader.fieldnames or ())]:
        raise ValueError(
            f"the table has no column {', '.join(missing)}; its first line is: {text.splitlines()[0] if text else '(empty)'}"
        )
    return [{column: row[column] or "" for column in columns} for row in reader]


def read_suppliers(suppliers: str):
    """The rows of the table, a mapping each."""
    return table(suppliers, "id", "name", "vat", "country")


def read_orders(orders: str):
    """The rows of the table, with numbers for quantities and prices."""
    return [
        {**row, "quantity": float(row["quantity"]), "unit_price": float(row["unit_price"])}
        for row in table(orders, "order", "supplier", "item", "quantity", "unit_price", "currency")
    ]


def bare(text):
    """A number or a name as it is compared: `BW-7781` and `bw 7781` are one."""
    return re.sub(r"[\W_]+", "", text or "").upper()


def supplier_of(invoice, suppliers):
    """The id of the supplier, by its tax number or its name."""
    for one in suppliers:
        if (invoice["vat"] and bare(one["vat"]) == bare(invoice["vat"])) or bare(one["name"]) == bare(invoice["supplier"]):
            return one["id"]
    return None


def add_up(invoice):
    """What is wrong with the sums of an invoice."""
    found = []
    for line in invoice["lines"]:
        right = money(Decimal(str(line["quantity"])) * Decimal(str(line["unit_price"])))
        if right != money(line["amount"]):
            found.append(
                finding(
                    "arithmetic",
                    f"{line['item']}: {line['quantity']:g} x {line['unit_price']:.2f} is {right}, not {line['amount']:.2f}",
                    f"line {line['item']}",
                    money(line["amount"]),
                    right,
                )
            )
    net = sum((money(Decimal(str(line["quantity"])) * Decimal(str(line["unit_price"]))) for line in invoice["lines"]), Decimal(0))
    if net != money(invoice["net"]):
        found.append(
            finding(
                "arithmetic",
                f"the lines come to {net}, the invoice says net {invoice['net']:.2f}",
                "net",
                money(invoice["net"]),
                net,
            )
        )
    total = money(invoice["net"]) + money(invoice["tax"])
    if total != money(invoice["total"]):
        found.append(
            finding(
                "arithmetic",
                f"net and tax come to {total}, the invoice says {invoice['total']:.2f}",
                "total",
                money(invoice["total"]),
                total,
            )
        )
    return found


def match(invoice, order_list, supplier_list):
    """What does not fit the supplier's entry and the purchase order."""
    found = []
    supplier = supplier_of(invoice, supplier_list)
    if supplier is None:
        found.append(finding("supplier", f"{invoice['supplier']} is not in the table of suppliers", "supplier"))
    if not invoice["order"]:
        return [*found, finding("order", "no purchase order is named", "order")]
    ordered = [row for row in order_list if bare(row["order"]) == bare(invoice["order"])]
    if not ordered:
        return [*found, finding("order", f"there is no order {invoice['order']}", "order")]
    if supplier and ordered[0]["supplier"] != supplier:
        found.append(
            finding("order", f"{invoice['order']} went to {ordered[0]['supplier']}, the invoice is of {supplier}", "order")
        )
    if ordered[0]["currency"] != invoice["currency"]:
        found.append(finding("order", f"ordered in {ordered[0]['currency']}, invoiced in {invoice['currency']}", "currency"))
    by_item = {bare(row["item"]): row for row in ordered}
    for line in invoice["lines"]:
        row = by_item.get(bare(line["item"]))
        if row is None:
            found.append(finding("order", f"{line['item']} is not on {invoice['order']}", f"line {line['item']}"))
            continue
        if money(row["unit_price"]) != money(line["unit_price"]):
            found.append(
                finding(
                    "price",
                    f"{line['item']} was ordered at {row['unit_price']:.2f}, {line['unit_price']:.2f} is charged",
                    f"unit price {line['item']}",
                    line["unit_price"],
                    row["unit_price"],
                )
            )
        if line["quantity"] > row["quantity"]:
            found.append(
                finding(
                    "quantity",
                    f"{row['quantity']:g} x {line['item']} were ordered, {line['quantity']:g} are charged",
                    f"quantity {line['item']}",
                    line["quantity"],
                    row["quantity"],
                )
            )
    return found


def duplicates(readings, readable, known, supplier_list, month):
    """Numbers that came before, in this month or in an earlier one; each with the file and the month it came in."""
    seen, found = {}, []
    for entry in known:
        if entry["month"] != month:  # a month that is run again is no duplicate of itself
            seen[entry["supplier"], entry["bare"]] = entry
    for path in sorted(readable):
        invoice = readings[path]["invoice"]
        key = (supplier_of(invoice, supplier_list) or bare(invoice["supplier"]), bare(invoice["number"]))
        if before := seen.get(key):
            found.append(
                {
                    "path": path,
                    "finding": finding(
                        "duplicate",
                        f"{invoice['number']} came in {before['month']} already, as {before['number']} ({before['path']})",
                        "number",
                    ),
                }
            )
        else:
            seen[key] = {"month": month, "number": invoice["number"], "path": path}
    return found


def remember(readings, readable, known, supplier_list, month):
    """All numbers that are known from now on, for the next month."""
    kept = [entry for entry in known if entry["month"] != month]
    for path in sorted(readable):
        invoice = readings[path]["invoice"]
        kept.append(
            {
                "month": month,
                "supplier": supplier_of(invoice, supplier_list) or bare(invoice["supplier"]),
                "number": invoice["number"],
                "bare": bare(invoice["number"]),
                "path": path,
            }
        )
    return kept


def stem(path):
    """What a text and the PDF or picture beside it share."""
    return str(PurePosixPath(path).with_suffix(""))


def assemble(invoices, texts, readings, readable, findings, verdicts, approvals, unread, known, month):
    """All that the report tells, and which files are disputed."""
    failed = {one["key"]: one["error"] for one in (unread or {}).get("items", [])}
    rows, by_hand, corrections, sums, open_files = [], [], [], {}, []
    beside = {}
    for path in invoices:
        beside.setdefault(stem(path), []).append(path)
    for path in sorted(texts):
        if path not in readable:
            why = failed.get(path) or (readings.get(path) or {}).get("trouble") or "it was not read"
            by_hand.append({"path": path, "why": " ".join(why.split())})
            continue
        invoice, found = readings[path]["invoice"], findings.get(path) or []
        verdict, approval = verdicts.get(path), approvals.get(path)
        if found and not verdict:
            by_hand.append({"path": path, "why": "the auditor gave no verdict that rests on words of the invoice"})
        disputed = bool(found and (not verdict or verdict["verdict"] == "dispute")) or bool(approval and not approval["approved"])
        state = "disputed" if disputed else "accepted"
        rows.append(
            {
                "path": path,
                "number": invoice["number"],
                "supplier": invoice["supplier"],
                "date": invoice["date"],
                "currency": invoice["currency"],
                "total": invoice["total"],
                "state": state,
                "findings": [one["text"] for one in found],
                "reason": verdict["reason"] if verdict else "",
                "quote": verdict["quote"] if verdict else "",
                "approval": ("approved" if approval["approved"] else "refused: " + approval["reason"]) if approval else "",
            }
        )
        total = sums.setdefault(
            invoice["currency"], {"invoices": 0, "total": Decimal(0), "accepted": Decimal(0), "disputed": Decimal(0)}
        )
        total["invoices"] += 1
        total["total"] += money(invoice["total"])
        total[state] += money(invoice["total"])
        corrections += [
            {
                "path": path,
                "number": invoice["number"],
                "currency": invoice["currency"],
                "field": one["field"],
                "stated": one["stated"],
                "right": one["right"],
                "why": one["text"],
            }
            for one in found
            if disputed and one["right"] is not None
        ]
        if disputed:
            open_files += beside[stem(path)]
    for path in sorted(invoices):
        if path not in texts and not any(other in texts for other in beside[stem(path)]):
            by_hand.append({"path": path, "why": "there is no text that can be read (a scan, or another encoding than UTF-8)"})
    months = Counter(entry["month"] for entry in known if entry["month"] != month)
    return {
        "month": month,
        "compared": [{"month": name, "numbers": many} for name, many in sorted(months.items())],
        "rows": rows,
        "by_hand": by_hand,
        "corrections": corrections,
        "disputed_files": open_files,
        "sums": [
            {
                "currency": currency,
                "invoices": one["invoices"],
                **{name: float(one[name]) for name in ("total", "accepted", "disputed")},
            }
            for currency, one in sorted(sums.items())
        ],
    }
