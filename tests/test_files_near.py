"""Which files the author of a program is shown of it, where uses of it failed."""

from __future__ import annotations

from metaflow_agents.kits.company import files_near
from metaflow_agents.kits.company.near import FIXED

FILLED = "# nothing of this\n" + "".join(f"part_{number} = {number}\n" for number in range(880))
PROGRAM = {
    "README.md": "# till\n",
    "src/till/__init__.py": "from till.rates import converted\n",
    "src/till/cli.py": "from till.rates import converted\n\n\ndef main():\n    print(converted(1))\n" + FILLED,
    "src/till/rates.py": "def converted(amount):\n    raise KeyError('EUR')\n" + FILLED,
    "src/till/charts.py": "def drawn():\n    return ''\n" + FILLED,
    "assets/logo.bin": b"\x00\xff",
    "LICENSE": "converted rates till\n",
    ".github/workflows/test.yml": "converted: rates till\n",
    "docs/review.json": "{}\n",
}
NOT_SHOWN = ("assets/logo.bin", "LICENSE", ".github/workflows/test.yml", "docs/review.json")


def broken(*said: str) -> dict[str, object]:
    return {"broken": [{"id": f"use_{number}", "why": why} for number, why in enumerate(said)], "text": "all of it"}


async def test_all_of_a_small_program_is_shown_in_its_order() -> None:
    small = {path: text if isinstance(text, bytes) else text.replace(FILLED, "") for path, text in PROGRAM.items()}
    found = await files_near(broken("it has to end with 0"), small)
    assert found == {"shown": [path for path in PROGRAM if path not in NOT_SHOWN], "others": []}


async def test_what_is_said_names_the_files_that_are_shown() -> None:
    assert 2 * len(FILLED) < FIXED < 3 * len(FILLED)
    traceback = 'stderr:\n  File "site-packages/till/rates.py", line 2, in converted\nKeyError: \'EUR\'\n'
    found = await files_near(broken("$ till 1", traceback), PROGRAM)
    assert "src/till/rates.py" in found["shown"] and found["others"] == ["src/till/charts.py"]
    found = await files_near(broken("till charts: drawn() gave nothing, as charts.py"), PROGRAM)
    assert {"README.md", "src/till/charts.py"} <= {*found["shown"]} and len(found["others"]) == 1


async def test_the_likeliest_file_is_shown_whatever_its_size() -> None:
    large = {"a.py": "def parsed():\n    pass\n" + FILLED * 4, "b.py": "x = 1\n"}
    assert await files_near(broken("parsed() in a.py"), large) == {"shown": ["a.py"], "others": ["b.py"]}
