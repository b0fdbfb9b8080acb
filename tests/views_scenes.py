"""SOPs, functions that stand in for models, and runs of them, for the tests of the web UI's views."""

from __future__ import annotations

from pathlib import Path

from cli_desk import sop

HOSTILE = ("<script>window.effects+=1</script><img src=x onerror='window.effects+=1'><svg onload='window.effects+=1'></svg>"
           "<iframe srcdoc='<script>parent.effects+=1</script>'></iframe> [link](javascript:window.effects+=1) "
           "\x1b[31mred\x1b[0m \u202egnp.exe\u202c </textarea></pre></script><!-- {{ 7 * 7 }} ${window.effects+=1}")
"""What a model, a tool or a page may say. In a page that takes it for more than text, `window.effects` is no longer 0."""

PAGES = """
sop: pages
description: Writes each page; one is written twice, one fails for good.
inputs: {titles: {type: [string], default: [one, two, three, four, five, six]}}
roles: {writer: {profile: a writer}}
artifacts: {drafts: {each: string}, book: {file: book.md}, count: {schema: {pages: integer}}}
steps:
  write: {role: writer, needs: [titles], foreach: {in: titles, as: title, parallel: 3}, makes: drafts, retries: 1, on_fail: skip}
  bind: {value: "drafts | values | join(' ')", needs: [drafts], makes: book}
  tell: {role: writer, needs: [book], makes: count}
outputs: [book, count]
"""
TALK = """
sop: talk
description: One activation of a hundred turns with a tool each.
tools: {look: {python: "desk:look", effect: none}}
roles: {reader: {profile: a reader, tools: [look]}}
inputs: {book: {type: string, default: a long book}}
artifacts: {answer: {}}
steps:
  read: {role: reader, needs: [book], makes: answer, task: "Read {{ book }}.", strategy: {react: {max_steps: 100}}}
"""
HOSTILE_SOP = """
sop: hostile
description: Everything that is said here would like to be markup.
tools: {look: {python: "desk:hostile_look", effect: none}}
inputs: {idea: string}
roles: {writer: {profile: a writer, tools: [look], memory: {recall: {importance: 0}}}}
artifacts:
  text: {}
  note: {file: note.md}
  page: {file: page.html}
  table: {file: rows.csv}
  drawing: {file: drawing.svg}
  data: {schema: {what: string}, file: data.json}
  tree: {files: "tree/**"}
steps:
  think: {role: writer, needs: [idea], makes: text, task: "Think about {{ idea }}"}
  write_note: {role: writer, needs: [text], makes: note, retries: 1, on_fail: skip}
  write_page: {role: writer, needs: [text], makes: page}
  write_table: {role: writer, needs: [text], makes: table}
  write_drawing: {role: writer, needs: [text], makes: drawing}
  write_data: {role: writer, needs: [text], makes: data}
  write_tree: {role: writer, needs: [text], makes: tree}
outputs: [text, note, page, table, drawing, data, tree]
"""
DRAFT = """
sop: draft
description: Two versions of a text, and a tree of files.
inputs: {topic: string}
roles: {writer: {profile: a writer}, critic: {profile: a critic}}
artifacts:
  draft: {file: draft.md}
  verdict: {schema: {ok: boolean, faults: [string]}}
  program: {files: "src/**"}
steps:
  write: {role: writer, needs: [topic], wants: [verdict], sees: [draft], when: not verdict.ok, rounds: 3, makes: draft}
  review: {role: critic, needs: [draft], makes: verdict}
  build: {role: writer, needs: [draft], makes: program}
outputs: [draft, program]
success: verdict.ok
"""
LIVE = """
sop: live
description: A thousand items, while somebody looks.
inputs: {many: {type: integer, default: 1000}}
roles: {counter: {profile: a counter}}
artifacts: {numbers: {each: string}}
steps:
  count:
    role: counter
    needs: [many]
    foreach: {in: "range(many) | list", as: number, key: "number | string", parallel: 16}
    makes: numbers
    on_fail: skip
"""
DESK = f'''
import asyncio, pathlib
from metaflow_agents import ToolCall

HOSTILE = {HOSTILE!r}


def look(page: int) -> str:
    """A page of the book."""
    if page == 7:
        raise ValueError("page 7 is torn out")
    return f"This is page {{page}}.\\n" * 3


def hostile_look(what: str) -> str:
    """Looks."""
    return HOSTILE


def writer(request):
    if request.step == "tell":
        return {{"pages": 5}}
    if "[two]" in request.key and "~0" in request.key or "[four]" in request.key:
        raise ValueError("no ink left for this page")
    return f"A page. {{request.key}}"


def reader(request):
    turn = sum(message["role"] == "assistant" for message in request.messages)
    if turn < 99:
        return [ToolCall("", "look", {{"page": turn}})]
    return [ToolCall("", "finish", {{"answer": "The word is zanzibar."}})]


def hostile(request):
    if request.step == "think":
        return HOSTILE if request.messages[-1]["role"] == "tool" else [ToolCall("", "look", {{"what": HOSTILE}})]
    if request.step == "write_note":
        if "~0" in request.key:
            raise ValueError(HOSTILE)
        return "# Note\\n\\n" + HOSTILE + "\\n\\n[good](https://example.org/) <b>bold</b>\\n\\n```html\\n" + HOSTILE + "\\n```\\n"
    if request.step == "write_table":
        return "name,what\\n" + chr(34) + HOSTILE.replace(chr(34), "") + chr(34) + ",=1+1\\n"
    if request.step == "write_drawing":
        return ('<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40" onload="top.effects+=1">'
                '<script>top.effects+=1</script><rect width="40" height="40" fill="teal"/></svg>')
    if request.step == "write_data":
        return {{"what": HOSTILE}}
    if request.step == "write_tree":
        return {{"tree/<img src=x onerror=top.effects+=1>.md": HOSTILE, "tree/plain.py": "x = 1  # </script>\\n"}}
    return "<!doctype html><title>A page</title>" + \\
        "<style>body{{background:#fee}}</style><h1>Page</h1>" + \\
        "<script>top.effects+=1;parent.effects+=1</script>" + \\
        "<form action=/api/run/stop method=post><button>stop</button></form>" + HOSTILE


def drafts(request):
    if request.step == "review":
        ok = "review@1" not in request.key
        return {{"ok": ok, "faults": [] if ok else ["too long"]}}
    if request.step == "build":
        return {{"src/main.py": "print(1)\\n", "src/other.py": "x = 1\\n"}}
    return "# Tea\\n\\nTea is a drink.\\n" + ("It is hot.\\n" if "write@1" in request.key else "It may be cold.\\n")


async def counter(request):
    item = int(request.key.split("[")[1].split("]")[0])
    while int(pathlib.Path("go").read_text() or 0) < item:           # the items up to the number in the file
        await asyncio.sleep(0.01)
    if item == 41:
        raise ValueError("forty-one is not counted")
    return "counted"
'''
SOPS = {"pages": PAGES, "talk": TALK, "hostile": HOSTILE_SOP, "draft": DRAFT, "live": LIVE}


def lay_out_scenes(folder: Path) -> None:
    """The SOPs and their desk in a folder."""
    for name, text in SOPS.items():
        (folder / f"{name}.yaml").write_text(text)
    (folder / "desk.py").write_text(DESK)


def run_scene(folder: Path, scene: str, model: str, *words: str, name: str = "") -> None:
    """Carries one of them out to its end."""
    done = sop(folder, "run", f"{scene}.yaml", "--model", f"python:desk.py:{model}", "--name", name or scene, *words)
    assert done.returncode in (0, 1), done.stdout + done.stderr
