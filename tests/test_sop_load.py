from __future__ import annotations

from pathlib import Path

import pytest

from metaflow_agents.errors import Problem, SOPInvalid, SOPNotFound
from metaflow_agents.settings import Settings
from metaflow_agents.sop import library
from metaflow_agents.sop.load import LoadedSOP, load_sop, read_sop

MINIMAL = "sop: x\nartifacts: {a: {}}\nsteps:\n  s: {value: '1', makes: a}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def put(folder: Path, name: str, text: str) -> None:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def problems(folder: Path, text: str) -> tuple[Problem, ...]:
    put(folder, "x.yaml", text)
    return read_sop("x.yaml", start=folder).problems


def loaded(folder: Path, text: str) -> LoadedSOP:
    put(folder, "x.yaml", text)
    return load_sop("x.yaml", start=folder)


def step(written: str) -> str:
    return f"sop: x\nsteps:\n  s: {written}\n"


def top(written: str) -> str:
    return f"sop: x\nsteps: {{s: {{value: '1', makes: a}}}}\n{written}\n"


ONE = [
    # the whole
    (top("§nme: y"), "unknown-key", "no key `nme`", "there is: sop, language"),
    (top("§outptus: [a]"), "unknown-key", "no key `outptus`", "did you mean `outputs`"),
    (top("§rounds: 3"), "unknown-key", "no key `rounds`", "is a key of a step"),
    (top("§jobs: {}"), "foreign-key", "GitHub Actions", "`steps`"),
    (top("§hosts: all"), "foreign-key", "Ansible", "`roles`"),
    (top("§sources: []"), "foreign-key", "dbt", "`inputs`"),
    (top("language: §7"), "bad-language", "language 7", "language: 1"),
    (top("language: §'1'"), "wrong-type", "whole number", "remove the quotes"),
    (top("outputs: §a"), "wrong-type", "a list", "outputs: [a]"),
    (top("description: §5"), "wrong-type", "has to be a text, and is `5`", '"5"'),
    (top("models: §[a]"), "wrong-type", "`models` has to be a mapping", "language models"),
    (top("models: {§default: {endpoint: x}}"), "missing-key", "needs the key `name`", "as the endpoint calls the model"),
    (top("models: {default: {name: x, §nmae: y}}"), "unknown-key", "a model has no key `nmae`", "did you mean `name`"),
    (top("models: {default: {name: x, §base_url: y}}"), "foreign-key", "`base_url`", "write `endpoint: URL`"),
    (top("models: {default: {name: x, §api_key: y}}"), "foreign-key", "`api_key`", "`key: NAME`, the environment variable"),
    (top("models: {default: {name: x, §top_p: 1}}"), "foreign-key", "`top_p`", "`parameters: {top_p: …}`"),
    (top("models: {default: {name: x, §model: x}}"), "foreign-key", "`model`", "write `name: NAME`"),
    (top("models: {default: {name: x, §provider: ollama}}"), "foreign-key", "`provider`", "remove it"),
    (top("models: {default: {name: x, §max_completion_tokens: 9}}"), "foreign-key", "`max_completion_tokens`", "`max_tokens: N`"),
    (top("models: {default: §[dry]}"), "wrong-type", "`default` has to be a mapping, and is a list", "`openai:NAME`"),
    (top("models: {§my-model: dry}"), "bad-name", "`my-model` is no name", "letters"),
    (top("models: {default: {name: x, temperature: §3}}"), "out-of-range", "at most 2", "at most 2"),
    (top("models: {default: {name: x, timeout: §soon}}"), "bad-quantity", "not a duration", "30m"),
    (top("models: {default: {name: §''}}"), "empty-value", "`name` is empty", "value"),
    (top("models: {default: {name: x, §price: {in: 1}}}"), "missing-key", "`price` needs the key `out`", "out: DOLLARS"),
    (top("models: {default: {name: x, price: {in: 1, out: 1, §output: 1}}}"), "foreign-key", "`output`", "out: DOLLARS"),
    (top("models: {default: {name: x, price: {§in_: 1, out: 1}}}"), "unknown-key", "`in_`", "did you mean `in`"),
    (top("limits: {§rmp: 1}"), "unknown-key", "`limits` has no key `rmp`", "did you mean `rpm`"),
    (top("budget: {tokens: §many}"), "bad-quantity", "not a count", "1.5M"),
    (top("budget: {usd: §free}"), "bad-quantity", "'free' is not an amount", "5 or 0.25"),
    (top("budget: {usd: §0}"), "bad-quantity", "0 is not an amount", "above 0"),
    (top("limits: {rpm: §many}"), "bad-quantity", "`rpm`: 'many' is not a count", "16k"),
    (top("limits: {tpm: §0}"), "bad-quantity", "out of range", "above 0"),
    (top("limits: {concurrency: §1.5}"), "bad-quantity", "`concurrency`", "whole number"),
    (top("limits: §60"), "wrong-type", "`limits` has to be a mapping", "mapping"),
    (top("limits: {§rps: 60}"), "unknown-key", "`limits` has no key `rps`", "rpm"),
    (top("models: {default: {name: x, price: {in: §-1, out: 2}}}"), "out-of-range", "`in` is -1", "at least"),
    (top("models: {default: {name: x, price: {in: 1, out: 2, §caching: 3}}}"), "unknown-key", "no key `caching`", "cached"),
    (top("models: {default: {name: x, price: {in: 1, out: §cheap}}}"), "wrong-type", "`out`", "write"),
    ("§steps: {s: {value: '1', makes: a}}\n", "missing-key", "`sop`", "sop: NAME"),
    ("§sop: x\n", "missing-key", "`steps`", "at least one step"),
    ("sop: x\nsteps: §{}\n", "empty-value", "`steps` is empty", "value"),
    ("sop: §5a\nsteps: {s: {value: '1', makes: a}}\n", "bad-name", "`5a`", "letters"),
    # steps
    ("sop: x\nsteps:\n  §s: {value: '1'}\n", "missing-key", "the step `s` needs the key `makes`", "makes: ARTIFACT"),
    (step("{value: '1', makes: a, §nedds: b}"), "unknown-key", "`nedds`", "did you mean `needs`"),
    (step("{§if: x, value: '1', makes: a}"), "foreign-key", "`if`", "when: EXPRESSION"),
    (step("{value: '1', makes: a, §uses: x}"), "foreign-key", "`uses`", "`role`"),
    (step("{value: '1', makes: a, §runs-on: x}"), "foreign-key", "`runs-on`", "--sandbox"),
    (step("{value: '1', makes: a, §continue-on-error: true}"), "foreign-key", "GitHub", "on_fail: skip"),
    (step("{value: '1', makes: a, §timeout-minutes: 5}"), "foreign-key", "GitHub", "timeout: 5m"),
    (step("{value: '1', makes: a, §max-parallel: 5}"), "foreign-key", "GitHub", "parallel: N"),
    (step("{value: '1', makes: a, §register: x}"), "foreign-key", "Ansible", "makes: ARTIFACT"),
    (step("{value: '1', makes: a, §with_items: x}"), "foreign-key", "Ansible", "foreach"),
    (step("{value: '1', makes: a, §materialized: view}"), "foreign-key", "dbt", "makes"),
    (step("{value: '1', makes: a, strategy: {§matrix: {a: 1}}}"), "foreign-key", "GitHub", "foreach"),
    (step('{value: \'1\', makes: a, needs: [§"ref(\'x\')"]}'), "foreign-key", "dbt", "name alone"),
    (step("{value: '1', makes: a, needs: §{b: c}}"), "wrong-type", "`needs`", "`needs: [a, b]`"),
    (step("{value: '1', makes: a, needs: [b, §5]}"), "wrong-type", "`needs`", '"5"'),
    (step("{run: §5, makes: a}"), "wrong-type", "a text or a list", '"5"'),
    (step("{run: [a, §{b: c}], makes: a}"), "wrong-type", "a mapping", "text"),
    (step("{value: '1', makes: §[a, b]}"), "bad-makes", "one artifact", "makes: NAME"),
    (step("{value: '1', makes: §{a b: c}}"), "bad-name", "`a b`", "letters"),
    (step("{value: '1', makes: a, on_fail: §ignore}"), "bad-on-fail", "`stop`", "skip"),
    (step("{value: '1', makes: a, rounds: §0}"), "out-of-range", "at least 1", "1"),
    (step("{value: '1', makes: a, retries: §101}"), "out-of-range", "at most 100", "100"),
    (step("{value: '1', makes: a, rounds: §true}"), "wrong-type", "whole number", "whole"),
    (step("{value: '1', makes: a, rounds: §'4'}"), "wrong-type", "the text `4`", "remove the quotes: 4"),
    (step("{value: '1', makes: a, timeout: §3 weeks}"), "bad-quantity", "duration", "30m"),
    (step("{value: '1', makes: a, task: §''}"), "empty-value", "`task` is empty", "value"),
    (step("{value: '1', makes: a, strategy: §{a: 1, b: 2}}"), "too-many", "`strategy`", "keep one"),
    (step("{value: '1', makes: a, §foreach: {as: b}}"), "missing-key", "`in`", "in: EXPRESSION"),
    (step("{value: '1', makes: a, foreach: {in: b, as: §key}}"), "reserved-name", "`key`", "key_"),
    (step("{value: '1', makes: a, foreach: {in: b, §stream: true}}"), "not-built", "`stream`", "remove"),
    (step("{value: '1', makes: a, foreach: {in: b, §when: c}}"), "foreign-key", "`when`", "`where`"),
    (step("{value: '1', makes: a, check: {§cmd: x, run: y}}"), "unknown-key", "`cmd`", "run"),
    (step("{value: '1', makes: a, when: f(b, §c)}"), "yaml-cut", "comma before `c)`", "quotes"),
    (step("§[value]"), "wrong-type", "`s` has to be a mapping, and is a list", "name: …"),
    ("sop: x\nsteps:\n  §a-b: {value: '1', makes: a}\n", "bad-name", "`a-b`", "letters"),
    # what passes between them
    (top("artifacts: {a: {§title: string}}"), "unknown-key", "`title`", "under `schema`"),
    (top("artifacts: {a: {graph: §x}}"), "wrong-type", "`graph` has to be a mapping", "write a mapping"),
    (top("artifacts: {a: {§graph: {key: id}}}"), "missing-key", "`graph` needs the key `edges`", "add `edges: FIELD`"),
    (top("artifacts: {a: {§schema_: string}}"), "unknown-key", "`schema_`", "`schema`"),
    (top("artifacts: {a: {§type: string}}"), "foreign-key", "`type`", "schema: TYPE"),
    (top("artifacts: {a: §}"), "wrong-type", "is empty", "a: {}"),
    (top("artifacts: {a: {files: §5}}"), "wrong-type", "list of texts", '"5"'),
    (top("artifacts: {§round: {}}"), "reserved-name", "`round`", "round_"),
    (top("artifacts: {a: {rules: [§{message: x}]}}"), "missing-key", "`assert`", "assert: EXPRESSION"),
    (top("artifacts: {a: {schema: §no.schema.yaml}}"), "schema-not-found", "no.schema.yaml", "write it"),
    (top("artifacts: {a: {schema: §../no.yaml}}"), "bad-file-name", "without folders", "beside"),
    (top("artifacts: {a: {render: §no.md.j2, file: a.md}}"), "template-not-found", "no.md.j2", "write it"),
    (top("artifacts: {a: {render: §../a.j2, file: a.md}}"), "bad-file-name", "without folders", "beside"),
    (top("inputs: {§not: string}"), "reserved-name", "`not`", "not_"),
    (top("inputs: {a: {type: string, §desription: x}}"), "unknown-key", "`desription`", "`description`"),
    (top("inputs: {a: {type: string, §required: true}}"), "foreign-key", "`required`", "without `default`"),
    # roles
    (top("roles: {§nobody_known: {}}"), "role-not-found", "roles/nobody_known.yaml", "profile"),
    (top("roles: {a: {profile: x, policy: {§alow: []}}}"), "unknown-key", "`policy` has no key `alow`", "did you mean `allow`?"),
    (top("roles: {a: {profile: x, §backstory: y}}"), "foreign-key", "`backstory`", "profile"),
    (top("roles: {a: {profile: x, memory: {window: §40}}}"), "bad-quantity", "window", "40 turns"),
    (top("roles: {a: {profile: x, role: §b}}"), "role-name", "`a`", "remove"),
    (top("roles: {a: {profile: x, prompt: §no.md.j2}}"), "template-not-found", "no.md.j2", "write it"),
    # defaults and tests
    (top("defaults: {steps: {§nedds: [a]}}"), "unknown-key", "`nedds`", "`needs`"),
    (top("defaults: {steps: {retries: §many}}"), "wrong-type", "whole number", "number"),
    (top("mcpServers: {a: {§comand: b}}"), "unknown-key", "an MCP server has no key `comand`", "did you mean `command`?"),
    (top("defaults: {§stepz: {}}"), "unknown-key", "`stepz`", "`steps`"),
    (top("defaults: §[]"), "wrong-type", "`defaults` has to be a mapping", "name"),
    (top("tests: {t: {§expct: x}}"), "unknown-key", "`expct`", "`expect`"),
]


@pytest.mark.parametrize(("marked", "code", "message", "mend"), ONE)
def test_each_mistake_is_told_once_at_its_place_with_its_mend(
        folder: Path, marked: str, code: str, message: str, mend: str) -> None:
    """The place that must be told stands behind `§`."""
    before, _, after = marked.partition("§")
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    found = problems(folder, before + after)
    assert [(one.code, one.file, one.line, one.column) for one in found] == [(code, "x.yaml", line, column)]
    assert message in found[0].message
    assert mend in found[0].mend


def test_problems_of_all_files_come_at_once_in_order(folder: Path) -> None:
    put(folder, "roles/writer.yaml", "role: writter\ngoal: [a]\nmodle: x\n")
    put(folder, "d.schema.yaml", "a: 1\na: 2\n")
    found = problems(folder, "sop: x\nroles: {writer: {}}\nartifacts: {d: {schema: d.schema.yaml}}\n"
                             "steps:\n  s: {makes: d, rols: writer}\nbugdet: {}\n")
    told = [(one.file, one.line, one.column, one.code) for one in found]
    assert told == sorted(told)
    assert {("x.yaml", 5, 17, "unknown-key"), ("x.yaml", 6, 1, "unknown-key"), ("roles/writer.yaml", 1, 7, "role-name"),
            ("roles/writer.yaml", 2, 7, "wrong-type"), ("roles/writer.yaml", 3, 1, "unknown-key"),
            ("d.schema.yaml", 2, 1, "yaml-duplicate-key")} <= set(told)


def test_a_schema_at_fault_is_told_where_it_is_written(folder: Path) -> None:
    put(folder, "d.schema.yaml", "title: string\nage: strng\n")
    found = problems(folder, top("artifacts: {d: {schema: d.schema.yaml}, e: {schema: {b: nmber}}}\ninputs: {i: {type: bolean}}"))
    assert [(one.file, one.line, one.column) for one in found] == [("d.schema.yaml", 2, 6), ("x.yaml", 3, 57), ("x.yaml", 4, 20)]


def test_a_broken_structure_is_not_loaded_and_load_raises_all(folder: Path) -> None:
    put(folder, "x.yaml", step("{value: 5, nedds: x}"))
    reading = read_sop("x.yaml", start=folder)
    assert reading.loaded is None
    with pytest.raises(SOPInvalid) as raised:
        load_sop("x.yaml", start=folder)
    assert raised.value.problems == reading.problems
    assert len(reading.problems) == 2


def test_problems_that_leave_the_structure_whole_leave_something_to_check(folder: Path) -> None:
    put(folder, "x.yaml", top("roles: {nobody_known: {}}"))
    reading = read_sop("x.yaml", start=folder)
    assert reading.problems and reading.loaded is not None


def test_defaults_reach_steps_that_say_nothing_themselves(folder: Path) -> None:
    sop = loaded(folder, """
sop: x
defaults: {steps: {retries: 3, role: w, task: do it, parse: junit}, roles: {goal: all, memory: {window: 5 turns}}}
roles: {w: {profile: p}, v: {profile: q, goal: own, memory: {window: 7 turns}}}
artifacts: {a: {}, b: {}, c: {}}
steps:
  one: {makes: a}
  two: {value: '1', makes: b, retries: 0}
  three: {run: pytest, makes: c}
""").program.sop
    assert (sop.steps["one"].role, sop.steps["one"].task, sop.steps["one"].parse) == ("w", "do it", None)
    assert sop.steps["one"].retries == 3
    assert (sop.steps["two"].role, sop.steps["two"].task, sop.steps["two"].retries) == (None, None, 0)
    assert (sop.steps["three"].role, sop.steps["three"].parse) == (None, "junit")
    assert (sop.roles["w"].goal, sop.roles["w"].memory.window) == ("all", (5, "turns"))
    assert (sop.roles["v"].goal, sop.roles["v"].memory.window) == ("own", (7, "turns"))
    assert "defaults" not in sop.model_fields_set


def test_a_role_file_lies_under_what_the_sop_says(folder: Path) -> None:
    put(folder, "roles/w.yaml", "role: w\nprofile: from the file\ngoal: file's\nmemory: {window: 9 turns}\nprompt: w.md.j2\n")
    put(folder, "roles/w.md.j2", 'Hello\n{% include "part.md.j2" %}\n')
    put(folder, "roles/part.md.j2", "part")
    one = loaded(folder, top("defaults: {roles: {goal: default's, model: dry}}\nroles: {w: {goal: own}}"))
    role = one.program.sop.roles["w"]
    assert (role.role, role.profile, role.goal, role.model) == ("w", "from the file", "own", "dry")
    assert role.memory.window == (9, "turns")
    assert one.program.templates == {"w.md.j2": 'Hello\n{% include "part.md.j2" %}\n', "part.md.j2": "part"}
    assert set(one.sources) == {"x.yaml", "roles/w.yaml", "roles/w.md.j2", "roles/part.md.j2"}
    assert one.places.at(("roles", "w", "goal")) == ("x.yaml", 4, 19)
    assert one.places.at(("roles", "w", "profile")) == ("roles/w.yaml", 2, 10)
    assert one.places.at(("roles", "w", "memory", "window"), key=True) == ("roles/w.yaml", 4, 10)
    assert one.places.at(("roles", "w", "model")) == ("x.yaml", 3, 44)
    assert one.places.inside(("roles", "w", "profile"), 1, 6) == ("roles/w.yaml", 2, 15)
    assert one.places.template("part.md.j2", 1, 3) == ("roles/part.md.j2", 1, 3)


def test_a_missing_include_is_told_in_the_template_that_names_it(folder: Path) -> None:
    put(folder, "roles/w.md.j2", 'Hello\n  {% include "prat.md.j2" %}\n')
    put(folder, "roles/part.md.j2", "part")
    found = problems(folder, top("roles: {w: {profile: x, prompt: w.md.j2}}"))
    assert [(one.code, one.file, one.line, one.column) for one in found] == [("template-not-found", "roles/w.md.j2", 2, 15)]
    assert "did you mean `part.md.j2`" in found[0].mend


def test_templates_that_include_each_other_are_read_once(folder: Path) -> None:
    put(folder, "a.j2", '{% include "b.j2" %}')
    put(folder, "b.j2", '{% include "a.j2" %}')
    assert set(loaded(folder, top("artifacts: {a: {render: a.j2, file: a.md}}")).program.templates) == {"a.j2", "b.j2"}


def test_two_templates_of_one_name_clash_and_bad_ones_are_refused(folder: Path) -> None:
    put(folder, "a.j2", "one")
    put(folder, "roles/w.yaml", "profile: x\nprompt: a.j2\n")
    put(folder, "roles/a.j2", "two")
    (folder / "bad.j2").write_bytes(b"x\n\xff")
    (folder / "big.j2").write_bytes(b"x" * ((1 << 20) + 1))
    found = problems(folder, top("roles: {w: {}}\nartifacts: {a: {render: a.j2}, b: {render: bad.j2}, c: {render: big.j2}}"))
    assert [(one.code, one.file, one.line) for one in found] == [
        ("template-encoding", "bad.j2", 2), ("template-size", "big.j2", 0), ("template-clash", "x.yaml", 4)]


def test_a_role_written_whole_is_not_mixed_with_the_packages_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(folder, "package/roles/w.yaml", "profile: shipped\ngoal: shipped\n")
    monkeypatch.setattr(library, "shipped_folder", lambda kind: folder / "package" / kind)
    assert loaded(folder, top("roles: {w: {profile: mine}}")).program.sop.roles["w"].goal == ""
    assert loaded(folder, top("roles: {w: {goal: mine}}")).program.sop.roles["w"].profile == "shipped"
    put(folder, "roles/w.yaml", "goal: project's\n")
    assert loaded(folder, top("roles: {w: {profile: mine}}")).program.sop.roles["w"].goal == "project's"


def test_schemas_are_normalised_and_files_of_them_read(folder: Path) -> None:
    put(folder, "d.schema.yaml", "title: string\n")
    put(folder, "e.schema.json", '{\n\t"title": "string"\n}')
    one = loaded(folder, top("artifacts: {d: {schema: d.schema.yaml}, e: {each: e.schema.json},\n"
                             "            i: {schema: {title: string}}, t: {}}\n"
                             "inputs: {a: string, f: file, g: {type: folder}, h: {type: integer, default: 3}}"))
    found = one.program.schemas
    assert set(found) == {"d", "e", "i", "input:a", "input:h"}
    assert found["d"] == found["e"] == found["i"]
    assert one.places.at(("artifacts", "d", "schema", "title")) == ("d.schema.yaml", 1, 8)
    assert one.places.at(("artifacts", "i", "schema", "title")).file == "x.yaml"


def test_comments_and_the_order_of_keys_change_no_fingerprint(folder: Path) -> None:
    plain = "sop: x\nartifacts: {a: {}, b: {}}\nsteps:\n  s: {value: '1', makes: a}\n  t: {value: a, needs: a, makes: b}\n"
    first = loaded(folder, plain)
    second = loaded(folder, "# comment\nsteps:\n  s: {makes: a, value: '1'}\n  t:\n    needs: [a]\n    makes: b\n    value: a\n"
                            "artifacts: {b: {}, a: {}}\nsop: x # same\n")
    third = loaded(folder, plain.replace("'1'", "'2'"))
    assert first.program.fingerprint == second.program.fingerprint != third.program.fingerprint


def test_a_program_names_no_folder(folder: Path) -> None:
    put(folder, "roles/w.yaml", "profile: x\nprompt: w.j2\n")
    put(folder, "roles/w.j2", "hi")
    assert str(folder).encode() not in loaded(folder, top("roles: {w: {}}")).program.stored()


def test_places_tell_of_comments_and_flow(folder: Path) -> None:
    places = loaded(folder, "sop: x\nartifacts: {a: {}}\nsteps:\n  s: {value: b, makes: a}\n"
                            "  t:\n    value: b == #1\n    makes: a\n").places
    assert places.comment_after(("steps", "t", "value")) == "1"
    assert places.flow(("steps", "s", "value")) and not places.flow(("steps", "t", "value"))


# where files are found

@pytest.mark.parametrize("name", ["x", "x.yaml", "./x.yaml", "./x"])
def test_a_sop_is_found_by_path_and_name(folder: Path, name: str) -> None:
    put(folder, "x.yaml", MINIMAL)
    assert library.find_sop(name, folder).samefile(folder / "x.yaml")


def test_a_sop_is_found_in_the_project_and_in_the_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(folder, "project/sops/x.yaml", MINIMAL)
    put(folder, "project/deep/er/file", "")
    put(folder, "package/sops/shipped.yml", MINIMAL)
    monkeypatch.setattr(library, "shipped_folder", lambda kind: folder / "package" / kind)
    start = folder / "project" / "deep" / "er"
    assert library.find_sop("x", start) == folder / "project" / "sops" / "x.yaml"
    assert library.find_sop("shipped", start) == folder / "package" / "sops" / "shipped.yml"
    assert read_sop("shipped", start=start).loaded is not None
    assert read_sop("shipped", start=start).loaded.entry == "sops/shipped.yml"        # type: ignore[union-attr]


@pytest.mark.parametrize(("name", "parts"), [
    ("minuts_x", ["no SOP `minuts_x`", "looked in", "the package", "did you mean `minutes_x`", "there is: "]),
    ("sops", ["is a folder", "minutes_x.yaml"]), ("notes.txt", [".yaml or .yml"]), ("a/b/c.yaml", ["no SOP `a/b/c.yaml`"]),
    ("", ["names no SOP"]), ("x\0y", ["names no SOP"]), ("n" * 5000, ["no SOP"]), ("/dev/null", ["no regular file"]),
])
def test_what_is_no_sop_is_told_in_one_message(folder: Path, name: str, parts: list[str]) -> None:
    put(folder, "sops/minutes_x.yaml", MINIMAL)
    put(folder, "notes.txt", "x")
    with pytest.raises(SOPNotFound) as raised:
        read_sop(name, start=folder)
    assert all(part in str(raised.value) for part in parts)
    assert "\n" not in str(raised.value)


def test_roles_are_found_beside_the_sop_then_in_the_project(folder: Path) -> None:
    put(folder, "p/roles/w.yaml", "profile: project's")
    put(folder, "p/.git/x", "")
    put(folder, "p/a/b/x.yaml", MINIMAL)
    sops = folder / "p" / "a" / "b"
    assert library.role_in("w", library.Folders(sops).roles) == folder / "p" / "roles" / "w.yaml"
    put(folder, "p/a/roles/w.yaml", "profile: beside")
    assert library.role_in("w", library.Folders(sops).roles) == folder / "p" / "a" / "roles" / "w.yaml"
    assert library.role_in("../w", library.Folders(sops).roles) is None
    assert "w" in library.Folders(sops).role_names


@pytest.mark.parametrize("name", ["../x", "a/b", "", "..", "a\\b", "c:x", "x\n", "n" * 300])
def test_names_that_lead_elsewhere_are_refused(folder: Path, name: str) -> None:
    assert library.name_refusal(name)
    assert library.find_beside(name, [folder]) is None


def test_what_ships_lies_in_the_repository_or_the_wheel() -> None:
    assert library.shipped_folder("roles").name == "roles"
    assert library.shipped_folder("sops").parent == library.shipped_folder("roles").parent


# the environment

def test_settings_are_read_once_and_keep_the_key_to_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"SOP_MODEL": "dry", "OPENAI_API_KEY": "sk-secret", "OPENAI_BASE_URL": "", "NO_COLOR": "1", "PATH": "/bin",
             "AWS_SECRET": "x"}
    settings = Settings.read(given)
    assert (settings.sop_model, settings.openai_api_key, settings.openai_base_url) == ("dry", "sk-secret", None)
    assert settings.no_color
    assert settings.command_environment == {"PATH": "/bin"}
    assert "sk-secret" not in repr(settings)
    monkeypatch.setenv("SOP_MODEL", "from the process")
    assert Settings.read().sop_model == "from the process"


@pytest.mark.parametrize(("body", "code", "name"), [
    ("artifacts: {a: {schema: string, render: report.md.j2, file: a.md}}", "template-not-found", "report.md.j2"),
    ("artifacts: {a: {schema: design.schema.yaml}}", "schema-not-found", "design.schema.yaml"),
    ("roles: {a: {profile: x, prompt: engineer.md.j2}}", "template-not-found", "engineer.md.j2"),
])
def test_a_file_that_is_not_written_yet_is_not_taken_from_the_package(folder: Path, body: str, code: str, name: str) -> None:
    assert any((library.shipped_folder(kind) / name).is_file() for kind in ("sops", "roles")), "the package has one of this name"
    (one,) = problems(folder, top(body))
    assert one.code == code and f"`{name}`: looked for `{name}`" in one.message
    assert one.mend == "write it, or mend the name" and str(library.shipped_folder("sops")) not in one.message
