"""Who stands in for a language model: reads the invoice that stands in the prompt, and judges by what was found in it.

`DESK_SECONDS=2` makes it think over each answer, so that there is time to kill the run.
"""

import os
import re
import time

NUMBER = r"(-?\d+(?:\.\d+)?)"


def office(request):
    """The answer of the clerk or the auditor."""
    time.sleep(float(os.environ.get("DESK_SECONDS", "0")))
    prompt = request.messages[-1]["content"]
    if any(
        message["role"] == "assistant" for message in request.messages
    ):  # asked again: from the same prompt, to the same answer
        prompt = next(message["content"] for message in request.messages if message["role"] == "user")
    return {"clerk": clerk, "auditor": auditor}[request.role](prompt)


def invoice_in(prompt):
    """The invoice as the prompt shows it: the clerk's item, or the one file under `invoices`."""
    shown = re.search(r'<item name="letter">\n[^\n]+\n(.*?)\n</item>', prompt, re.DOTALL)
    shown = shown or re.search(r'<artifact name="invoices".*?\n`{3,}\n(.*?)\n`{3,}\n</artifact>', prompt, re.DOTALL)
    if shown is None:
        raise ValueError("there is no invoice in the prompt:\n" + prompt[:2000])
    return shown[1]


def clerk(prompt):
    """What stands on the invoice."""
    text = invoice_in(prompt)
    number = re.search(r"(?:RECHNUNG Nr\.|INVOICE No\.) +(.+?)(?: {2,}|$)", text, re.MULTILINE)
    if number is None:
        return {"legible": False, "trouble": "the paper shows neither a number nor amounts that can be read"}
    total = re.search(r"^(?:Total|Gesamtbetrag) +([A-Z]{3}) +(\S+)$", text, re.MULTILINE)
    net = re.search(rf"^(?:Net|Netto) +[A-Z]{{3}} +{NUMBER}$", text, re.MULTILINE)
    tax = re.search(rf"^(?:VAT|USt|MWST) [\d.]+% +[A-Z]{{3}} +{NUMBER}$", text, re.MULTILINE)
    vat = re.search(r"(?:USt-IdNr\.|VAT|MWST|Tax ID|-) +([A-Z]{2,3}[-A-Z0-9.]*\d{3}\S*)$", text, re.MULTILINE)
    order = re.search(r"\bPO-\d+", text)
    first = text.splitlines()[0]
    lines = re.findall(rf"^\d+ +(\S.*?) {{2,}}{NUMBER} +{NUMBER} +{NUMBER}$", text, re.MULTILINE)
    return {
        "legible": True,
        "invoice": {
            "number": number[1].strip(),
            "supplier": re.split(r" {2,}| · | - |, ", first)[0].strip(),
            "vat": vat[1] if vat else None,
            "date": re.search(r"\d{4}-\d{2}-\d{2}", text)[0],
            "order": order[0] if order else None,
            "currency": total[1],
            "lines": [
                {"item": item, "quantity": float(many), "unit_price": float(price), "amount": float(amount)}
                for item, many, price, amount in lines
            ],
            "net": float(net[1]),
            "tax": float(tax[1]),
            "total": float(total[2])
            if re.fullmatch(NUMBER, total[2])
            else total[2],  # a smudged one is no number: the answer is sent back
        },
    }


def auditor(prompt):
    """Disputes what was reckoned wrong, and accepts what is only not known, with words of the invoice."""
    text = invoice_in(prompt)
    found = re.findall(r"^- (arithmetic|price|quantity|duplicate|supplier|order): (.+)$", prompt, re.MULTILINE)
    if not found:
        raise ValueError("there is no finding in the prompt:\n" + prompt[-2000:])
    kind, what = found[0]
    if explained := next((line for line in text.splitlines() if "as agreed by phone" in line), None):
        return {"verdict": "accept", "reason": f"{what}; the paper names the difference as a surcharge.", "quote": explained}
    item = what.split(" were ordered")[0].split(" was ordered")[0].split(":")[0].split(" x ")[-1]
    line = (
        next((line for line in text.splitlines() if item in line), None) if kind in {"arithmetic", "price", "quantity"} else None
    )
    line = line or next(line for line in text.splitlines() if re.search(r"RECHNUNG|INVOICE", line))
    return {"verdict": "dispute", "reason": f"{what}; the paper does not explain it.", "quote": line.strip()}


def liar(request):
    """An auditor who quotes what does not stand there."""
    return {"verdict": "accept", "reason": "it looks fine", "quote": "as agreed with your director"}
