"""`--from RUN` notices Python that was edited: functions, tools, models, schemas, and what these import; and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, events, finished, ran, write

from metaflow_agents import RunResult, check, resume, run
from metaflow_agents.modules import loading, sources_of
from metaflow_agents.schema.event import Finished, Resumed

TWO = """
    sop: two
    inputs: {word: string}
    artifacts: {loud: {}, soft: {}, both: {}}
    steps:
      shout: {call: "loud:shout", needs: [word], makes: loud}
      breathe: {call: "soft:breathe", needs: [word], makes: soft}
      join: {value: "loud ~ soft", needs: [loud, soft], makes: both}
"""
CODE = {
    "loud.py": "from marks import END\nimport deep.far\n\ndef shout(word):\n    return word.upper() + END + deep.far.LAST\n",
    "soft.py": "def breathe(word):\n    return word.lower()\n",
    "marks.py": "END = '!'\n",
    "deep/__init__.py": "from .near import NEAR\n",
    "deep/near.py": "NEAR = ''\n",
    "deep/far.py": "from . import tail\nLAST = tail.TAIL\n",
    "deep/tail.py": "TAIL = '?'\n",
    "other.py": "OTHER = 1\n",
}


ONE = "sop: one\ninputs: {word: string}\nartifacts: {out: {}}\nsteps:\n  go: {call: 'soft:breathe', needs: [word], makes: out}\n"
COMPUTED = "modules that are imported by a computed name"


def put(folder: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def two(folder: Path, text: str = TWO) -> Path:
    put(folder, CODE)
    return write(folder, text)


@pytest.fixture(autouse=True)
def _no_bytecode(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An edit within a second, of the same length, would be taken for the compiled file of before."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield
    another_process()


def another_process() -> None:
    """Forgets the SOPs' modules, as another process would not have them."""
    for name in [name for name in sys.modules if name.startswith("_sop_")]:
        del sys.modules[name]
    loading._HOMES.clear()


async def first(path: Path, **options: Any) -> RunResult:
    result = await run(path, **{"name": "first", "workspace": path.parent, **options})
    assert result.ok, result.reason
    another_process()
    return result


async def again(path: Path, **options: Any) -> dict[str, tuple[str, ...]]:
    """Step → why it was carried out anew, of those that were."""
    options = {"name": "second", "workspace": path.parent, "from_run": "first", **options}
    result = await run(path, **options)
    assert result.ok, result.reason
    another_process()
    return {event.activation.partition("@")[0]: event.why for event in finished(path.parent, options["name"]).values()
            if event.reused_from is None}


@pytest.mark.parametrize(("file", "text"), [
    ("loud.py", CODE["loud.py"].replace("upper()", "title()")),
    ("marks.py", "END = '!!'\n"),
    ("deep/__init__.py", "from .near import NEAR\nMORE = 1\n"),
    ("deep/near.py", "NEAR = 'x'\n"),
    ("deep/far.py", "from . import tail\nLAST = tail.TAIL * 2\n"),
    ("deep/tail.py", "TAIL = '??'\n"),
])
async def test_an_edit_is_told_by_its_file_and_touches_only_who_uses_it(tmp_path: Path, file: str, text: str) -> None:
    path = two(tmp_path)
    await first(path, word="Tea")
    (tmp_path / file).write_text(text)
    why = await again(path, word="Tea")
    assert why.pop("shout") == (f"code:{file}",)
    assert why in ({}, {"join": ("need:loud",)})


@pytest.mark.parametrize(("file", "text"), [
    ("other.py", "OTHER = 2\n"), ("data.txt", "new"), ("new.py", "import loud\n"),
    ("loud.py", "# a remark\n" + CODE["loud.py"].replace("word.upper() + END", "(word.upper()\n            + END)")),
])
async def test_other_files_comments_and_formatting_change_nothing(tmp_path: Path, file: str, text: str) -> None:
    path = two(tmp_path)
    await first(path, word="Tea")
    (tmp_path / file).write_text(text)
    assert await again(path, word="Tea") == {}


async def test_a_new_import_and_one_that_is_gone_are_told(tmp_path: Path) -> None:
    path = two(tmp_path)
    await first(path, word="Tea")
    (tmp_path / "soft.py").write_text("from other import OTHER\n" + CODE["soft.py"])
    assert await again(path, word="Tea") == {"breathe": ("code:soft.py", "code:other.py")}
    (tmp_path / "soft.py").write_text(CODE["soft.py"])
    assert await again(path, word="Tea", from_run="second", name="third") == {"breathe": ("code:soft.py", "code:other.py")}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("how", [
    "import helper", "def late():\n    import helper", "from helper import *", "try:\n    import helper\nexcept ImportError: ...",
    "import importlib\nimportlib.import_module('helper') if 0 else None", "from . import helper", "from .helper import VALUE",
    "from space.inside import helper", "import pack.helper", "from pack import *", "from pack import helper",
])
async def test_each_way_to_import_is_followed(tmp_path: Path, how: str) -> None:
    put(tmp_path, {"helper.py": "VALUE = 1\n", "space/inside/helper.py": "VALUE = 1\n", "pack/__init__.py": "",
                   "pack/helper.py": "VALUE = 1\n", "soft.py": f"{how}\n\ndef breathe(word):\n    return word\n"})
    path = write(tmp_path, ONE)
    await first(path, word="a")
    place = "space/inside/helper.py" if "space" in how else "pack/helper.py" if "pack" in how else "helper.py"
    (tmp_path / place).write_text("VALUE = 2\n")
    assert await again(path, word="a") == {"go": (f"code:{place}",)}


async def test_in_a_project_files_are_told_from_its_root(tmp_path: Path) -> None:
    put(tmp_path, {"pyproject.toml": "", "common/text.py": "def shout(word):\n    return word\n", "sops/mine.py":
                   "from common.text import shout\n"})
    path = write(tmp_path / "sops", ONE.replace("soft:breathe", "mine:shout"))
    await first(path, word="a")
    (tmp_path / "common" / "text.py").write_text("def shout(word):\n    return word * 2\n")
    assert await again(path, word="a") == {"go": ("code:common/text.py",)}


async def test_a_check_and_a_python_schema_count_for_their_step(tmp_path: Path) -> None:
    path = write(tmp_path, """
        sop: checked
        inputs: {word: string}
        roles: {clerk: {profile: You file.}}
        artifacts: {note: {}, card: {schema: {python: "shapes:Card"}}, rest: {}}
        steps:
          file: {role: clerk, needs: [word], makes: note, check: {call: "judge:fine"}}
          deal: {role: clerk, needs: [word], makes: card}
          stay: {role: clerk, needs: [word], makes: rest}
    """, judge_py="def fine(note):\n    return True\n",
        shapes_py="from pydantic import BaseModel\n\nclass Card(BaseModel):\n    name: str\n")
    model = Scripted(deal={"name": "a"})
    await first(path, word="a", model=model)
    (tmp_path / "judge.py").write_text("def fine(note):\n    return note != ''\n")
    (tmp_path / "shapes.py").write_text("from pydantic import BaseModel\n\nclass Card(BaseModel):\n    name: str = 'b'\n")
    assert await again(path, word="a", model=model) == {"file": ("code:judge.py",), "deal": ("code:shapes.py",)}


async def test_a_tool_counts_for_those_who_have_it(tmp_path: Path) -> None:
    path = write(tmp_path, """
        sop: tooled
        inputs: {word: string}
        roles: {clerk: {profile: You file., tools: [stamp]}, poet: {profile: You sing.}}
        tools: {stamp: {python: "stamps:stamp", effect: none}}
        artifacts: {note: {}, song: {}}
        steps:
          file: {role: clerk, needs: [word], makes: note}
          sing: {role: poet, needs: [word], makes: song}
    """, stamps_py='from ink import INK\n\ndef stamp(text: str) -> str:\n    """Stamps."""\n    return text + INK\n',
        ink_py="INK = 'red'\n")
    model = Scripted()
    await first(path, word="a", model=model)
    (tmp_path / "ink.py").write_text("INK = 'blue'\n")
    assert await again(path, word="a", model=model) == {"file": ("code:ink.py",)}


async def test_the_tools_of_roles_that_are_started_or_take_part_count_too(tmp_path: Path) -> None:
    path = write(tmp_path, """
        sop: started
        inputs: {word: string}
        roles:
          head: {profile: You lead., tools: [start_role]}
          clerk: {profile: You file., tools: [stamp]}
          poet: {profile: You sing.}
        tools: {stamp: {python: "stamps:stamp", effect: none}}
        artifacts: {note: {}, talk: {}, song: {}}
        steps:
          lead: {role: head, needs: [word], makes: note}
          talk_it: {role: poet, needs: [word], makes: talk, strategy: {debate: {roles: [poet, clerk], rounds: 1}}}
          sing: {role: poet, needs: [word], makes: song}
    """, stamps_py='def stamp(text: str) -> str:\n    """Stamps."""\n    return text\n')
    model = Scripted()
    await first(path, word="a", model=model)
    (tmp_path / "stamps.py").write_text('def stamp(text: str) -> str:\n    """Stamps twice."""\n    return text\n')
    assert await again(path, word="a", model=model) == {"lead": ("code:stamps.py",), "talk_it": ("code:stamps.py",)}


async def test_who_embeds_what_a_role_remembers_counts(tmp_path: Path) -> None:
    path = write(tmp_path, """
        sop: recalling
        inputs: {word: string}
        models: {near: "python:near:embed"}
        roles: {clerk: {profile: You file., memory: {recall: {embeddings: near}}}, poet: {profile: You sing.}}
        artifacts: {note: {}, song: {}}
        steps:
          file: {role: clerk, needs: [word], makes: note}
          sing: {role: poet, needs: [word], makes: song}
    """, near_py="def embed(request):\n    return [[1.0] for _ in request.texts]\n")
    model = Scripted()
    await first(path, word="a", models={"default": model})
    (tmp_path / "near.py").write_text("def embed(request):\n    return [[2.0] for _ in request.texts]\n")
    assert await again(path, word="a", models={"default": model}) == {"file": ("code:near.py",)}


@pytest.mark.parametrize("written", ["python:brain:answer", "python:brain.py:answer"])
async def test_a_python_model_counts_for_those_who_ask_it(tmp_path: Path, written: str) -> None:
    path = write(tmp_path, f"""
        sop: modelled
        inputs: {{word: string}}
        models: {{clever: "{written}", plain: "python:plain:answer"}}
        roles: {{clerk: {{profile: You file., model: clever}}, poet: {{profile: You sing., model: plain}}}}
        artifacts: {{note: {{}}, song: {{}}}}
        steps:
          file: {{role: clerk, needs: [word], makes: note}}
          sing: {{role: poet, needs: [word], makes: song}}
    """, brain_py="from wit import WIT\n\ndef answer(request):\n    return WIT\n", wit_py="WIT = 'a'\n",
        plain_py="def answer(request):\n    return 'plain'\n")
    await first(path, word="a")
    (tmp_path / "wit.py").write_text("WIT = 'b'\n")
    assert await again(path, word="a") == {"file": ("code:wit.py",)}
    (tmp_path / "brain.py").write_text("from wit import WIT\n\ndef answer(request):\n    return WIT * 2\n")
    assert await again(path, word="a", from_run="second", name="third") == {"file": ("code:brain.py",)}


async def test_the_code_of_a_sub_sop_counts_for_its_step(tmp_path: Path) -> None:
    inner = TWO.replace("sop: two", "sop: inner").replace("steps:", "outputs: [both]\n    steps:")
    two(tmp_path / "parts", inner)
    path = write(tmp_path, """
        sop: outer
        inputs: {word: string}
        artifacts: {out: {}, soft: {}}
        steps:
          nest: {sop: parts/desk.yaml, inputs: {word: word}, needs: [word], makes: out}
          breathe: {call: "soft:breathe", needs: [word], makes: soft}
    """, soft_py=CODE["soft.py"])
    await first(path, word="Tea")
    (tmp_path / "parts" / "marks.py").write_text("END = '!!'\n")
    assert await again(path, word="Tea") == {"nest": ("code:inner/marks.py",)}


async def test_a_journal_that_says_nothing_of_code_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = two(tmp_path)
    with monkeypatch.context() as before:
        before.setattr("metaflow_agents.steps.code.CodeParts.of", lambda *_: {})
        await first(path, word="Tea")
    told = ("first does not say which Python it ran, so it may have been another",)
    assert await again(path, word="Tea") == {"shout": told, "breathe": told}


async def test_a_resume_goes_on_whatever_the_code_says(tmp_path: Path) -> None:
    path = two(tmp_path)
    result = await first(path, word="Tea", until="shout")
    assert result.outcome == "until"
    (tmp_path / "loud.py").write_text(CODE["loud.py"].replace("upper", "title"))
    assert (await resume("first", workspace=tmp_path)).ok
    assert events(tmp_path, "first", Resumed)[0].changes == ()
    assert [event.activation for event in events(tmp_path, "first", Finished)].count("shout@1~0") == 1


async def test_what_a_process_has_loaded_counts_as_it_was_loaded(tmp_path: Path) -> None:
    """A module is loaded once: in the same process an edit changes neither what runs nor what is taken over."""
    path = two(tmp_path)
    options: dict[str, Any] = {"word": "Tea", "workspace": tmp_path}
    await run(path, name="first", **options)
    (tmp_path / "marks.py").write_text("END = '!!'\n")
    same = await run(path, name="second", from_run="first", **options)
    assert same["both"] == "TEA!?tea" and ran(tmp_path, "second") == set()
    fresh = await run(path, name="third", **options)
    assert fresh["both"] == "TEA!?tea"
    another_process()
    later = await run(path, name="fourth", from_run="third", **options)
    assert later["both"] == "TEA!!?tea" and ran(tmp_path, "fourth") == {"shout", "join"}


@pytest.mark.parametrize(("text", "told"), [
    ("import importlib\nimportlib.import_module('a' + 'b') if 0 else 0", f"soft.py:2: {COMPUTED}"),
    ("from importlib import import_module as im", f"soft.py:1: {COMPUTED}"),
    ("import runpy\nlater = runpy.run_path", f"soft.py:2: {COMPUTED}"),
    ("X = eval('1')", "soft.py:1: what `eval` carries out"),
    ("def later():\n    import nowhere_at_all",
     "soft.py:2: `nowhere_at_all`, which is not found beside the SOP, in its project or installed"),
    ("import pydantic.fields", "the installed package `pydantic`"),
    ("import broken", "broken.py: what it imports, since it can't be read as Python text"),
    ("import quick", "quick.abi3.so: what it imports, since it can't be read as Python text"),
    ("import os.path, json, sys, __future__\nfrom marks import END\nimport collections.abc as c", ""),
    ("try:\n    import nowhere_at_all\nexcept ImportError:\n    pass", ""),
    ("import deep, space.inside\nfrom space import inside", ""),
    ("class M:\n    def eval(self): ...\nM().eval()", ""),
])
def test_what_is_not_followed_is_told_by_the_check(tmp_path: Path, text: str, told: str) -> None:
    path = two(tmp_path)
    put(tmp_path, {"soft.py": f"{text}\n\ndef breathe(word):\n    return word\n", "broken.py": "def", "space/inside/x.py": ""})
    (tmp_path / "quick.abi3.so").write_bytes(b"\x7fELF")
    report = check(path)
    assert report.ok and report.unfollowed == ((told,) if told else ())
    assert report.as_json()["unfollowed"] == list(report.unfollowed)


def test_of_what_is_installed_the_named_file_counts(tmp_path: Path) -> None:
    found = sources_of("yaml.nodes:Node", [tmp_path])
    assert list(found.files) == ["yaml.nodes"] and found.unfollowed == ("the installed package `yaml`",)
    assert sources_of("json:dumps", [tmp_path]).files == {}
