"""Fills the tables of the documents from the code, between `<!-- generated: NAME -->` and `<!-- end -->`.

    python docs/generate.py

A test asserts that running it changes nothing. Each function below that is registered under a NAME gives one table.
`docs/reference/errors.md` and the JSON Schemas for editors are written whole.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import metaflow_agents
from metaflow_agents import errors, plugins
from metaflow_agents.agent.ask_role import AskRole
from metaflow_agents.agent.offered import FindTools
from metaflow_agents.agent.talking import AskPerson, StartRole
from metaflow_agents.policy.action import VERBS
from metaflow_agents.policy.judged import BUILT_IN
from metaflow_agents.policy.presets import preset
from metaflow_agents.policy.rules import EXAMPLES
from metaflow_agents.prompts import limits
from metaflow_agents.prompts.environment import FUNCTIONS
from metaflow_agents.prompts.filters import FILTERS
from metaflow_agents.prompts.predicates import TESTS
from metaflow_agents.runtime.handle import EXIT_STATUS
from metaflow_agents.sandbox.limits import SandboxLimits
from metaflow_agents.sandbox.sanitised import SHOWN_CHARACTERS
from metaflow_agents.schema import acting_files, keywords, results
from metaflow_agents.schema.event import Entry, Event, Version
from metaflow_agents.schema.shorthand import NAMES
from metaflow_agents.schema.sop import NOT_BUILT, SOP
from metaflow_agents.schema.strategies import STRATEGIES
from metaflow_agents.schema.tools import PolicySpec
from metaflow_agents.sop import codes
from metaflow_agents.sop.editor_schema import role_schema, sop_schema
from metaflow_agents.sop.graph import SOPGraph
from metaflow_agents.sop.names import RESERVED
from metaflow_agents.sop.shape_errors import MODELS
from metaflow_agents.tools.commands import Python, RunArguments
from metaflow_agents.tools.files import file_tools
from metaflow_agents.tools.map import MapTool
from metaflow_agents.tools.showing import More
from metaflow_agents.tools.web import Fetch
from metaflow_agents.views.picture import svg
from metaflow_agents.views.spans import names as otel

TOP = Path(__file__).resolve().parent.parent
DOCUMENTS = [TOP / "README.md", TOP / "CONTRIBUTING.md",
             *sorted(path for path in (TOP / "docs").glob("**/*.md") if path.parent.name != "decisions")]
_BLOCK = re.compile(r"(<!-- generated: ([a-z-]+)(?: ([\w/.-]+))? -->\n).*?(<!-- end -->)", re.DOTALL)

Table = Callable[..., str]
TABLES: dict[str, Table] = {}


def _named(name: str) -> Callable[[Table], Table]:
    def register(function: Table) -> Table:
        TABLES[name] = function
        return function
    return register


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines) + "\n"


def first_line(text: str | None) -> str:
    """The first sentence or line of a docstring."""
    return " ".join((text or "").strip().split("\n\n")[0].split())


# --- what a person may write

def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel) or value in (None, "", (), {}, []):
        return ""
    if value == (40, "turns"):
        return "`40 turns`"
    if isinstance(value, tuple):
        return ", ".join(f"`{one}`" for one in value)
    if isinstance(value, dict):
        return f"`{{{', '.join(f'{name}: {one}' for name, one in value.items())}}}`"
    return f"`{'true' if value is True else 'false' if value is False else value}`"


@_named("keys")
def keys(kind: str) -> str:
    """The keys of one mapping of the language."""
    model = MODELS[kind]
    rows = [[f"`{field.alias or name}`", field.description or "", _default(field)] for name, field in model.model_fields.items()]
    return table(["key", "meaning", "default"], rows)


_PLACES = {"sop": "key of a SOP", "role": "key of a role", "step": "key of a step", "foreach": "key of `foreach`",
           "artifact": "key of an artifact", "memory": "key of `memory`", "recall": "key of `recall`",
           "budget": "key of `budget`"}


_MEANT = {
    "read": "paths of files that tools read, list or search",
    "write": "paths of files that tools write, edit, rename or delete",
    "run": "words of a command", "python": "the scratch interpreter", "fetch": "a URL that is fetched",
    "connect": "a host that a command in the sandbox reaches",
    "install": "a Python package for the environment of commands, with its extras",
    "mcp": "`SERVER.TOOL`, or a server's name for all its tools",
    "api": "`SERVICE.OPERATION`, or a service's name for all its operations",
    "call": "a function under `tools`, `NAME.TOOL` of a source there, or a source's name for all its tools",
    "ask_person": "a question to a person", "start_role": "a role that is given work"}


@_named("verbs")
def verbs() -> str:
    """The verbs of rules."""
    tools = {verb: ", ".join(f"`{tool}`" for tool, of in BUILT_IN.items() if of == verb) for verb in VERBS}
    return table(["verb", "what its brackets hold", "built-in tools", "example"],
                 [[f"`{verb}`", _MEANT[verb], tools[verb], f"`{EXAMPLES[verb]}`"] for verb in VERBS])


@_named("tools")
def tools_() -> str:
    """The built-in tools, as a role sees them."""
    classes = [
        *(type(tool) for tool in file_tools()),
        MapTool,
        RunArguments,
        Python,
        Fetch,
        AskPerson,
        StartRole,
        AskRole,
        FindTools,
        More,
    ]
    rows = []
    for cls in classes:
        takes = [f"`{field.alias or name}`: {field.description}" if field.description else f"`{field.alias or name}`"
                 for name, field in cls.takes.model_fields.items()]
        rows.append([f"`{cls.name}`", " ".join((cls.__doc__ or "").split()), "; ".join(takes)])
    return table(["tool", "description", "arguments"], rows)


@_named("presets")
def presets() -> str:
    """What each preset says of each verb."""
    said = {name: {rule.verb: verdict for verdict, rules in (("allowed", preset(name).allow), ("asked about", preset(name).ask))
                   for rule in rules} for name in get_args(PolicySpec.model_fields["preset"].annotation)}
    return table(["preset", *(f"`{verb}`" for verb in VERBS)],
                 [[f"`{name}`", *(verdicts.get(verb, "denied") for verb in VERBS)] for name, verdicts in said.items()])


@_named("acting-files")
def acting_files_() -> str:
    """The list of files that act later."""
    rows = ((row.verdict, row.why, _ticked(row.names) + (f"; not below {_ticked(f'{one}/' for one in row.unless_in)}"
             if row.unless_in else "")) for row in (*acting_files.TABLE, acting_files.SHORT))
    return table(("", "because", "names"), rows)


@_named("not-built")
def not_built() -> str:
    """What is refused by name."""
    rows = [[f"`{key}`", _PLACES[place], why] for place, written in NOT_BUILT.items() for key, why in written.items()]
    return table(["key or value", "where", "why not yet"], rows)


@_named("sandbox-differences")
def sandbox_differences() -> str:
    """What comes of an attempt in one sandbox otherwise than in bubblewrap, from the table that all are put to."""
    written = yaml.safe_load((TOP / "tests/security/sandbox.yaml").read_text(encoding="utf-8"))
    rows = [[backend, f"{row['what']}".replace("|", "\\|"), f"{other['why']}".replace("|", "\\|")]
            for backend in ("landlock", "container") for row in written if (other := row.get("differs", {}).get(backend))]
    return table(["sandbox", "a command that", "comes out otherwise, as"], rows)


@_named("command-limits")
def limits_of_commands() -> str:
    """What a confined command may take."""
    most, megabyte = SandboxLimits(), 1 << 20
    rows = [
        ["wall time", f"{most.seconds:g} s, or the `timeout` of its step", "ended"],
        ["processor time of a process", f"{most.cpu} s, or that `timeout` where it is longer", "ended"],
        ["memory of all its processes", f"{most.memory // megabyte:,} MB", "ended"],
        ["processes and threads", f"{most.processes}", "no further one starts; where the kernel does not hold that, ended"],
        ["open files of a process", f"{most.open_files:,}", "no further one opens"],
        ["open files of all its processes", f"{most.descriptors:,}", "ended"],
        ["sockets of its network", f"{most.sockets:,}", "ended"],
        ["a file", f"{most.file // megabyte} MB", "writing fails"],
        ["files in its copy", f"{most.disk // megabyte:,} MB", "ended"],
        ["files and folders in its copy, `/tmp` and `/dev/shm`", f"{most.entries:,}", "ended"],
        ["`/tmp`, `/dev/shm`", f"{most.tmp // megabyte} MB, {most.shm // megabyte} MB", "writing fails"],
        ["output", f"{SHOWN_CHARACTERS:,} characters of each stream", "the rest is dropped, and how much that was is said"],
    ]
    return table(["of", "at most", "past it"], rows)


@_named("reserved")
def reserved() -> str:
    """Names that no artifact or input may have."""
    return ", ".join(f"`{name}`" for name in sorted(RESERVED, key=lambda name: (name.lower(), name))) + "\n"


@_named("strategies")
def strategies_() -> str:
    """The strategies that are built."""
    rows = [[f"`{name}`" if name == "single" else f"[`{name}`](#{name})", first_line(spec.__doc__)]
            for name, spec in STRATEGIES.items()]
    return table(["strategy", "what it does"], rows)


@_named("parameters")
def parameters(name: str) -> str:
    """The parameters of one strategy."""
    spec = STRATEGIES[name]
    rows = [[f"`{field.alias or key}`", field.description or "", _default(field)]
            for key, field in spec.model_fields.items() if key != "prompts"]
    if spec.PROMPTS:
        rows.append(["`prompts`", f"{_ticked(spec.PROMPTS)}: prompt → file name of the template in its place", ""])
    return table(["parameter", "meaning", "default"], rows)


@_named("plugin-groups")
def plugin_groups() -> str:
    """The groups of entry points, and what each names."""
    return table(["group", "named in", "what an entry point names"],
                 [[f"`{group}`", plugins.NAMED_BY[group], what] for group, what in plugins.GROUPS.items()])


# --- schemas

@_named("schema-words")
def schema_words() -> str:
    """The type names of the shorthand."""
    return ", ".join(f"`{name}`" for name in NAMES) + "\n"


@_named("schema-keywords")
def schema_keywords() -> str:
    """The keywords of JSON Schema that are supported."""
    rows = [["what a value is", _ticked(("type", *keywords.FORMS))], ["of text", _ticked(keywords.OF_STRINGS)],
            ["of numbers", _ticked(keywords.OF_NUMBERS)], ["of lists", _ticked(keywords.OF_LISTS)],
            ["of objects", _ticked(keywords.OF_OBJECTS)], ["passed on, not checked", _ticked(keywords.ANNOTATIONS)],
            ["at the top only", _ticked(keywords.ROOT_ONLY)], ["read and dropped", _ticked(keywords.DROPPED)]]
    return table(["keywords", ""], rows)


@_named("schema-refused")
def schema_refused() -> str:
    """The keywords that are refused."""
    return table(["refused", "write instead"], [[f"`{name}`", mend] for name, mend in keywords.REFUSED.items()])


@_named("results")
def fixed_results() -> str:
    """The fixed schemas, as shorthand."""
    told = (("`run:`", results.RUN_RESULT), ("`run:` with `parse: junit`", results.JUNIT_RESULT),
            ("`tool: packages`", results.LOCK),
            ("`human: text`", results.HUMAN_TEXT), ("`human: approve`", results.HUMAN_APPROVE),
            ("`human: {choice: [warm, cold]}`", results.human_choice(["warm", "cold"])),
            ("`on_fail: {makes: …}`", results.FAILURE))
    return table(["made by", "schema"], [[by, f"`{shorthand(schema)}`"] for by, schema in told])


def shorthand(schema: dict[str, Any]) -> str:
    """A closed schema as the shorthand would write it."""
    match schema:
        case {"enum": choices}:
            return " | ".join(choices)
        case {"type": "object", "properties": fields}:
            return "{" + ", ".join(f"{name}: {shorthand(inner)}" for name, inner in fields.items()) + "}"
        case {"type": "array", "items": items}:
            return f"[{shorthand(items)}]"
    return str(schema["type"])


def _ticked(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


# --- expressions

def _call(function: Callable[..., Any], skip: int) -> str:
    shown = []
    for parameter in list(inspect.signature(function).parameters.values())[skip:]:
        if parameter.kind is parameter.VAR_POSITIONAL:
            shown.append("…")
        elif parameter.kind is not parameter.VAR_KEYWORD:
            default = parameter.default
            plain = default is None or isinstance(default, str | bool | int | float)
            shown.append(parameter.name if default is parameter.empty or not plain else f"{parameter.name}={_literal(default)}")
    return f"({', '.join(shown)})" if shown else ""


def _literal(value: Any) -> str:
    """A default as an expression would write it."""
    return repr(value).lower() if value is None or isinstance(value, bool) else repr(value)


_TEXT_FORMS = {
    "lower": "The text in lower case.", "upper": "The text in upper case.",
    "capitalize": "The first letter upper, the rest lower.",
    "title": "The first letter of each word upper, the rest lower.", "string": "The value as text, as `{{ x }}` prints it.",
    "escape": "`&`, `<`, `>` and quotes as HTML entities.", "e": "The same as `escape`.",
    "urlencode": "Percent-encoded for a URL; `/` stays.",
    "map": "An attribute of each item (`map(attribute='a.b')`), or a filter on each (`map('upper')`).",
}


@_named("filters")
def filters() -> str:
    """Every filter with its parameters."""
    by_function: dict[int, list[str]] = {}
    for name, function in FILTERS.items():
        by_function.setdefault(id(function), []).append(name)
    rows = sorted([_ticked(names), f"`x | {names[0]}{_call(FILTERS[names[0]], 1)}`",
                   _TEXT_FORMS.get(names[0]) or first_line(FILTERS[names[0]].__doc__)] for names in by_function.values())
    return table(["filter", "written", "gives"], rows)


@_named("tests")
def tests() -> str:
    """Every test, those that take an argument apart."""
    bare: list[str] = []
    taking: list[str] = []
    for name, test in TESTS.items():
        (taking if len(inspect.signature(test).parameters) > 1 else bare).append(name)
    return table(["tests", ""], [["`x is NAME`", _ticked(bare)], ["`x is NAME(y)`, `select('NAME', y)`", _ticked(taking)]])


@_named("functions")
def functions() -> str:
    """The functions that expressions and templates may call."""
    rows = [["`history('x')`", "the versions of the artifact `x` up to the one seen, oldest first; in steps only"]]
    rows += [[f"`{name}`", first_line(function.__doc__)] for name, function in FUNCTIONS.items()]
    return table(["function", "gives"], rows)


@_named("limits")
def limits_() -> str:
    """What one evaluation may use."""
    rows = [["steps (items of loops, printed parts, operations, calls)", f"{limits.MAX_STEPS:,}"],
            ["characters of one text", f"{limits.MAX_TEXT:,}"], ["characters built in all", f"{limits.MAX_WORK:,}"],
            ["numbers of one `range`", f"{limits.MAX_RANGE:,}"], ["bits of a whole number", f"{limits.MAX_BITS:,}"],
            ["characters of a template", f"{limits.MAX_SOURCE:,}"], ["characters of an expression", f"{limits.MAX_EXPRESSION:,}"],
            ["names, signs and texts of a template or an expression", f"{limits.MAX_TOKENS:,}"]]
    return table(["of one evaluation or rendering", "at most"], rows)


# --- the command

def command_tree() -> dict[str, Any]:
    """The commands of `sop` by name, as the command line itself knows them."""
    import typer

    from metaflow_agents.cli.app import app
    from metaflow_agents.plugins import OURS, installed

    def below(found: dict[str, Any], before: str = "") -> dict[str, Any]:
        flat: dict[str, Any] = {}
        for name, one in found.items():
            flat |= below(one.commands, f"{before}{name} ") if hasattr(one, "commands") else {f"{before}{name}": one}
        return flat

    group: Any = typer.main.get_command(app)
    by_the_door = [name for name, plugin in installed("commands").items() if plugin.distribution == OURS]
    return below({**group.commands, **{name: group.get_command(None, name) for name in by_the_door}})


@_named("commands")
def commands() -> str:
    """Every command with its arguments."""
    rows = []
    for name, command in command_tree().items():
        arguments = [part.metavar for part in command.params if part.param_type_name == "argument"]
        rows.append([f"`{' '.join(['sop', name, *arguments])}`", first_line(command.help)])
    return table(["command", "does"], rows)


@_named("flags")
def flags() -> str:
    """Every option, and the commands that take it."""
    takers: dict[tuple[str, str], list[str]] = {}
    for name, command in command_tree().items():
        for part in command.params:
            if part.param_type_name == "option":
                written = f"{part.opts[0]} {part.metavar}" if part.metavar else part.opts[0]
                takers.setdefault((written, first_line(part.help)), []).append(name)
    rows = [[f"`{written}`", ", ".join(names), told] for (written, told), names in takers.items()]
    return table(["option", "of", "means"], rows)


# --- events, outcomes, errors

@_named("events")
def events() -> str:
    """The kinds of events."""
    rows = []
    for cls in get_args(get_args(Event)[0]):
        fields = _ticked(field.alias or name for name, field in cls.model_fields.items() if name not in ("kind", "at"))
        rows.append([f"`{cls.model_fields['kind'].default}`", first_line(cls.__doc__), fields])
    return table(["kind", "what happened", "fields"], rows)


@_named("event-fields")
def event_fields() -> str:
    """The fields whose meaning their names do not tell."""
    classes = [*get_args(get_args(Event)[0]), Version, Entry]
    rows = []
    for cls in classes:
        kind = cls.model_fields["kind"].default if "kind" in cls.model_fields else cls.__name__
        rows += [[f"`{kind}`", f"`{field.alias or name}`", field.description] for name, field in cls.model_fields.items()
                 if field.description and name != "at"]
    return table(["event", "field", "what it holds"], rows)


_OUTCOMES = {
    "success": "`success` holds; without `success`, every output exists",
    "failure": "nothing is left to do, and `success` is false",
    "stopped": "an activation failed for good under `on_fail: stop`, or the run could not go on",
    "interrupted": "it was cancelled",
    "until": "the step named by `until` is done",
    "budget": "a cap was met",
    "waiting": "nothing is left to do before a person has answered: `sop inbox`, `sop answer`, `sop resume`",
    "endpoint": "no model answers: a key is refused, a name unknown, a prompt not recorded",
}


@_named("outcomes")
def outcomes() -> str:
    """How a run ends."""
    return table(["outcome", "exit status", "when"],
                 [[f"`{name}`", str(status), _OUTCOMES[name]] for name, status in EXIT_STATUS.items()])


@_named("exceptions")
def exceptions() -> str:
    """The tree of errors with their exit status."""
    rows: list[list[str]] = []

    def add(cls: type[errors.MetaflowError], depth: int) -> None:
        rows.append([f"{'&nbsp;&nbsp;' * depth}`{cls.__name__}`", str(cls.exit_status), first_line(cls.__doc__)])
        for below in cls.__subclasses__():
            if below.__module__ == errors.__name__:
                add(below, depth + 1)
    add(errors.MetaflowError, 0)
    return table(["error", "exit status", "what it says"], rows)


# --- the package

@_named("public")
def public() -> str:
    """The names that `metaflow_agents` exports."""
    rows = []
    for name in metaflow_agents.__all__:
        thing = getattr(metaflow_agents, name)
        rows.append([f"`{name}`", "class" if inspect.isclass(thing) else "async function" if inspect.iscoroutinefunction(thing)
                     else "function", first_line(thing.__doc__)])
    return table(["name", "", "what it is"], rows)


@_named("otel-spans")
def otel_spans() -> str:
    """The spans of a run, by the conventions of one version."""
    return table(["span", "`gen_ai.operation.name`", "what it is"], [
        [f"`{name}`", "none" if operation == otel.STEP else f"`{operation}`", what]
        for operation, (name, what) in otel.SPANS.items()])


@_named("otel-events")
def otel_events() -> str:
    """What becomes of each kind of event."""
    return table(["event of the journal", "becomes"], [[f"`{kind}`", told] for kind, told in otel.TOLD_AS.items()])


@_named("otel-attributes")
def otel_attributes() -> str:
    """Attributes of spans."""
    return table(["attribute", "says"], [[f"`{name}`", told] for name, told in otel.ATTRIBUTES.items()])


@_named("otel-span-events")
def otel_span_events() -> str:
    """Events of spans."""
    return table(["event of a span", "says"], [[f"`{name}`", told] for name, told in otel.EVENTS.items()])


@_named("otel-errors")
def otel_errors() -> str:
    """The values of `error.type`."""
    return table(["`error.type`", "means"], [[f"`{name}`", told] for name, told in otel.ERRORS.items()])


@_named("otel-metrics")
def otel_metrics() -> str:
    """Metrics."""
    return table(["metric", "instrument", "unit", "measures"], [
        [f"`{metric.name}`", metric.instrument, f"`{metric.unit}`", metric.what] for metric in otel.METRICS])


@_named("otel-left-out")
def otel_left_out() -> str:
    """What is not exported."""
    return table(["left out", "because"], otel.LEFT_OUT.items())


@_named("otel-version")
def otel_version() -> str:
    """Of which conventions the names are."""
    return f"Names follow `semantic-conventions-genai` {otel.VERSION}.\n"


@_named("layers")
def layers_() -> str:
    """Layers and packages, as the import contract has them, each with what its docstring says."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))
    contract = project["tool"]["importlinter"]["contracts"][0]["layers"]
    rows = []
    for number, layer in enumerate(reversed(contract), 1):
        names = [name.strip("()") for name in re.split(r"\s*[:|]\s*", layer)]
        rows += [[str(number), f"`{name}/`" if folder.is_dir() else f"`{name}.py`", _module_line(name)]
                 for name in names if (folder := TOP / "metaflow_agents" / name).is_dir() or folder.with_suffix(".py").is_file()]
    return table(["layer", "package", "contents"], rows)


def _module_line(name: str) -> str:
    folder = TOP / "metaflow_agents" / name
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    return first_line(ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) if file.is_file() else "")


@_named("owners")
def owners() -> str:
    """External packages and where they may be imported, as the test holds it."""
    tree = ast.parse((TOP / "tests" / "test_house.py").read_text(encoding="utf-8"))
    node = next(node for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ONLY_IN")
    found: dict[str, tuple[str, ...]] = ast.literal_eval(node.value)
    return table(["package", "imported in"], [[f"`{name}`", _ticked(where)] for name, where in found.items()])


@_named("decisions")
def decisions() -> str:
    """Every note on a decision, by its heading."""
    rows = []
    for path in sorted((TOP / "docs" / "decisions").glob("*.md")):
        number, _, title = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ").partition(". ")
        rows.append([number, f"[{title}](../decisions/{path.name})"])
    return table(["", "decision"], rows)


_PICTURE = re.compile(r"pictures/graph-([a-z]\w*)\.svg")
_SOP = re.compile(r"^(?:# file: .*\n)?sop: (\w+)\n(?:.*\n)*?(?=^```$)", re.MULTILINE)


def pictures() -> dict[Path, str]:
    """The graphs that pages show, as `sop graph --svg` draws them: of a block of the page with that name, or of a SOP that ships.

    Raises KeyError where a page shows the graph of a SOP that is neither.
    """
    drawn: dict[Path, str] = {}
    for page in DOCUMENTS:
        text = page.read_text(encoding="utf-8")
        blocks = {match[1]: match[0] for match in _SOP.finditer(text)}
        for name in dict.fromkeys(_PICTURE.findall(text)):
            ships = TOP / "sops" / f"{name}.yaml"
            written = ships.read_text(encoding="utf-8") if name not in blocks and ships.is_file() else blocks[name]
            sop = SOP.model_validate(yaml.safe_load(written))
            drawn[TOP / "docs" / "pictures" / f"graph-{name}.svg"] = "\n".join(svg(sop, SOPGraph(sop))) + "\n"
    return drawn


def regenerated(text: str) -> str:
    """A document with every table made anew. Raises KeyError for a table of an unknown name."""
    def fill(match: re.Match[str]) -> str:
        made = TABLES[match[2]](*([match[3]] if match[3] else []))
        return f"{match[1]}{made}{match[4]}"
    return _BLOCK.sub(fill, text)


def wanted() -> dict[Path, str]:
    """Every file that is made from the code, whole or in parts: path → text."""
    schemas = {"sop": sop_schema(), "role": role_schema()}
    return {
        **{path: regenerated(path.read_text(encoding="utf-8")) for path in DOCUMENTS},
        **pictures(),
        TOP / "docs" / "reference" / "errors.md": codes.page(),
        **{TOP / "docs" / f"{kind}.schema.json": json.dumps(schema, ensure_ascii=False, indent=2) + "\n"
           for kind, schema in schemas.items()},
    }


def main() -> int:
    """Writes the documents that differ, and says which."""
    for path, text in wanted().items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"written: {path.relative_to(TOP)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
