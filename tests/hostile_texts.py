"""A run whose artifacts, files, answers and failures are hostile texts: those of tests/security/web.yaml."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tiers import table

from metaflow_agents.api.run import start
from metaflow_agents.terminal.printing import shown

ELSEWHERE = "http://elsewhere.example"
TEXTS = {row["id"]: row["text"].replace("{elsewhere}", ELSEWHERE).replace("{{", "{").replace("}}", "}")
         for row in table(Path(__file__).parent / "security" / "web.yaml") if "text" in row}
HOSTILE = """
sop: hostile
roles: {writer: {profile: a writer}}
inputs: {texts: {type: any}}
artifacts:
  said: {each: string}
  pages: {files: "pages/**"}
  data: {schema: any}
steps:
  say: {role: writer, needs: [texts], foreach: {in: "texts | list", as: name}, makes: said, on_fail: skip}
  lay: {needs: [texts], makes: pages, value: "PAGES"}
  keep: {needs: [texts], makes: data, value: "DATA"}
"""
ENDINGS = ("md", "html", "svg", "txt")
PAGES = "{" + ", ".join(f"'pages/{name}.{ending}': texts['{name}']" for name in TEXTS for ending in ENDINGS) + "}"
DATA = "{" + ", ".join(f"texts['{name}']: [texts['{name}']]" for name in TEXTS) + "}"
FAILS = "style"                     # the model fails with this one, so that it is the reason of a failure
BROUGHT = """() => [...document.querySelectorAll(
    'script:not([src]):not([data-ours]), object, embed, base, meta[http-equiv]:not([data-ours]), '
    + 'iframe:not([sandbox]), '
    + '[onerror], [onload], [onfocus], a[href^="javascript:"], a[href^="data:"], form[action], link[href^="http"], '
    + 'img:not([src^="blob:"]):not([src^="data:"]):not([src="icon.svg"]), '
    + 'style:not([data-ours])')].map(one => one.outerHTML.slice(0, 200))"""
"""JavaScript: the elements that a text brought in; `data-ours` marks those that were there before."""
HIDES = """() => {
    const said = document.body.innerText;
    const found = /[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]/.exec(said);
    return found && said.slice(found.index, found.index + 40);
}"""
"""JavaScript: where a page holds a control character, or one that turns the direction of writing; null: nowhere."""
LETTERS = """text => {
    const plain = written => written.replace(/\\s+/g, "");
    return plain(document.querySelector("main")?.textContent || "").includes(plain(text));
}"""
"""JavaScript: whether a page shows a text letter by letter, however it is broken into lines."""


SETTLED = f"text => ({LETTERS})(text) || ({BROUGHT})().length > 0"
"""JavaScript: whether there is something to judge."""


def made(home: Path) -> None:
    """The run `it` in the workspace of a folder."""
    (home / "hostile.yaml").write_text(HOSTILE.replace("PAGES", PAGES).replace("DATA", DATA))
    asyncio.run(_made(home))


async def _made(home: Path) -> None:
    def answer(request: Any) -> str:
        name = request.key.partition("[")[2].partition("]")[0]
        if name.endswith(FAILS):
            raise ValueError(TEXTS[name])
        return TEXTS[name]

    async with start(home / "hostile.yaml", inputs={"texts": TEXTS}, model=answer, workspace=home / "workspace",
                     name="it") as going:
        assert (await going.result()).outcome == "success"


def written(text: str) -> str:
    """A text as a page writes it: what hides or acts in a terminal stands there as a sign."""
    return shown(text, lines=True)
