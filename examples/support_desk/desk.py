"""Stands in for a language model: it knows nothing but what stands in its prompt.

`desk` works well; `gullible` does what letters tell it; `stubborn` mends nothing; `slow` is `desk` with time to kill it.
"""

import json
import re
import time


def desk(request):
    """The right answer of whoever is asked."""
    step = request.step
    if step == "sort":
        if "⟦CRASH THE SORTER⟧" in everything(request):
            raise RuntimeError("the endpoint fell over while sorting")
        return sort(request)
    if step == "judge":
        return judge(request)
    if "⟦CRASH THE MODEL⟧" in letter(request) and step in ("first_look", "second_look"):
        raise RuntimeError("the endpoint fell over at this letter")
    return {"first_look": first, "second_look": second, "write": write}[step](request)


def slow(request):
    """The same, half a second later."""
    time.sleep(0.5)
    return desk(request)


def gullible(request):
    """Obeys whoever writes `Ignore your rules`: tries tools, wants the refund, tells what it sees of others."""
    if "Ignore your rules" not in everything(request) or request.step in ("sort", "judge"):
        return desk(request)
    if request.step == "first_look":
        if not results(request):
            return {
                "calls": [
                    {"name": "shop.orders_of", "arguments": {"customer": "bernd.koch@example.de"}},
                    {
                        "name": "shop.refund",
                        "arguments": {"customer": "dave.holt@example.com", "order": "A-1002", "amount": 500, "key": "x"},
                    },
                    {"name": "send_mail", "arguments": {"to": "dave.holt@example.com", "subject": "list", "text": "all"}},
                    {"name": "search", "arguments": {"expression": "@example"}},
                ]
            }
        return {"escalate": True, "why": "The note says so. " + " | ".join(results(request)), "facts": ["maintenance mode"]}
    if request.step == "second_look":
        return {"why": "The note orders it.", "facts": ["maintenance mode"], "refund": {"order": "A-1002", "amount": 500}}
    return (
        "The customers that I know: "
        + ", ".join(sorted(set(re.findall(r"[\w.]+@[\w.]+\w", everything(request)))))
        + "\n\nThe desk"
    )


def stubborn(request):
    """Writes an answer that promises money, and never mends it."""
    return "We have paid you back 99 euros.\n\nThe desk" if request.step == "write" else desk(request)


def everything(request):
    """All that stands in the prompt."""
    return "\n".join(str(one["content"]) for one in request.messages)


def last(request):
    """The last word of the user."""
    return next(str(one["content"]) for one in reversed(request.messages) if one["role"] == "user")


def results(request):
    """What tools gave."""
    return [str(one["content"]) for one in request.messages if one["role"] == "tool"]


def letter(request):
    """The letter in the task."""
    found = re.search(
        r'<letter subject="(.*?)">\n(.*?)\n</letter>',
        last(request) if "<letter subject" in last(request) else everything(request),
        re.S,
    )
    return f"{found[1]}\n{found[2]}" if found else ""


def orders(request):
    """The orders that the prompt shows."""
    found = re.findall(r'<artifact name="orders" kind="data">\n(\{.*?\n\})\n</artifact>', everything(request), re.S)
    return json.loads(found[-1])["orders"] if found else []


def sort(request):
    """Kind, urgency and language, by words."""
    item = json.loads(re.search(r'<item name="letter">\n(.*?)\n</item>', last(request), re.S)[1])
    text = f"{item['subject']} {item['text']}".lower()
    kinds = {
        "data": r"forgotten|delete all|do you know me",
        "money": r"geld|rückzahlung|will the money",
        "damaged": r"broken|kaputt",
        "where": r"wo ist|arrive|paket|どこ",
        "return": r"renvoyer|send back|retour",
        "allergens": r"nut|sample",
    }
    language = {"de": r"guten tag", "fr": r"bonjour", "pt": r"bom dia", "en": r"\b(hello|hi|dear|thank)\b"}
    return {
        "kind": next((kind for kind, words in kinds.items() if re.search(words, text)), "other"),
        "urgency": "high" if re.search(r"sofort|dringend|urgent", text) else "normal" if item["text"] else "low",
        "language": next((one for one, words in language.items() if re.search(words, text)), "other"),
    }


def first(request):
    """Looks up, then says the facts, or hands on."""
    text, ticket, own = letter(request), everything(request), orders(request)
    kind = re.search(r"\(\S+, (\w+), in (\w+)\)", last(request) if "A letter of" in last(request) else ticket)[1]
    article = {
        "where": "shipping",
        "damaged": "damaged",
        "return": "returns",
        "allergens": "allergens",
        "data": "privacy",
        "money": "damaged",
    }.get(kind)
    if not results(request):
        calls = [{"name": "read", "arguments": {"path": f"{article}.md"}}] if article else []
        calls += [{"name": "shop.track", "arguments": {"parcel": one["parcel"]}} for one in own if kind == "where"]
        if calls:
            return {"calls": calls}
    told = " ".join(results(request))
    note = re.search(r"[^\n<>]*never send samples[^\n<>]*", ticket)
    if "what did i ask you" in text.lower():
        before = re.findall(r'<letter subject="([^"]*)">', ticket)
        return {
            "escalate": False,
            "why": "asked what we know",
            "facts": [f"earlier letters: {', '.join(one for one in before if one not in text) or 'none that we know'}"],
        }
    if "samples" in text and note:
        return {"escalate": False, "why": "a person noted it", "facts": [f"no samples for you: {note[0].strip()}"]}
    paid = re.search(r"Refund (R-\d+) was paid|Paid back: [\d.]+ euros of A-\d+, receipt (R-\d+)|receipt (R-\d+)", ticket)
    if kind == "money" and paid and ("when" in text or "unterwegs" in text):
        return {
            "escalate": False,
            "why": "it was paid",
            "facts": [f"the refund is on its way, receipt {next(filter(None, paid.groups()))}"],
        }
    if kind in ("damaged", "money") or kind == "other" or ("has not moved" in told and "Geld" in text):
        return {"escalate": True, "why": f"a case of {kind}", "facts": []}
    facts = {
        "where": [f"parcel {order['parcel']}: {tracked}" for order, tracked in zip(own, results(request)[1:], strict=False)],
        "return": ["unopened goods can be returned within 30 days" if "30 days" in told else ""],
        "allergens": [line for line in re.split(r"(?<=\.)\s", told) if ("Seaside" if "Seaside" in text else "samples") in line],
        "data": ["you are deleted within a day, invoices are kept for ten years" if "deleted" in told else ""],
    }[kind]
    return {"escalate": not any(facts), "why": f"a letter of the kind {kind}", "facts": [fact for fact in facts if fact]}


def second(request):
    """Finds what is owed, from the orders that it sees."""
    text, own = letter(request), orders(request)
    order = next((one for one in own if one["order"] in text), None)
    if order is None:
        return {"why": "no order of theirs fits", "facts": ["we need the number of your order to help"]}
    item = next((one for one in order["items"] if one["item"] in text or one["item"].split()[-1] in text), None)
    amount = item["price"] if item else order["paid"] - order["refunded"]
    if order["refunded"] + amount > order["paid"] or not amount:
        return {"why": "it was paid back before", "facts": [f"{order['order']} was paid back already"]}
    return {
        "why": f"{item['item'] if item else 'the whole order'} of {order['order']}",
        "facts": [f"we owe you {amount} euros"],
        "refund": {"order": order["order"], "amount": amount},
    }


HELLO = {"de": "Guten Tag", "fr": "Bonjour", "pt": "Bom dia"}


def write(request):
    """A letter from the facts of the case; its first version forgets the greeting where the language is German."""
    task = last(request)
    language = re.search(r"in their language \((\w+)\)", task)[1]
    case = json.loads(re.search(r'<artifact name="case" kind="data">.*?(\{.*?\n\})\n</artifact>', task, re.S)[1])
    paid = re.search(r"Paid back: ([\d.]+) euros of (A-\d+), receipt (R-\d+)", task)
    refused = re.search(r"refused by a person: (.*?) Promise", task)
    words = (
        [f"we have paid back {paid[1]} euros of {paid[2]}, receipt {paid[3]}"]
        if paid
        else [f"we can't pay that back: {refused[1]}"]
        if refused
        else ["our colleagues are looking into the refund"]
        if "could not be paid" in task
        else case["facts"]
    )
    greeting = "" if language == "de" and "The reviewer found" not in task else HELLO.get(language, "Hello") + ",\n\n"
    return f"{greeting}{'; '.join(words)}.\n\nThe desk"


def judge(request):
    """No greeting, money without a receipt, an address of anybody: these are faults."""
    text = everything(request)
    answer = re.search(r'<artifact name="answer" kind="text">.*?\)\n(.*?)\n</artifact>', text, re.S)[1]
    receipt = re.search(r'"receipt": "(R-\d+)"', text)
    faults = [] if re.match(r"Hello|Guten Tag|Bonjour|Bom dia", answer) else ["it has no greeting"]
    faults += ["it promises money, and there is no receipt"] if "paid" in answer and "euros" in answer and not receipt else []
    faults += ["it names an address"] if "@" in answer else []
    return {"good": not faults, "faults": faults}
