"""Tools for the files that an activation sees: what its step reads, and what it wrote itself. They touch no disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from pydantic import Field

from metaflow_agents.code.edits import FITS, Hints, edited, whole_lines
from metaflow_agents.errors import did_you_mean
from metaflow_agents.policy.action import Action
from metaflow_agents.schema import paths
from metaflow_agents.schema.binary import described, text_in
from metaflow_agents.schema.media import HEAD, media_type
from metaflow_agents.threads.blocking import Threads
from metaflow_agents.tools.builtin import Arguments, BuiltIn
from metaflow_agents.tools.port import Situation, ToolResult
from metaflow_agents.tools.searching import THREADS, SearchHit, search

LINES = 2000                        # that `read` gives at once, unless it is asked for fewer
_HITS = 200
_LISTED = 500
_NAMED = 20                         # files that were not searched


class _Reading(Arguments):
    path: str = Field(description="of the file, relative to the run's repository")
    first: int = Field(1, ge=1, description="number of the first line")
    lines: int = Field(LINES, ge=1, le=LINES, description="how many lines at most")


class Read(BuiltIn[_Reading]):
    """Read a text file of the repository, whole or in part."""

    name: ClassVar[str] = "read"
    takes = _Reading

    def would(self, given: _Reading) -> Action:
        """`read(PATH)`."""
        return Action("read", given.path)

    async def do(self, given: _Reading, situation: Situation) -> ToolResult:
        """The lines; where some are left out, which."""
        text = text_of(situation.files, given.path)
        if isinstance(text, ToolResult):
            return text
        lines = text.splitlines(keepends=True)
        shown = lines[given.first - 1:given.first - 1 + given.lines]
        if not shown and lines:
            return ToolResult(f"`{given.path}` has {len(lines)} lines: there is no line {given.first}", error=True)
        whole = len(shown) == len(lines)
        last = given.first + len(shown) - 1
        head = "" if whole else f"[lines {given.first} to {last} of {len(lines)}]\n"
        asked = {"first", "lines"} & given.model_fields_set
        return ToolResult(head + "".join(shown) if lines else f"[`{given.path}` is empty]", content="".join(shown),
                      lacks="" if whole or asked else f"`{given.path}` has {len(lines)} lines, and {LINES} are read at once: "
                      "give `first` and `lines`")


class _Writing(Arguments):
    path: str = Field(description="of the file, relative to the run's repository")
    text: str = Field(description="the whole text of the file")


class Write(BuiltIn[_Writing]):
    """Write a file of what you make, whole: a new one, or in place of what stands there."""

    name: ClassVar[str] = "write"
    takes = _Writing

    def would(self, given: _Writing) -> Action:
        """`write(PATH)`."""
        return Action("write", given.path)

    async def do(self, given: _Writing, situation: Situation) -> ToolResult:
        """Whether it was new."""
        why = not_writable(given.path, situation)
        if why:
            return ToolResult(why, error=True)
        there = given.path in situation.files
        data = given.text.encode()
        done = "written anew" if there else "written"
        lines = len(given.text.splitlines())
        return ToolResult(f"`{given.path}` is {done}: {lines} {'line' if lines == 1 else 'lines'}", written={given.path: data})


class _Editing(Arguments):
    path: str = Field(description="of the file, relative to the run's repository")
    search: str = Field(min_length=1, description="text that stands in the file exactly once, spaces and line ends included")
    replace: str = Field(description="what stands there instead; empty deletes it")


class EditArguments(BuiltIn[_Editing]):
    """Change a file of what you make: a text that stands in it exactly once is replaced by another."""

    name: ClassVar[str] = "edit"
    takes = _Editing

    def would(self, given: _Editing) -> Action:
        """`write(PATH)`."""
        return Action("write", given.path)

    async def do(self, given: _Editing, situation: Situation) -> ToolResult:
        """Where it was changed; or how often the text stands there, and what is like it."""
        why = not_writable(given.path, situation)
        text = text_of(situation.files, given.path)
        if why or isinstance(text, ToolResult):
            return ToolResult(why, error=True) if why else text  # type: ignore[return-value]
        count = text.count(given.search)
        if count > 1:
            return ToolResult(f"`search` stands {count} times in `{given.path}`: add lines around it until it stands there once",
                          error=True)
        if count:
            line = text[:text.index(given.search)].count("\n") + 1
            changed = text.replace(given.search, given.replace, 1)
            return ToolResult(f"`{given.path}` is changed at line {line}", written={given.path: changed.encode()})
        done = edited(text, [whole_lines(given.search, given.replace)], Hints())
        if done.faults:
            return ToolResult(f"`{given.path}`: {done.faults[0].why}".replace("SEARCH", "`search`"), error=True)
        (line, fit), = done.places
        return ToolResult(f"`{given.path}` is changed at line {line}: `search` fits there {FITS[fit]}",
                      written={given.path: done.text.encode()})


class _Listing(Arguments):
    pattern: str = Field("**", description="of paths: `src/**`, `**/*.py`")


class List(BuiltIn[_Listing]):
    """List the files of the repository that you can see, with their sizes in bytes."""

    name: ClassVar[str] = "list"
    free = True
    takes = _Listing

    def would(self, given: _Listing) -> Action:
        """`read(PATTERN)`."""
        return Action("read", given.pattern)

    async def do(self, given: _Listing, situation: Situation) -> ToolResult:
        """A line each; how many more there are."""
        why = paths.pattern_refusal(given.pattern)
        if why:
            return ToolResult(f"`{given.pattern}` is no path pattern: {why}", error=True)
        found = sorted(path for path in situation.files if paths.matches((given.pattern,), path))
        if not found:
            return _nothing(given.pattern, situation)
        more = f"… and {len(found) - _LISTED} more: give a narrower pattern\n" if len(found) > _LISTED else ""
        listed = "".join(_listed(path, situation.files[path]) for path in found[:_LISTED])
        return ToolResult(listed + more, content=listed, lacks=more.strip())


def _nothing(pattern: str, situation: Situation) -> ToolResult:
    inside = ", and paths begin inside of the folder that was given" * bool(situation.files)
    return ToolResult(f"no file matches `{pattern}`; there are {len(situation.files)} files in all{inside}", content="")


def _listed(path: str, data: bytes) -> str:
    """A line of a list: path and size, and of what is no text its type."""
    kind = "" if text_in(data) is not None else f", {media_type(data[:HEAD], path)}"
    return f"{path} ({len(data):,}{kind})\n"


class _Searching(Arguments):
    expression: str = Field(min_length=1, max_length=1000, description="a regular expression (Python's), looked for line by line")
    pattern: str = Field("**", description="of the paths to look in")
    ignore_case: bool = Field(False, description="whether `a` finds `A`")


class Search(BuiltIn[_Searching]):
    """Search the files of the repository for a regular expression, line by line."""

    name: ClassVar[str] = "search"
    free = True
    takes = _Searching

    def __init__(self) -> None:
        self._threads = Threads(THREADS, "search")

    def would(self, given: _Searching) -> Action:
        """`read(PATTERN)`."""
        return Action("read", given.pattern)

    async def do(self, given: _Searching, situation: Situation) -> ToolResult:
        """`path:line: text`, a line each; how many more there are."""
        why = paths.pattern_refusal(given.pattern)
        if why:
            return ToolResult(f"`{given.pattern}` is no path pattern: {why}", error=True)
        chosen = {path: data for path, data in sorted(situation.files.items()) if paths.matches((given.pattern,), path)}
        if not chosen and situation.files:
            return _nothing(given.pattern, situation)
        found = await search(self._threads, given.expression, chosen, ignore_case=given.ignore_case, most=_HITS)
        if isinstance(found, str):
            return ToolResult(found, error=True)
        return _shown(found, given.expression)


def _shown(found: SearchHit, expression: str) -> ToolResult:
    named = ", ".join(found.binary[:_NAMED]) + (f" and {len(found.binary) - _NAMED} more" if len(found.binary) > _NAMED else "")
    passed = f"not searched, since they are no text: {named}\n" if found.binary else ""
    if not found.lines:
        told = f"`{expression}` stands in none of {found.files} files" + (f"\n{passed}" if passed else "")
        return ToolResult(told, content="")
    more = f"… and {found.total - len(found.lines)} more lines: search for less\n" if found.total > len(found.lines) else ""
    lines = "".join(f"{path}:{number}: {text}\n" for path, number, text in found.lines)
    return ToolResult(lines + more + passed, content=lines, lacks=more.strip())


def text_of(files: Mapping[str, bytes], path: str) -> str | ToolResult:
    """The text of a file, or why there is none."""
    if path not in files:
        choices = did_you_mean(path, sorted(files)) if files else "you see none; inputs and other artifacts stand in your task"
        inside = max((one for one in files if path.endswith(f"/{one}")), key=len, default="")
        found = f"`{inside}` is; paths begin inside of the folder that was given. " if inside else ""
        return ToolResult(f"there is no file `{path}`: {found}{choices}", error=True)
    text = text_in(files[path])
    return (
        ToolResult(f"{described(f'`{path}`', files[path])}: no text, so it can't be shown", error=True) if text is None else text
    )


def not_writable(path: str, situation: Situation) -> str:
    """Why the activation may not write a path; empty where it may."""
    if not situation.patterns:
        return "this step makes no files: what you make goes into your answer"
    why = paths.refusal(path)
    if why:
        return f"the path {path!r} is refused: {why}"
    if not paths.matches(situation.patterns, path):
        return f"`{path}` is outside of what this step makes: {', '.join(paths.told(situation.patterns))}"
    pair = paths.clash([*(one for one in situation.files if one != path), path])
    return f"`{pair[0]}` can't be a file and the folder of `{pair[1]}`" if pair else ""


def file_tools() -> Iterator[Read | Write | EditArguments | List | Search]:
    """All of them."""
    yield from (Read(), Write(), EditArguments(), List(), Search())
