"""Stands in for a language model. It answers from its prompt alone: what a prompt lacks, it does not know.

`desk` makes one slip (a missing import) and forgets the list of changes, so that tests fail once and the reviewer refuses once.
`stubborn` never mends what it says that it mends. `naughty` tries to write where it may not.
"""

from __future__ import annotations

import re
from typing import Any

from metaflow_agents import ModelRequest, ToolCall


def desk(request: ModelRequest) -> Any:
    said = "\n".join(str(one["content"]) for one in request.messages if one["role"] == "user")
    results = [str(one["content"]) for one in request.messages if one["role"] == "tool"]
    return {
        "scout_it": scout,
        "plan_it": plan,
        "change": change,
        "diagnose": diagnose,
        "mend": mend,
        "review_it": review,
        "revise": revise,
        "describe": describe,
    }[request.step](said, results)


def stubborn(request: ModelRequest) -> Any:
    """Always says that it can be mended, and changes a comment."""
    if request.step == "diagnose":
        return {
            "cause": "render has to be looked at again",
            "fixable": True,
            "files": ["src/tally/report.py"],
            "advice": "look again",
        }
    if request.step == "mend":
        text = files(request.messages[-1]["content"])["src/tally/report.py"]
        first = text.splitlines()[0]
        return edit(
            "src/tally/report.py", (first, first.replace("book.", "book").replace('"""', "", 1).join(['"""', ""])[:-3] + ' !"""')
        )
    return desk(request)


def naughty(request: ModelRequest) -> Any:
    """As the engineer it begins with what it may not do; what it hears of it stands in `sop log`."""
    if request.step == "change" and "/repair" not in request.key and request.key.endswith("turn.0"):
        return (
            whole(".github/workflows/ci.yml", "on: [push]\njobs: {}\n")
            + whole(".env", "KEY=1\n")
            + whole("../out.txt", "x\n")
            + whole("src/sitecustomize.py", "print(1)\n")
            + whole("pyproject.toml", "[project]\n")
        )
    return desk(request)


# what stands in a prompt


def artifact(said: str, name: str) -> str:
    found = re.findall(rf'<artifact name="{name}"[^>]*>\n(?:\([^\n]*\)\n)?(.*?)\n</artifact>', said, re.DOTALL)
    return found[-1] if found else ""


def files(said: str) -> dict[str, str]:
    return dict(re.findall(r'<file path="([^"\n]+)">\n(.*?)\n?\n</file>', said, re.DOTALL))


def named(text: str) -> list[str]:
    """Paths that a text names."""
    return list(
        dict.fromkeys(re.findall(r"(?<![\w/])(?:[\w.-]+/)*\.?[\w-]*\.(?:py|md|yml|toml|sh|env|txt)\b|(?<![\w/])\.env\b", text))
    )


def edit(path: str, *pairs: tuple[str, str]) -> str:
    blocks = "\n".join(f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE" for old, new in pairs)
    return f"=== edit: {path} ===\n{blocks}\n=== end ===\n"


def whole(path: str, text: str) -> str:
    return f"=== file: {path} ===\n{text}=== end ===\n"


def line(text: str, part: str) -> str:
    """The one line that holds this."""
    return next(one for one in text.splitlines() if part in one)


# the roles


def scout(said: str, results: list[str]) -> Any:
    wanted = artifact(said, "request")
    words = [re.escape(one) for one in dict.fromkeys(re.findall(r"`([\w./ -]+)`", wanted)) if " " not in one]
    words += ["no amount", r"line \{"] if "Bug" in wanted else []
    if not results:
        stems = [re.escape(path.rsplit("/", 1)[-1].split(".")[0]) for path in named(wanted) if path.endswith(".py")]
        return [ToolCall("", "search", {"expression": "|".join([*words, *stems])})]
    hits: dict[str, str] = {}
    for path, text in re.findall(r"^([^\s:][^:\n]*):\d+:\s?(.*)$", results[0], re.MULTILINE):
        hits.setdefault(path, text)
    if not hits:
        return {"summary": f"Nothing in the repository speaks of {', '.join(words)}.", "places": []}
    likely = [path for path in hits if path.startswith(("src/", "tests/", "docs/")) or path.endswith(".md")][:14]
    if len(results) == 1:
        return [ToolCall("", "read", {"path": path, "lines": 60}) for path in likely[:4]]
    return {
        "summary": f"{len(hits)} files speak of it; {len(likely)} of them matter.",
        "places": [
            {"path": path, "excerpt": hits[path].strip(), "why": "it is spoken of here"} for path in likely if hits[path].strip()
        ],
    }


def plan(said: str, results: list[str]) -> Any:
    wanted, changes, refused = artifact(said, "request"), [], []
    places = set(re.findall(r'"path": "([^"]+)"', artifact(said, "places")))

    def add(kind: str, path: str, why: str, what: str, **more: str) -> None:
        changes.append({"kind": kind, "path": path, **more, "why": why, "what": what})

    told = set(re.findall(r"`([^`]+)` may not be changed here", said))
    if "--json" in wanted:
        add("edit", "src/tally/cli.py", "the option is read here", "add `--json` to `report` and print what `as_json` gives")
        add("edit", "src/tally/report.py", "sums are printed here", "add `as_json(sums)`: the sums and the total as JSON")
        add("new", "tests/test_json.py", "the option has no test", "the output is JSON and holds the total")
        if "docs/usage.md" in places:
            add("edit", "docs/usage.md", "options are documented here", "a line on `--json`")
    for old, new in re.findall(r"`([^`]+)`[^`]*rename it to `([^`]+)`", wanted):
        add("rename", old, "it holds nothing but the table", f"`{new}`; who imports it does so by its new name", new_path=new)
    for path in re.findall(r"`([^`]+)`[^`]*: delete it", wanted):
        add("delete", path, "nobody uses it", "delete it")
    if "line" in wanted and "Bug" in wanted:
        add("edit", "src/tally/store.py", "the line is known here", "tell the line of a wrong amount as well")
        add("new", "tests/test_store.py", "nothing tests it", "a book with a wrong amount in line 2")
    if "nothing yet" in wanted:
        add("edit", "src/tally/report.py", "the report is made here", "an empty report says `nothing yet`")
    for path in named(wanted):
        if not path.startswith(("src/", "tests/", "docs/")) and not path.endswith((".md", "b.csv")):
            if path in told or (told == set() and path != ".github/workflows/ci.yml"):
                refused.append({"what": f"a change of `{path}`", "why": "this procedure changes no such files; a person has to"})
            else:
                add("edit", path, "it is asked for", "as the request says")
    return {
        "title": re.sub(r"^Bug: ", "", wanted).split(". ")[0].split(": ")[0].splitlines()[0].replace("`", "").strip(" ."),
        "changes": changes,
        "refused": refused,
    }


def change(said: str, results: list[str]) -> Any:
    shown, planned, blocks = files(said), artifact(said, "plan"), []
    rename = re.search(r'"path": "([^"]+)",\s*"new_path": "([^"]+)"', planned)
    if "as_json" in planned:
        cli, report = shown["src/tally/cli.py"], shown["src/tally/report.py"]
        by, render = line(cli, '"--by"'), line(cli, "print(render(")
        space = re.match(r" *", render)[0]
        loaded = re.search(r"print\(render\((.*)\)\)", render)[1]
        blocks.append(
            edit(
                "src/tally/cli.py",
                (line(cli, "import render, totals"), "from tally.report import as_json, render, totals"),
                (by, by + '\n    report.add_argument("--json", action="store_true", help="print JSON")'),
                (render, f"{space}sums = {loaded}\n{space}print(as_json(sums) if given.json else render(sums))"),
            )
        )
        pairs = [
            (
                line(report, "return table(rows)"),
                line(report, "return table(rows)") + '\n\n\ndef as_json(sums):\n    """The same as one JSON object."""\n'
                "    shown = {name: show_amount(amount) for name, amount in sums.items()}\n"
                '    return json.dumps({"sums": shown, "total": show_amount(sum(sums.values(), Decimal()))}, ensure_ascii=False)',
            )
        ]
        if rename:
            old, new = (re.sub(r"^src/|\.py$", "", one).replace("/", ".") for one in rename.groups())
            pairs.append((f"from {old} import table", f"from {new} import table"))
        blocks.append(edit("src/tally/report.py", *pairs))
        blocks.append(
            whole(
                "tests/test_json.py",
                "import json\n\nfrom tally.cli import main\n\n\ndef test_json(book, capsys):\n"
                '    assert main(["report", book, "--json"]) == 0\n'
                '    assert json.loads(capsys.readouterr().out)["total"] == "9.75"\n',
            )
        )
        if "docs/usage.md" in shown:
            last = shown["docs/usage.md"].rstrip().splitlines()[-1]
            blocks.append(edit("docs/usage.md", (last, last + "\n\n`--json` prints the sums and the total as one JSON object.")))
    if rename:
        blocks.append(f"=== rename: {rename[1]} -> {rename[2]} ===\n")
    blocks += [f"=== delete: {path} ===\n" for path in re.findall(r'"kind": "delete",\s*"path": "([^"]+)"', planned)]
    if "wrong amount as well" in planned:
        store = shown["src/tally/store.py"]
        blocks.append(
            edit(
                "src/tally/store.py", (line(store, "except ValueError as error"), "    except (ValueError, TallyError) as error:")
            )
        )
        blocks.append(
            whole(
                "tests/test_store.py",
                "import pytest\n\nfrom tally.errors import TallyError\nfrom tally.store import load\n\n\n"
                'def test_a_wrong_amount_is_told_with_its_line(tmp_path):\n    path = tmp_path / "b.csv"\n'
                '    path.write_text("2024-05-01,tea,3.50\\n2024-05-02,tea,three\\n", encoding="utf-8")\n'
                '    with pytest.raises(TallyError, match="line 2: no amount"):\n        load(str(path))\n',
            )
        )
    if "says `nothing yet`" in planned:
        first = line(shown["src/tally/report.py"], "rows = [")
        blocks.append(edit("src/tally/report.py", (first, '    if not sums:\n        return "nothing yet"\n' + first)))
    return "".join(blocks)


def diagnose(said: str, results: list[str]) -> Any:
    missing = re.search(r"NameError: name '(\w+)' is not defined", said)
    if missing:
        users = [
            path for path in re.findall(r"^\+\+\+ b/(\S+)", artifact(said, "patch"), re.MULTILINE) if path.startswith("src/")
        ]
        user = next(
            (
                path
                for path in users
                if f"{missing[1]}." in artifact(said, "patch").partition(f"+++ b/{path}")[2].partition("diff --git")[0]
            ),
            users[0],
        )
        return {
            "cause": f"`{user}` uses `{missing[1]}` and does not import it",
            "fixable": True,
            "files": [user],
            "advice": f"import {missing[1]}",
        }
    failed = re.findall(r"^(tests/\S+::\S+) \(", said, re.MULTILINE)
    if failed and "Leave the tests as they are" in said:
        return {
            "cause": f"{failed[0]} wants what the request takes away, and the request forbids to change the tests",
            "fixable": False,
            "files": [failed[0].split("::")[0]],
            "advice": "decide which of the two holds",
        }
    return {
        "cause": "no test ran" if "0 of 0 pass" in said else "not known",
        "fixable": False,
        "files": [],
        "advice": "a person has to look",
    }


def mend(said: str, results: list[str]) -> Any:
    name = re.search(r'"advice": "import (\w+)"', said)[1]
    path, text = next(iter(files(said).items()))
    first = next(one for one in text.splitlines() if one.startswith(("from ", "import ")))
    return edit(path, (first, f"import {name}\n{first}"))


def review(said: str, results: list[str]) -> Any:
    wanted, patch = artifact(said, "request"), artifact(said, "patch")
    faults = [
        f"{path}: the request names it, and the diff does not touch it"
        for path in named(wanted)
        if path.endswith(".md") and f"b/{path}" not in patch
    ]
    return {"accepted": not faults, "faults": faults}


def revise(said: str, results: list[str]) -> Any:
    paths = list(dict.fromkeys(re.findall(r'"(\S+\.md): the request names it', said)))
    if not results:
        return [ToolCall("", "read", {"path": path}) for path in paths]
    blocks = []
    for path, text in zip(paths, results, strict=True):
        lines = [one for one in text.splitlines() if one.strip() and not one.startswith("[")]
        if "## Unreleased" in lines:
            blocks.append(edit(path, ("## Unreleased", "## Unreleased\n\n- `report --json`.")))
        else:
            blocks.append(edit(path, (lines[-1], f"{lines[-1]}\n\n`tally report --json` prints JSON.")))
    return "".join(blocks)


def describe(said: str, results: list[str]) -> Any:
    title = re.search(r'"title": "([^"]*)"', artifact(said, "plan"))[1]
    touched = re.findall(r"^diff --git a/(\S+) b/", artifact(said, "patch"), re.MULTILINE)
    passed = re.search(r"(\d+) of (\d+) pass", said)
    left = re.findall(r'"what": "([^"]+)",\s*"why": "([^"]+)"', artifact(said, "plan"))
    cause = re.search(r'goes under "Open": (.+)', said)
    faults = re.search(r"""last faults go under "Open": (.+)""", said)
    out = [f"# {title}", "", *[f"- `{path}`" for path in touched], "", f"Tests: {passed[1]} of {passed[2]} pass.", ""]
    out += ["## Left out", "", *[f"- {what}: {why}" for what, why in left], ""] if left else []
    out += ["## Open", "", *[f"- {one[1]}" for one in (cause, faults) if one], ""] if cause or faults else []
    return "\n".join(out)


def sneaky(request: ModelRequest) -> Any:
    """The same within its folders: a file that Python runs as it starts."""
    if request.step == "change" and request.key.endswith("turn.0"):
        return desk(request) + whole("src/sitecustomize.py", "print(1)\n") + whole("src/tally/conftest.py", "print(1)\n")
    return desk(request)
