"""What the tests of the command line share: small SOPs with functions for models, and a real `sop` process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOP = [sys.executable, "-c", "from metaflow_agents.cli import main; main()"]

LOOPED = """
sop: looped
description: A text, judged and mended until it holds.
inputs:
  topic: {type: string, description: What to write about}
  word_count: {type: integer, description: How long, default: 20}
roles:
  writer: {profile: a writer}
  critic: {profile: a critic}
artifacts:
  draft: {file: draft.md}
  verdict: {schema: {fine: boolean}}
  pieces: {each: string}
  pages: {files: "pages/**"}
  appendix: {}
  whole: {schema: {title: string, parts: [string]}}
steps:
  write_it: {role: writer, needs: [topic, word_count], makes: draft}
  judge_it: {role: critic, needs: [draft], makes: verdict}
  mend_it: {role: writer, needs: [verdict], sees: [draft], when: not verdict.fine, makes: draft, rounds: 2}
  cut_it: {role: writer, needs: [draft, verdict], foreach: {in: "['one', 'two', 'three']"}, makes: pieces, on_fail: skip}
  print_it: {value: "{'pages/1.txt': draft, 'pages/2.txt': topic}", needs: [draft, topic], makes: pages}
  extend_it: {role: writer, needs: [draft], when: "draft == 'no'", makes: appendix}
  bind_it: {value: "{'title': topic, 'parts': pieces | values}", needs: [pieces, topic], makes: whole}
outputs: [whole, pages, appendix]
success: verdict.fine
"""
DESK = '''
def answer(request):
    if request.step == "judge_it":
        return {"fine": "judge_it@1" not in request.key}
    if "[two]" in request.key:
        raise ValueError("no \\x1b[31mink")
    return f"{request.step} by {request.role}"
def broken(request):
    raise ValueError("no pen")
def stubborn(request):
    return {"fine": False} if request.step == "judge_it" else "the same"
'''
SLOW = """
sop: slow
roles: {writer: {profile: a writer}}
inputs: {letters: {type: [string], default: [a, b, c, d, e, f, g, h]}}
artifacts: {parts: {each: string}, book: {file: book.md}}
steps:
  write: {role: writer, needs: [letters], foreach: {in: letters, as: letter, parallel: 4}, makes: parts}
  bind: {value: "parts | values | join(' ')", needs: [parts], makes: book}
"""
SLOW_DESK = '''
import asyncio, os, pathlib, time
def quick(request):
    time.sleep(0.15)
    return request.key
async def sleeping(request):
    pathlib.Path("begun").touch()
    await asyncio.sleep(60)
async def blocking(request):
    while not pathlib.Path("noted").exists():
        await asyncio.sleep(0.01)
    pathlib.Path("begun").touch()
    time.sleep(60)
def deaf(request):
    pathlib.Path("begun").touch()
    time.sleep(60)
'''
COMMAND = """
sop: command
roles: {}
artifacts: {slept: {}}
steps: {sleep: {run: [sh, -c, "echo $$ > {{ run.inputs.file }}; sleep 61"], needs: [file], makes: slept}}
inputs: {file: string}
success: slept.ok
"""
BOTH = """
sop: both
roles: {writer: {profile: a writer}}
artifacts: {slept: {}, letter: {}}
steps:
  sleep: {run: [sh, -c, "echo $$ > {{ run.inputs.file }}; sleep 62"], needs: [file], makes: slept}
  write: {role: writer, needs: [file], makes: letter}
inputs: {file: string}
success: slept.ok
"""


def lay_out(folder: Path) -> Path:
    """The SOPs and their models in a folder."""
    for name, text in {"looped.yaml": LOOPED, "desk.py": DESK, "slow.yaml": SLOW, "slow_desk.py": SLOW_DESK,
                       "command.yaml": COMMAND, "both.yaml": BOTH}.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """That of the tests, without what a person may have configured."""
    left_out = ("SOP_MODEL", "OPENAI_API_KEY", "NO_COLOR", "COLUMNS", "PYTHONUNBUFFERED")
    kept = {key: value for key, value in os.environ.items() if key not in left_out}
    return {**kept, "PYTHONPATH": str(ROOT), **(more or {})}


def sop(folder: Path, *words: str, env: Mapping[str, str] | None = None, **options: object) -> subprocess.CompletedProcess[str]:
    """`sop …` as a process of its own, at no terminal."""
    return subprocess.run([*SOP, *words], cwd=folder, env=environment(env), capture_output=True, text=True,  # type: ignore[call-overload, no-any-return]
                          stdin=subprocess.DEVNULL, timeout=60, check=False, **options)
