"""`sop new`: a SOP to start from, with its roles, their prompts and a test. What it writes passes `sop check` and `sop test`."""

from __future__ import annotations

import re
from pathlib import Path

from metaflow_agents.errors import UsageError
from metaflow_agents.schema.scalars import NAME_PATTERN

_SOP = """\
# A starting point. Look at it, check it, walk through it free of charge:
#   sop check {place}
#   sop graph {place}
#   sop test {place}
#   sop run {place} --model dry --topic "tea"
sop: {name}
description: A short text, written, reviewed and mended until the reviewer is content.

inputs:                                # each is an option of `sop run`: --topic "tea" --words 200
  topic: {{type: string, description: What to write about}}
  words: {{type: integer, description: About how long it should be, default: 150}}

budget: {{calls: 60, time: 10m}}         # never overrun; `sop resume` goes on with more

roles:                                 # who works; the files are roles/NAME.yaml
  {writer}: {{}}
  {reviewer}: {{}}

artifacts:                             # what passes between them
  draft: {{description: The text.}}
  verdict:
    description: What the reviewer found.
    schema: {{grade: fine | mend, faults: [{{quote: string, why: string}}]}}
    rules:
      - {{assert: verdict.grade == 'fine' or verdict.faults, message: say what has to be mended}}
  final: {{file: final.md, description: The text as it is handed over.}}

steps:
  write_draft:
    role: {writer}
    needs: [topic, words]
    makes: draft
    task: |
      Write about {{{{ topic }}}}, in about {{{{ words }}}} words.

  review_draft:
    role: {reviewer}
    needs: [draft]
    sees: [topic, words]
    makes: verdict
    task: |
      Judge the text on {{{{ topic }}}}. List as `faults` what a careful reader would stumble over, each with its words.
      `grade` is `fine` where nothing is left that has to change.

  mend_draft:
    role: {writer}
    needs: [verdict]
    sees: [draft]
    when: verdict.grade == 'mend'
    makes: draft
    rounds: 2                          # every cycle has a bound, or `sop check` refuses the file
    task: |
      Mend what the reviewer found, and leave the rest as it is:
      {{% for fault in verdict.faults %}}
      - "{{{{ fault.quote }}}}": {{{{ fault.why }}}}
      {{% endfor %}}

  hand_over: {{value: draft, needs: [draft, verdict], makes: final}}   # outside the loop: it fires once, on the last draft

outputs: [final]
success: verdict.grade == 'fine'       # what the exit status of `sop run` means

tests:                                 # `sop test` runs them, offline
  walks_through:
    inputs: {{topic: tea}}
    model: dry
    expect: success and final
  a_fault_is_mended:
    inputs: {{topic: tea}}
    given: {{verdict: {{grade: mend, faults: [{{quote: tea, why: which one}}]}}}}
    model: dry
    expect: not success and final
"""

_WRITER = """\
role: {writer}
profile: a writer who says one thing at a time
goal: a text that its reader understands at the first reading
constraints:
  - Short sentences, plain words, no filler.
  - Nothing is claimed that you do not know.
prompt: {writer}.md.j2
"""

_REVIEWER = """\
role: {reviewer}
profile: a reviewer with a sharp eye and no vanity
goal: that nothing wrong or unclear gets past you, and nothing good is touched
prompt: {reviewer}.md.j2
"""

_PROMPT = """\
You are {{ role.profile }}. You are after {{ role.goal }}.
{% for constraint in role.constraints %}
- {{ constraint }}
{% endfor %}
"""


def new_sop(name: str, folder: Path) -> list[Path]:
    """Writes the files of a new SOP into a folder, and returns them, the SOP first.

    Raises UsageError for a name that can't be a SOP's, and where a file is there already: nothing is written then.
    """
    if not re.match(NAME_PATTERN, name):
        fine = re.sub(r"\W+", "_", name).strip("_").lower()
        like = f", like `{fine}`" if re.match(NAME_PATTERN, fine) else ""
        raise UsageError(f"`{name}` can't be a SOP's name: letters, digits and `_`, not beginning with a digit{like}")
    words = {"name": name, "writer": f"{name}_writer", "reviewer": f"{name}_reviewer",
             "place": (folder / f"{name}.yaml").as_posix()}
    texts = {
        folder / f"{name}.yaml": _SOP.format(**words),
        folder / "roles" / f"{name}_writer.yaml": _WRITER.format(**words),
        folder / "roles" / f"{name}_writer.md.j2": _PROMPT,
        folder / "roles" / f"{name}_reviewer.yaml": _REVIEWER.format(**words),
        folder / "roles" / f"{name}_reviewer.md.j2": _PROMPT,
    }
    there = [path for path in texts if path.exists() or path.is_symlink()]
    if there:
        raise UsageError(f"{there[0]} is there already: give another name, or another --folder; nothing was written")
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise UsageError(f"can't write {error.filename or folder}: {error.strerror}; choose another --folder") from None
    return list(texts)
