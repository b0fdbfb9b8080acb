from __future__ import annotations

import sys

import pytest

from metaflow_agents.errors import AnswerInvalid
from metaflow_agents.sandbox.command import with_junit_file
from metaflow_agents.sandbox.junit import MESSAGE_CHARACTERS, parse_junit
from metaflow_agents.sandbox.unconfined import Unconfined

TESTS = b"""
import pytest
class TestX:
    def test_y(self):
        assert 1 == 2
def test_value(): raise ValueError("bad <thing> & 'more'")
def test_good(): pass
@pytest.mark.skip
def test_skipped(): pass
@pytest.fixture
def broken(): raise KeyError("k")
def test_setup(broken): pass
@pytest.fixture
def late():
    yield
    raise OSError("late")
def test_teardown(late): pass
@pytest.mark.parametrize("n", [1])
def test_n(n): assert not n, object()
"""


@pytest.mark.one_in(8, always=False)
@pytest.mark.parametrize("family", ["xunit1", "xunit2"])
async def test_what_pytest_writes(family: str) -> None:
    argv = [part.replace("xunit1", family) for part in with_junit_file(["python", "-m", "pytest", "-q"], "r.xml")]
    files = {"tests/test_a.py": TESTS, "tests/test_b.py": b"import nowhere_to_be_found\n"}
    ran = await Unconfined({}).run([*argv, "--continue-on-collection-errors"], files=files, collect=["r.xml"], timeout=60)
    result = parse_junit(ran.files["r.xml"], ran.exit_code)
    assert {k: v for k, v in result.items() if k != "failures"} == {
        "ok": False, "exit_code": 1, "total": 8, "passed": 1, "failed": 3, "errors": 3, "skipped": 1}
    found = {f["id"]: f for f in result["failures"]}
    assert set(found) == {
        "tests/test_a.py::TestX::test_y", "tests/test_a.py::test_value", "tests/test_a.py::test_setup",
        "tests/test_a.py::test_teardown", "tests/test_a.py::test_n[1]", "tests/test_b.py"}
    assert found["tests/test_a.py::TestX::test_y"] == {
        "id": "tests/test_a.py::TestX::test_y", "kind": "failure", "exception": "AssertionError",
        "message": found["tests/test_a.py::TestX::test_y"]["message"], "place": "tests/test_a.py:5"}
    assert "assert 1 == 2" in found["tests/test_a.py::TestX::test_y"]["message"]
    assert found["tests/test_a.py::test_value"]["exception"] == "ValueError"
    assert "bad <thing> & 'more'" in found["tests/test_a.py::test_value"]["message"]
    assert found["tests/test_a.py::test_setup"]["kind"] == "error"
    assert found["tests/test_a.py::test_setup"]["exception"] == "KeyError"
    assert found["tests/test_a.py::test_teardown"]["exception"] == "OSError"
    assert "0x…" in found["tests/test_a.py::test_n[1]"]["message"]
    assert found["tests/test_b.py"]["exception"] == "ModuleNotFoundError"
    assert "nowhere_to_be_found" in found["tests/test_b.py"]["message"]
    assert found["tests/test_b.py"]["place"] == "tests/test_b.py:1"


@pytest.mark.one_in(12, always=False)
async def test_the_result_is_the_same_in_another_folder() -> None:
    argv = with_junit_file([sys.executable, "-m", "pytest"], "r.xml")
    files = {"test_a.py": b"import os\ndef test_a(): raise ValueError(os.getcwd())\n"}
    sandbox = Unconfined({})
    one, two = [await sandbox.run(argv, files=files, collect=["r.xml"], timeout=60) for _ in range(2)]
    assert parse_junit(one.files["r.xml"], 1) == parse_junit(two.files["r.xml"], 1)
    assert parse_junit(one.files["r.xml"], 1)["failures"][0]["message"] == "."


def test_green_needs_a_test_and_exit_code_0() -> None:
    one = b'<testsuites><testsuite><testcase classname="t" name="a"/></testsuite></testsuites>'
    assert parse_junit(one, 0)["ok"] is True
    assert parse_junit(one, 2)["ok"] is False
    assert parse_junit(b"<testsuites/>", 0)["ok"] is False
    assert parse_junit(b"<testsuite/>", 5) == {
        "ok": False, "exit_code": 5, "total": 0, "passed": 0, "failed": 0, "errors": 0, "skipped": 0, "failures": []}


def test_long_messages_are_bounded() -> None:
    xml = f'<testsuite><testcase classname="t.TestA" name="a"><failure message="{"x" * 9000}"/></testcase></testsuite>'.encode()
    (failure,) = parse_junit(xml, 1)["failures"]
    assert len(failure["message"]) < MESSAGE_CHARACTERS + 60
    assert "7000 more characters" in failure["message"]
    assert failure["id"] == "t.py::TestA::a"
    assert failure["place"] == ""


@pytest.mark.parametrize(("written", "read"), [
    (b"&#27;[31m", "\ufffd[31m"), (b"\x1b[31m", "\ufffd[31m"), (b"&#x1B;", "\ufffd"), (b"&#0;", "\ufffd"),
    (b"a\x00b", "a\ufffdb"), (b"&#xD800;", "\ufffd"), (b"&#xFFFF;", "\ufffd"), (b"&#x110000;", "\ufffd"),
    (b"&#999999999;", "\ufffd"), (b"&#x0000041;", "A"), (b"&#65;", "A"), (b"&#x1F600;", "\U0001f600"),
    ("ä\u2028".encode(), "ä\u2028")])
def test_a_name_with_characters_that_xml_does_not_have_is_read(written: bytes, read: str) -> None:
    """node's reporter writes names of tests as they are."""
    xml = b"".join((b'<testsuites><testcase name="', written, b'" classname="t"><failure message="no">', written,
                    b"</failure></testcase></testsuites>"))
    (failure,) = parse_junit(xml, 1, "r.xml")["failures"]
    assert failure["id"] == f"t.py::{read}"


def test_a_report_in_another_encoding_is_left_as_it_is() -> None:
    xml = '<testsuites><testcase name="\u0101" classname="t"/></testsuites>'.encode("utf-16")
    assert parse_junit(xml, 0, "r.xml")["passed"] == 1


BOMB = b"""<?xml version="1.0"?>
<!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]><testsuite><testcase name="&b;"/></testsuite>"""


@pytest.mark.parametrize("xml", [BOMB, b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><testsuite/>', b"", b"<testsuite>", b"hello",
                                 b"<html/>", b"<testsuite>\xff</testsuite>", b"<testsuite>&nope;</testsuite>"])
def test_hostile_and_damaged_xml_is_told_by_its_file(xml: bytes) -> None:
    with pytest.raises(AnswerInvalid, match=r"r\.xml is not JUnit XML"):
        parse_junit(xml, 0, "r.xml")
