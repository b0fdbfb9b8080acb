"""What the watch does without a model: which pages are fit, whether quotations stand, what changed, what is kept."""

from __future__ import annotations

import re
from datetime import date as Date
from datetime import datetime
from typing import Any

LONGEST = 60_000  # characters of a page that a reader is shown
TO_MODELS = re.compile(
    r"(ignore|disregard|forget)\W+(\w+\W+){0,4}(rules|instructions|prompts?)\b|system prompt"
    r"|(note|message|instructions?) (to|for) (ai|llm|language model)"
    r"|(vergiss|ignoriere)\W+(\w+\W+){0,4}(regeln|anweisungen)",
    re.IGNORECASE,
)


def day(date: str) -> str:
    """The day of the run: what was given, or today."""
    return (Date.fromisoformat(date) if date else datetime.now().astimezone().date()).isoformat()


def unreached(error: str) -> str:
    """Why nothing came, without the words of the page itself."""
    status = re.match(r"([45]\d\d)\b", error)
    if "it was cut" in error:
        return "huge: it was cut off"
    if error.startswith("nobody answers"):
        return "not fetched: no rule under `policy` allows it"
    if "can't be read" in error:
        return "junk: it is no text and no page"
    return f"not reached: HTTP {status[1]}" if status else f"not reached: {error[:120]}"


def screen(sites: list[dict], pages: dict[str, str], down: dict | None) -> dict[str, Any]:
    """Pages that a role may read; the others, each with the reason."""
    why = {one["key"]: unreached(one["error"]) for one in (down or {}).get("items", [])}
    for site, text in pages.items():
        odd = sum(1 for letter in text if letter == "\ufffd" or (not letter.isprintable() and letter not in "\n\t\r\xa0"))
        said = TO_MODELS.search(text)
        if len(text) > LONGEST:
            why[site] = f"huge: {len(text):,} characters"
        elif odd > len(text) / 50:
            why[site] = "junk: no readable text"
        elif said:
            why[site] = f"it speaks to language models: “{said[0][:60]}”"
    fit = [site for site in sites if site["id"] in pages and site["id"] not in why]
    unread = [
        {**site, "why": why.get(site["id"], "nothing came")} for site in sites if site["id"] not in {one["id"] for one in fit}
    ]
    return {"fit": fit, "unread": unread}


def flat(text: str) -> str:
    """With single spaces, whichever they were."""
    return " ".join(text.split())


def amounts(text: str) -> list[float]:
    """The prices that stand in a text: `1.299,00 €`, `€1,299.00`, `2.499,- €`, `2 649,00 EUR`."""
    found = re.findall(r"\d{1,3}(?:[.,  ]\d{3})+(?:[.,](?:\d{2}|-))?|\d+(?:[.,](?:\d{1,2}|-))?", text)
    prices = []
    for one in found:
        cents = re.search(r"[.,](\d{1,2}|-)$", one)
        whole = re.sub(r"\D", "", one[: cents.start()] if cents else one)
        prices.append(float(f"{whole}.{cents[1].strip('-') or 0}" if cents else whole))
    return prices


def quoted(offers: dict, page: dict, texts: dict[str, str], known: list[dict]) -> list[str]:
    """What is wrong with a list of prices, held against the page that it was read from."""
    text, faults, names = flat(texts[f"pages/{page['kind']}/{page['id']}.txt"]), [], set()
    if offers["page"] != "fine" and offers["products"]:
        faults.append(f"`page` is {offers['page']}, and there are products all the same: then `products` is empty")
    for one in offers["products"]:
        name, words = one["product"], flat(one["quotation"])
        if name in names:
            faults.append(f"{name!r} is duplicated in the list")
        names.add(name)
        if words not in text or not words:
            faults.append(f"the quotation {words[:120]!r} does not stand in the page, word for word")
        elif len(words) > 200:
            faults.append(f"the quotation of {name!r} is longer than 200 characters: take the words around the price")
        elif flat(name) not in words or not name:
            faults.append(f"the name {name!r} does not stand in its quotation {words!r}: quote from the name to the price")
        elif one["price"] not in amounts(words):
            faults.append(f"the price {one['price']} of {name!r} does not stand in its quotation {words!r}")
    if offers["page"] == "fine" and page["kind"] == "shop":
        faults += [
            f"the page still names {row['product']!r}, whose price was known: its price is missing"
            for row in known
            if row["site"] == page["id"] and flat(row["product"]) in text and row["product"] not in names
        ]
    return faults


def compare(
    day: str,
    threshold: float,
    ask_from: float,
    weeks: int,
    feed_url: str,
    known: list[dict],
    screened: dict,
    offers: dict,
    unreadable: dict | None,
    feed_prices: dict | None,
    feed_down: dict | None,
) -> dict[str, Any]:
    """The prices of this week beside the last one that is known of each product."""
    unread = [dict(one) for one in screened["unread"]]
    failed = {one["key"]: one["error"] for one in (unreadable or {}).get("items", [])}
    read, found = [], []
    for page in screened["fit"]:
        about = {key: page[key] for key in ("id", "name", "url", "kind")}
        answer = offers.get(page["id"])
        if answer is None:
            unread.append(
                {
                    **about,
                    "why": "what was read from it does not stand in the page"
                    if "check" in failed.get(page["id"], "")
                    else "its reader gave no answer",
                }
            )
        elif answer["page"] != "fine":
            unread.append(
                {
                    **about,
                    "why": {"no_prices": "it holds no prices", "speaks_to_models": "it speaks to language models"}[
                        answer["page"]
                    ],
                }
            )
        else:
            read.append(about)
            found += [(about, one) for one in answer["products"]]
    feed = {"id": "feed", "name": "Price feed", "url": feed_url, "kind": "shop"}
    if feed_prices is None:
        unread.append({**feed, "why": unreached((feed_down or {}).get("error", "nothing came"))})
    else:
        read.append(feed)
        found += [(feed, one) for one in feed_prices.values()]
    for one in unread:
        one["last"] = max((price["date"] for row in known if row["site"] == one["id"] for price in row["prices"]), default=None)
    earlier = {(row["site"], row["product"]): row for row in known}
    rows = []
    for site, one in found:
        old = earlier.pop((site["id"], one["product"]), None)
        past = [price for price in (old or {}).get("prices", []) if price["date"] < day]
        last = past[-1] if past else None
        change = round((one["price"] / last["price"] - 1) * 100, 1) if last and last["price"] else None
        series = [price["price"] for price in past[1 - weeks :]] + [one["price"]]
        over = round((series[-1] / series[0] - 1) * 100, 1) if len(series) > 1 and series[0] else None
        rows.append(
            {
                "key": f"{site['id']}: {one['product']}",
                "site": site["id"],
                "site_name": site["name"],
                "url": site["url"],
                "product": one["product"],
                "currency": one["currency"],
                "quotation": one["quotation"],
                "now": one["price"],
                "before": last["price"] if last else None,
                "before_date": last["date"] if last else None,
                "change": change,
                "state": "first_seen" if last is None else "back" if old and old["gone"] else "changed" if change else "same",
                "series": series,
                "trend": over,
                "first_seen": old["first_seen"] if old and past else day,
            }
        )
    seen = {one["id"] for one in read}
    names = {one["id"]: one for one in (*read, *unread)}
    gone = [
        {
            "site": site,
            "site_name": names[site]["name"],
            "product": product,
            "currency": row["currency"],
            "last": row["prices"][-1]["price"],
            "last_date": row["prices"][-1]["date"],
        }
        for (site, product), row in earlier.items()
        if site in seen and not row["gone"]
    ]
    changes = [row for row in rows if row["change"] is not None and abs(row["change"]) > threshold]
    return {
        "date": day,
        "first": not any(price["date"] < day for row in known for price in row["prices"]),
        "threshold": threshold,
        "weeks": weeks,
        "rows": sorted(rows, key=lambda row: (row["site_name"], row["product"])),
        "changes": changes,
        "falls": [row for row in changes if row["change"] < -ask_from],
        "gone": gone,
        "unread": unread,
        "read": read,
    }


def explained(reasons: dict, change: dict, sources: dict[str, str]) -> list[str]:
    """What is wrong with a reason, held against the sources that its author was shown."""
    sources = {
        path: text
        for path, text in sources.items()
        if path.startswith("sources/news/") or path == f"sources/shop/{change['site']}.txt"
    }
    if change["site"] == "feed":
        sources["feed"] = change["quotation"]
    faults, words = [], flat(reasons["quotation"])
    if reasons["cause"] == "not_known":
        return ["where the cause is not known, `quotation` and `source` are empty"] if words or reasons["source"] else []
    if reasons["source"] not in sources:
        faults.append(f"`source` is {reasons['source']!r}; it is one of {', '.join(sources)}")
    elif not words or words not in flat(sources[reasons["source"]]):
        faults.append(f"the quotation {words[:120]!r} does not stand in {reasons['source']}, word for word")
    stray = [
        one
        for one in amounts(reasons["text"])
        if one not in amounts(words) and one not in (change["now"], change["before"], abs(change["change"]))
    ]
    if stray:
        faults.append(f"the text says {stray[0]:g}, which stands neither in the quotation nor in the change")
    return faults


def keep(week: dict, known: list[dict], decisions: dict) -> list[dict]:
    """What the next week compares with: this week's prices where they were read and not left out, the earlier ones where not."""
    read = {one["id"] for one in week["read"]}
    kept = {
        (row["site"], row["product"]): {
            **row,
            "prices": [one for one in row["prices"] if one["date"] != week["date"] or row["site"] not in read],
        }
        for row in known
    }
    for row in week["rows"]:
        if decisions.get(row["key"], {}).get("choice") == "leave it out":
            continue
        old = kept.get((row["site"], row["product"]), {"prices": []})
        kept[row["site"], row["product"]] = {
            "site": row["site"],
            "product": row["product"],
            "currency": row["currency"],
            "first_seen": row["first_seen"],
            "gone": False,
            "prices": [*old["prices"], {"date": week["date"], "price": row["now"]}][-60:],
        }
    for one in week["gone"]:
        kept[one["site"], one["product"]]["gone"] = True
    return [row for row in kept.values() if row["prices"]]
