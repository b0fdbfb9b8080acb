"""Every code that a problem of a SOP can have: what it means, and how severe it is. `docs/errors.md` is printed from here."""

from __future__ import annotations

from dataclasses import dataclass

from metaflow_agents.errors import Severity


@dataclass(frozen=True, slots=True)
class Code:
    """One kind of problem. `meaning` is a sentence; `mend` says in general what to do, the problem itself says what here."""

    meaning: str
    mend: str
    severity: Severity = "error"


GROUPS: dict[str, dict[str, Code]] = {
    "The file as YAML": {
        "yaml-syntax": Code("The text is no YAML.", "Check quotes, brackets and indentation around the place."),
        "yaml-empty": Code("The file says nothing.", "Write its keys."),
        "yaml-top": Code("The file is a list or a text, not a mapping.", "Write `key: value` lines."),
        "yaml-documents": Code("The file holds several documents.", "Keep one a file."),
        "yaml-directive": Code("A `%` directive opens the file.", "Remove it: all is read as YAML 1.2."),
        "yaml-encoding": Code("A byte or character can't be read, or is no part of YAML text.", "Save the file as UTF-8."),
        "yaml-size": Code("The file is larger than 1 MiB, or holds too many values.", "Split it."),
        "yaml-depth": Code("The file nests too deep.", "Flatten it."),
        "yaml-alias": Code("An alias names no anchor, contains itself, or multiplies values.", "Write the values out."),
        "yaml-tag": Code("A tag (`!name`) stands in the file.", "Remove it, or quote the value."),
        "yaml-key": Code("A key is no text.", "Quote it."),
        "yaml-merge": Code("A merge key `<<` stands in the file.", "Write the keys out, or use `defaults`."),
        "yaml-duplicate-key": Code("A key stands twice in one mapping.", "Remove one, or rename it."),
        "yaml-number": Code("A number is infinite, no number, or too long to be kept exactly.",
                            "Write a smaller one, or quote it."),
        "yaml-braces": Code("`{{ }}` opens an unquoted value, which is a mapping to YAML.", "Quote the whole value."),
        "yaml-cut": Code("A comma inside `{…}` or `[…]` ended a value early.", "Quote the whole value."),
    },
    "Files that the SOP names": {
        "file-unreadable": Code("A file is there and can't be read.", "Check its permissions."),
        "bad-file-name": Code("A template's or schema's name is no plain file name.", "Name a file beside the SOP."),
        "role-not-found": Code("A role is neither written in the SOP nor has a file.",
                               "Write its profile, or make `roles/NAME.yaml`."),
        "role-name": Code("A role's `role` is another name than its own.", "Make them equal."),
        "schema-not-found": Code("A schema file is not found.", "Mend the name."),
        "template-not-found": Code("A template is not found.", "Mend the name."),
        "template-clash": Code("Two templates have one name.", "Rename one."),
        "template-count": Code("Templates include too many others.", "Use fewer."),
        "template-encoding": Code("A template is not UTF-8 text.", "Save it as UTF-8."),
        "template-size": Code("A template is larger than 1 MiB.", "Split it."),
        "more-problems": Code("There are more problems than are shown.", "Mend the first ones."),
    },
    "Keys and values": {
        "unknown-key": Code("A key that the language does not know here.", "Use the nearest one that is named."),
        "foreign-key": Code("A key of another tool: GitHub Actions, Ansible, dbt.", "Use this language's own, which is named."),
        "not-built": Code("A part of the language that this version does not build.", "Leave it out."),
        "missing-key": Code("A key that has to be there is missing.", "Add it."),
        "wrong-type": Code("A value is of another type than its key takes.", "Write the type that is named."),
        "out-of-range": Code("A number is too small or too large.", "Stay within the bound that is named."),
        "empty-value": Code("A value is empty that may not be.", "Write one."),
        "too-many": Code("More entries than the key takes.", "Keep one."),
        "bad-name": Code("A name has other characters than letters, digits and `_`.", "Rename it."),
        "bad-quantity": Code("A duration, count or window can't be read.", "Write it like `30m`, `16k`, `40 turns`."),
        "bad-makes": Code("`makes` has another form than a name or `{NAME: PATTERN}`.", "Write one of these."),
        "bad-on-fail": Code("`on_fail` has another form than `stop`, `skip` or `{makes: ARTIFACT}`.", "Write one of these."),
        "bad-language": Code("The version of the language is unknown.", "Write a supported one."),
        "reserved-name": Code("A name has a meaning of its own in the language.", "Take another."),
    },
    "Schemas": {
        "schema-type": Code("A type that schemas do not know.", "Use one that is named."),
        "schema-keyword": Code("A keyword of JSON Schema that is not supported here.", "Say it in `rules`, or leave it out."),
        "schema-value": Code("A keyword of JSON Schema has a value of the wrong type.", "Write the type that is named."),
        "schema-combination": Code("Keywords or fields that do not go together.", "Keep one."),
        "schema-endless": Code("A schema refers to itself in a way that no value can ever fit.",
                               "Make one field optional, or a list."),
        "schema-enum": Code("An enumeration is empty, or repeats a value.", "List different values."),
        "schema-key": Code("A field's name can't be used.", "Rename it."),
        "schema-list": Code("A list in shorthand has not exactly one kind of item.", "Write `[TYPE]`."),
        "schema-misplaced": Code("A word stands where schemas do not take it.", "Move it as is said."),
        "schema-pattern": Code("A regular expression can't be read.", "Mend it."),
        "schema-python": Code("A Python model is not named as `package.module:Model`.", "Write this form."),
        "schema-range": Code("Bounds that no value can meet.", "Widen them."),
        "schema-ref": Code("A `$ref` leads nowhere.", "Name a definition of the same schema."),
        "schema-required": Code("`required` names a field that does not exist.", "Mend the name."),
        "schema-unmarked": Code("A mapping looks half like JSON Schema, half like shorthand.", "Write one of them wholly."),
    },
    "Names": {
        "unknown-artifact": Code("A step or role reads what is no artifact and no input.", "Use the nearest name."),
        "unknown-part": Code("A need is narrowed to a field that the artifact does not have.", "Use the nearest field."),
        "undeclared-artifact": Code("A step makes what is not declared under `artifacts`.", "Declare it, or mend the name."),
        "step-for-artifact": Code("A step is named where an artifact belongs.", "Name what the step makes."),
        "unknown-role": Code("A step's role is not declared.", "Declare it under `roles`, or mend the name."),
        "unknown-output": Code("An output is no artifact.", "Use the nearest name."),
        "unknown-input": Code("A test gives an input that does not exist.", "Use the nearest name."),
        "unknown-given": Code("A test gives an artifact that does not exist.", "Use the nearest name."),
        "unknown-step": Code("A test ends after a step that does not exist.", "Use the nearest name."),
        "input-and-artifact": Code("An input and an artifact share a name.", "Rename one."),
        "name-twice": Code("A step or role shares its name with an artifact or input.", "Rename one."),
        "makes-input": Code("A step makes an input.", "Make an artifact of another name."),
        "read-twice": Code("A step lists an artifact twice.", "Keep the entry that says how it is read."),
        "nobody-makes": Code("No step makes the artifact, and it has no `initial`.", "Let a step make it, or give it `initial`."),
        "nobody-reads": Code("Nobody reads the artifact, and it is no output.", "Read it, or remove it.", "warning"),
        "unused-input": Code("No step reads the input.", "Read it, or remove it.", "warning"),
        "unused-role": Code("No step is done by the role.", "Give it a step, or remove it.", "warning"),
    },
    "Expressions and templates": {
        "expression-syntax": Code("An expression can't be read.", "Mend it as is said."),
        "template-syntax": Code("A template can't be read.", "Mend it as is said."),
        "braces": Code("Braces stand around an expression, which takes none.", "Write it bare."),
        "cut-comment": Code("YAML ended an expression at ` #`.", "Quote the whole expression."),
        "cut-comma": Code("YAML ended an expression at a comma or bracket.", "Quote the whole expression."),
        "python-habit": Code("A form of Python, JavaScript or GitHub Actions.", "Write the form that is named."),
        "unknown-name": Code("A name that nothing has here.", "Use the nearest one."),
        "not-read": Code("An artifact or input is named that the step does not read.", "Add it to `sees`, `needs` or `wants`."),
        "unknown-attribute": Code("A field that the value does not have, by its schema.", "Use the nearest field."),
        "unknown-filter": Code("A filter that does not exist.", "Use the nearest one."),
        "unknown-test": Code("A test (`is …`) that does not exist.", "Use the nearest one."),
        "unknown-function": Code("A function that does not exist, or its parameters.", "Use the one that is named."),
        "unknown-include": Code("A template includes one that does not exist, or itself.", "Mend the name."),
        "call-of-value": Code("A value is called like a function.",
                              "Leave out the parentheses, or use the filter that is named."),
        "impossible-comparison": Code("A comparison that never holds, such as with a value that an enumeration lacks.",
                                      "Compare with a value that exists."),
        "impossible-operation": Code("Values of these types can't be combined.", "Use the operator that is named."),
        "not-a-list": Code("A loop or filter walks over what is no list.", "Name a list."),
        "refused-feature": Code("A feature of Jinja2 that is not part of this language.", "Leave it out."),
        "priority-number": Code("`priority` gives no number.", "Write a number."),
        "role-text": Code("An expression for `role` gives no text.", "Give the name of a role."),
        "when-constant": Code("`when` does not depend on anything.", "Leave it out, or name what it depends on.", "warning"),
    },
    "Doers": {
        "no-doer": Code("A step says nobody who works.", "Add one of `role`, `run`, `call`, `value`."),
        "two-doers": Code("A step has several doers.", "Keep one."),
        "key-misplaced": Code("A key belongs to another kind of step.", "Remove it."),
        "check-doer": Code("A `check` has not exactly one of `run` and `call`.", "Write one."),
        "check-blind": Code("A command is to check an answer that lies in no file.",
                            "Give the artifact a `file`, or use `check: {call: …}`."),
        "bad-parse": Code("`parse` can't be read, or does not fit the command.", "Write `json FILE`, `junit` or `junit FILE`."),
        "empty-command": Code("A command is empty.", "Name a program."),
        "unbalanced-quote": Code("A quote in a command is not closed.", "Close it, or write a list."),
        "shell-operator": Code("A shell's operator stands in a command.", "Write `[bash, -c, \"…\"]`."),
        "shell-newline": Code("A command has several lines.", "Join them, or write a list."),
        "shell-variable": Code("A shell's variable stands in a command.", "Write `[bash, -c, \"…\"]`."),
        "shell-glob": Code("`*` stands unquoted in a command.", "Quote it, or write `[bash, -c, \"…\"]`."),
        "shell-assignment": Code("A command begins with `NAME=value`.", "Write `[env, NAME=value, …]`."),
        "shell-cd": Code("A command is one that only a shell knows.", "Name paths from the root of the run's repository."),
        "shell-home": Code("`~` stands in a command.", "Name paths from the root of the run's repository."),
        "result-unread": Code("Nothing looks at whether a command succeeded.", "Read its `ok` in `success` or a `when`.",
                              "warning"),
        "call-form": Code("A function is not named as `package.module:function`.", "Write this form."),
        "call-module": Code("A module is not found.", "Mend the name, or put it beside the SOP."),
        "call-broken": Code("A module is no valid Python.", "Mend that file."),
        "call-function": Code("A module has no such function.", "Use the nearest name."),
        "call-parameter": Code("A function wants a parameter that the step does not have.",
                               "Read it, give it in `args`, or give it a default."),
        "call-argument": Code("`args` gives what the function does not take.", "Use the nearest parameter."),
        "unknown-strategy": Code("A strategy that does not exist.", "Use one that is named."),
        "strategy-parameter": Code("A parameter that the strategy does not have, or one that it wants and is not given.",
                                   "Use those that are named."),
        "unknown-model": Code("A model that does not exist.",
                              "Declare it under `models`, or write `openai:NAME`, `python:…`, `replay:…`, `manual` or `dry`."),
        "model-endpoint": Code("The address of an endpoint is none, or holds more than its base URL.",
                               "Write the part before `/chat/completions`."),
        "model-key": Code("`key` is no name of an environment variable, or looks like a key itself.",
                          "Put the key into the environment, and name the variable."),
        "model-parameter": Code("A parameter of the protocol that the engine sets itself.", "Remove it."),
        "model-in-test": Code("A test names a model that has an endpoint.", "Use `dry`, `python:…` or `replay:…`."),
        "no-price": Code("Money is capped, and the price of a model that is asked is not known: no run begins.",
                         "Write its `price`, or cap `tokens`.", "warning"),
        "recording-not-found": Code("The file of a recording is not found.", "Mend its path."),
    },
    "Items and files": {
        "foreach-list": Code("`in` gives no list.", "Name a list."),
        "foreach-makes": Code("A `foreach` step makes one plain value.", "Declare a collection (`each`) or files."),
        "each-makes": Code("A step without `foreach` makes a collection.", "Give it a `foreach`, or declare a plain value."),
        "item-name": Code("The item has the name of what the step reads.", "Name it with `as`."),
        "key-missing": Code("Items that are no texts have no `key`.", "Add `key`."),
        "key-text": Code("`key` gives no text.", "Name a text, or turn it into one."),
        "after-list": Code("`after` gives no list of keys.", "Give a list of texts."),
        "two-kinds": Code("An artifact is of two kinds.", "Keep one of `schema`, `each`, `files`."),
        "fixed-schema": Code("A schema is written for what has one of its own.", "Leave it out."),
        "rules-misplaced": Code("Rules are written for the result of a command, or for a failure.",
                                "Say it in `success` or in a `when`."),
        "run-makes-files": Code("A command makes a set of files.", "Let another step make them."),
        "path-refused": Code("A path or pattern leaves the repository, or is refused otherwise.", "Write a relative path."),
        "pattern-misplaced": Code("A pattern confines what is no set of files.", "Remove it, or declare `files`."),
        "pattern-outside": Code("A step's pattern lies outside of its artifact.", "Stay within the artifact's own patterns."),
        "files-overlap": Code("Two artifacts own one path.", "Make their patterns apart."),
        "file-misplaced": Code("`file` stands on a set of files.", "Remove it."),
        "file-without-render": Code("Data is written to a file and nothing says how.", "Add `render`, or write .json."),
        "render-without-file": Code("`render` without `file`.", "Add `file`."),
    },
    "Order and bounds": {
        "never-fires": Code("A step waits for what only its own result could bring.",
                            "Move a need to `wants`, or give it `initial`."),
        "cycle": Code("A cycle has no bound.", "Give one of its steps `rounds`."),
        "unordered-makers": Code("Two steps make one artifact and neither comes after the other.",
                                 "Let one read what the other makes."),
        "on-fail-same": Code("A step makes one artifact by its work and by its failure.", "Declare another for the failure."),
        "rounds-alone": Code("`rounds` on a step that stands in no loop.", "Remove it.", "warning"),
    },
    "Written values and tests": {
        "default-value": Code("An input's default does not fit its type.", "Write a value of its schema."),
        "initial-value": Code("An artifact's first value does not fit its schema.", "Write a value of its schema."),
        "test-value": Code("What a test gives does not fit its schema.", "Write a value of its schema."),
        "test-input": Code("A test does not give an input that has no default.", "Add it."),
    },
}

CODES: dict[str, Code] = {code: meaning for group in GROUPS.values() for code, meaning in group.items()}


def page() -> str:
    """The text of `docs/errors.md`."""
    lines = ["# What `sop check` says", "",
             "Every problem has a code, a place, what is wrong there, and the mend. An error has to be mended before a SOP runs;",
             "a warning is allowed and probably not meant. Each code has an example in `tests/sops/bad/`.", ""]
    for group, codes in GROUPS.items():
        lines += [f"## {group}", "", "| code | means | mend |", "| --- | --- | --- |"]
        lines += [f"| `{name}`{' (warning)' if code.severity == 'warning' else ''} | {_cell(code.meaning)} | {_cell(code.mend)} |"
                  for name, code in codes.items()]
        lines.append("")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
