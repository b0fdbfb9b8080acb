"""The SOPs to which `walk_pairs.py` adds one key, and the files beside them."""

from __future__ import annotations

DESK = """
async def answer(request):
    return f"{request.role} in {request.step}, by the desk"
async def other(request):
    return f"{request.role} in {request.step}, by another"
def count(words, step_size=1):
    return len(words) * step_size
def letters(words):
    return len("".join(words))
def content(letter):
    return None
def refuse(letter):
    return "too plain"
"""

LETTER = """
sop: walk
inputs: {topic: {type: string, default: rain}}
roles: {writer: {profile: You write.}}
artifacts: {letter: {}}
steps: {write: {role: writer, needs: [topic], makes: letter}}
"""

NUMBER = """
sop: walk
roles: {writer: {profile: You write.}}
artifacts: {number: {schema: integer}}
steps: {write: {role: writer, makes: number}}
"""

SERIES = """
sop: walk
roles: {writer: {profile: You write.}}
artifacts: {one: {}, two: {}, three: {}}
steps:
  first:  {role: writer, makes: one}
  second: {role: writer, needs: [one], makes: two}
  third:  {role: writer, needs: [two], makes: three}
"""

REMINDED = """
sop: walk
roles: {writer: {profile: You write., memory: {window: 1 turn}}, scout: {profile: You look.}}
artifacts: {one: {}, news: {}, two: {}, three: {}, four: {}}
steps:
  first:  {role: writer, makes: one, task: Write of whales.}
  look:   {role: scout, needs: [one], makes: news, task: Look around.}
  second: {role: writer, needs: [news], makes: two, task: Write of tea.}
  third:  {role: writer, needs: [two], makes: three, task: Write of snow.}
  fourth: {role: writer, needs: [three], makes: four, task: Write of whales again.}
"""
CHARACTERS = """
sop: walk
inputs: {names: {type: [string], default: [ann, bob]}}
roles: {writer: {profile: You are somebody.}}
artifacts: {said: {each: string}, known: {each: string}}
steps:
  hear:   {role: writer, needs: [names], foreach: {in: names}, makes: said, task: "Hear this, {{ item }}.", self: "{{ item }}"}
  recite: {role: writer, needs: [said, names], foreach: {in: names}, makes: known, task: Tell what you know.}
"""
LEARNS = """
sop: walk
roles: {writer: {profile: You write.}}
artifacts: {one: {schema: integer}, two: {schema: integer}}
steps:
  first:  {role: writer, makes: one, strategy: {reflexion: {evaluator: {assert: answer > 3}, trials: 4}}}
  second: {role: writer, needs: [one], makes: two, strategy: {reflexion: {evaluator: {assert: answer > 3}, trials: 4}}}
"""
REFLECTS = REMINDED.replace("{window: 1 turn}", "{window: 1 turn, recall: {}, reflect: {after: 2}}")

WATCHED = """
sop: walk
roles: {writer: {profile: You write.}, scout: {profile: You look around.}}
artifacts: {news: {}, brief: {}, letter: {}}
steps:
  look:  {role: scout, makes: news}
  sift:  {value: "'brief'", needs: [news], makes: brief}
  write: {role: writer, needs: [brief], makes: letter}
"""

FACT = """
sop: walk
inputs: {topic: {type: string, default: rain}}
artifacts: {fact: {}}
steps: {look: {value: topic, needs: [topic], makes: fact}}
"""

NOTES = """
sop: walk
inputs: {names: {type: [string], default: [a, b, c]}}
roles: {writer: {profile: You write.}}
artifacts: {notes: {each: integer}}
steps: {write: {role: writer, needs: [names], foreach: {in: names}, makes: notes}}
"""

LOST = """
sop: walk
inputs: {names: {type: [string], default: [a, b, c]}}
roles: {writer: {profile: You write.}}
artifacts: {notes: {each: integer}, letter: {}, lost: {}}
steps:
  write: {role: writer, needs: [names], foreach: {in: names}, makes: notes}
  bind:  {role: writer, needs: [notes], makes: letter, on_fail: {makes: lost}}
"""

INSTALLED = """
sop: walk
artifacts: {lock: {}, tried: {}}
steps:
  resolve: {tool: packages, inputs: {requirements: "[]"}, makes: lock}
  try_it: {run: [python, -c, import pydantic], needs: [lock], makes: tried}
outputs: [tried]
"""

TASKS = """
sop: walk
inputs:
  tasks: {type: [{id: string, uses: [string]}], default: [{id: a, uses: [b]}, {id: b, uses: []}]}
roles: {writer: {profile: You write.}}
artifacts: {notes: {each: integer}}
steps: {write: {role: writer, needs: [tasks], foreach: {in: tasks, key: item.id}, makes: notes}}
"""

PLANNED = """
sop: walk
roles: {writer: {profile: You write., tools: [read, search]}}
models: {plain: dry}
artifacts:
  plan: {schema: {tasks: [{id: string, other: string, uses: [string], first: [string]}]}}
  notes: {each: string}
steps:
  plan_it:
    value: "{'tasks': [{'id': 'a', 'other': 'b', 'uses': ['b'], 'first': []},
      {'id': 'b', 'other': 'a', 'uses': [], 'first': ['a']}]}"
    makes: plan
  write: {role: writer, needs: [plan], foreach: {in: plan.tasks, as: task, key: task.id}, makes: notes}
"""

SUB_SOP = """
sop: walk
inputs: {topic: {type: string, default: rain}}
artifacts: {letter: {}}
steps: {write: {sop: inner, needs: [topic], makes: letter}}
"""
INNER = {name: """
sop: NAME
inputs: {about: {type: string, default: snow}}
artifacts: {first: {schema: string}, second: {schema: string, initial: none}}
steps:
  begin: {value: "about + ' NAME'", needs: [about], makes: first}
  end:   {value: "about + ' again'", sees: [about], makes: second}
outputs: [first]
""".replace("NAME", name.removesuffix(".yaml")) for name in ("inner.yaml", "other.yaml")}
INHERITING = """
sop: walk
roles: {writer: {profile: You write.}}
artifacts: {notes: {}, letter: {}}
steps:
  note:  {role: writer, makes: notes, task: Note what matters.}
  write: {sop: inner, inputs: {about: "'snow'"}, needs: [notes], makes: letter}
"""
INHERITED = {"inner.yaml": """
sop: inner
inputs: {about: string}
roles: {writer: {profile: You write., memory: {recall: {importance: 0}}}}
artifacts: {letter: {}}
steps: {say: {role: writer, needs: [about], makes: letter, task: What do you know?}}
"""}

PAGES = """
sop: walk
roles: {writer: {profile: You write.}}
artifacts: {pages: {files: ["pages/*", notes.txt]}}
steps: {write: {role: writer, makes: pages}}
"""

LOOP = """
sop: walk
roles: {writer: {profile: You write.}}
artifacts: {number: {schema: integer, initial: 0}, verdict: {schema: boolean}}
steps:
  judge: {value: number >= 9, needs: [number], makes: verdict}
  mend: {role: writer, needs: [verdict], sees: [number], when: not verdict, makes: number, rounds: 2}
"""

TWO_ROLES = """
sop: walk
roles: {writer: {profile: You write.}, scout: {profile: You look.}}
artifacts: {news: {}, letter: {}}
steps:
  look:  {role: scout, makes: news}
  write: {role: writer, makes: letter}
"""

RULED = """
sop: walk
roles: {writer: {profile: You write.}}
artifacts: {number: {schema: integer, rules: [{assert: number > 0, message: write more}]}}
steps: {write: {role: writer, makes: number}}
"""

LISTED = """
sop: walk
artifacts:
  fact: {initial: moss}
  listing: {}
steps: {list_it: {run: cat fact.txt, needs: [fact], makes: listing}}
"""

RESULTS = """
sop: walk
artifacts:
  kept:
    files: ["*.xml", "*.json"]
    initial: {results.xml: "<testsuite><testcase name='it' classname='t'/></testsuite>", it.json: '"a word"'}
  result: {}
steps: {look: {run: "true", needs: [kept], makes: result}}
"""

CALLED = """
sop: walk
inputs: {words: {type: [string], default: [a, bc]}}
artifacts: {size: {schema: integer}}
steps: {measure: {call: "desk:count", needs: [words], makes: size}}
"""

DRAWN = """
sop: walk       # with Acme's package installed
artifacts: {picture: {}}
steps: {draw: {use: draw, with: {word: tea}, makes: picture}}
"""

SHOPPED = """
sop: walk       # with Acme's package installed
tools: {acme: {source: shop, with: {stock: {tea: 3}}}}
artifacts: {count: {schema: {ware: string, count: integer}}}
steps: {look: {tool: acme.order, inputs: {ware: "'tea'"}, makes: count, parse: json}}
"""

TESTED = """
sop: walk
inputs: {topic: {type: string, default: rain}}
roles: {writer: {profile: You write.}}
artifacts: {letter: {}, shout: {}}
steps:
  write: {role: writer, needs: [topic], makes: letter}
  raise_it: {value: letter | upper, needs: [letter], makes: shout}
tests: {walks: {}}
"""


ASKED = """
sop: walk
inputs: {topic: {type: string, default: rain}}
artifacts: {word: {}}
steps: {ask: {human: text, needs: [topic], makes: word, task: "What of {{ topic }}?"}}
"""

GUARDED = """
sop: walk
roles: {writer: {profile: You write., tools: [write]}}
artifacts: {letter: {}}
steps: {write: {role: writer, makes: letter}}
"""

SERVED = """
sop: walk
secrets: [KEY]
mcpServers: {github: {command: github-server}}
roles: {writer: {profile: You write., tools: ["github.*"]}}
artifacts: {letter: {}}
steps: {write: {role: writer, makes: letter}}
"""

ELSEWHERE = SERVED.replace("command: github-server", 'url: "https://mcp.example.com"')
SHOP = SERVED.replace("mcpServers: {github: {command: github-server}}", "openapi: {github: {spec: shop.json}}")
EQUIPPED = SERVED.replace("mcpServers: {github: {command: github-server}}", 'tools: {convert: {python: "desk:count"}}').replace(
    '"github.*"', "convert")
FETCHING = EQUIPPED.replace('{convert: {python: "desk:count"}}', "{fetch: {}}").replace("[convert]", "[fetch]")

AT_AN_ENDPOINT = LETTER + """
models: {default: {name: qwen3, endpoint: "http://127.0.0.1:9/v1"}}
"""
