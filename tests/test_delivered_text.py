# ruff: noqa: E501
"""What is told of a delivery from its text alone: secrets, and tests that can't be trusted."""

from __future__ import annotations

import pytest

from metaflow_agents.kits.company import weak_tests
from metaflow_agents.kits.company.secrets import secret_faults

SECRETS = {
    "a key of a cloud": "key = 'AKIA" + "QX7PLM2ZV9TR4KWN'",
    "a token of a forge": "url = 'https://ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8@github.com'",
    "a private key": "-----BEGIN RSA " + "PRIVATE KEY-----",
    "a key of a model": "client('sk-" + "proj-Zx81kQw93LmVb7Tt20PpYc')",
    "a password in code": 'DB_PASSWORD = "t7Kq-92vXz-pL0m"',
    "a secret in YAML": "session_secret: 'f3a9c07be1d24588a6'",
    "a token in JSON": '{"api_key": "9fQ2-zL8x-77Bv-kTe1"}',
    "a signed token": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTYifQ.Xk93Lq20Zp"}
HARMLESS = ["password = getpass.getpass()", 'SECRET_KEY = os.environ["SECRET_KEY"]', 'token: "<your token here>"', 'api_key = "changeme-1234"',
            'help="a password of at least 12 characters"', "token = secrets.token_urlsafe(32)", 'PASSWORD_FIELD = "password_hash_v2"',
            'password = "correct horse battery"', 'token = "aaaaaaaaaaaa1"', 'secret_name: "projects/1/secrets/db"',
            "# -----BEGIN CERTIFICATE-----", "risk-free-trial-of-the-new-thing-here",
            'TOKEN_ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"', 'TOKEN_COOKIE = "shelf_session_v1"', "AKIAIOSFODNN7EXAMPLE"]


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_told_with_its_line_and_not_said(name: str) -> None:
    told = list(secret_faults({"src/a.py": f"\n{SECRETS[name]}\n"}))
    assert len(told) == 1 and told[0].startswith("`src/a.py`, line 2: a secret stands there")
    assert SECRETS[name][-12:] not in told[0]


@pytest.mark.parametrize("line", HARMLESS)
def test_what_stands_for_a_secret_is_none(line: str) -> None:
    assert list(secret_faults({"README.md": line})) == []


WEAK = {
    "asserts nothing": ("def test_it():\n    main(['x'])\n", "line 1: `test_it` asserts nothing"),
    "asserts what always holds": ("def test_it():\n    assert True\n", "asserts nothing"),
    "asserts a pair": ("def test_it():\n    assert (add(1, 1) == 3, 'a sum')\n", "asserts nothing"),
    "runs and does not look": ("import subprocess\n\ndef test_it():\n    subprocess.check_output(['x'])\n", "line 3: `test_it` asserts"),
    "an await that nobody looks at": ("async def test_it():\n    await serve()\n", "asserts nothing"),
    "goes by the day": ("from datetime import date\n\ndef test_it():\n    assert year() == date.today().year\n", "line 4: `date.today` goes by"),
    "goes by the hour": ("import datetime\n\ndef test_it():\n    assert f(datetime.datetime.now())\n", "`datetime.now` goes by the clock"),
    "waits": ("import time\n\ndef test_it():\n    time.sleep(3)\n    assert ready()\n", "`time.sleep` goes by the clock"),
    "asks another host": ("def test_it():\n    assert urlopen('https://api.github.com/zen').status == 200\n", "`urlopen` asks another host"),
    "asks another host by a client": ("def test_it():\n    assert requests.get('https://pypi.org/simple').ok\n", "`get` asks another host"),
    "needs the folder": ("def test_it():\n    assert total(open('examples/a.csv')) == 3\n", "`examples/a.csv` is looked for in the current"),
    "needs the folder by a path": ("from pathlib import Path\n\ndef test_it():\n    assert Path('src/a/b.py').exists()\n", "current folder"),
    "is no Python": ("def test_it(:\n", "line 1: it is no Python")}
SOUND = ["def test_it():\n    assert add(1, 1) == 2\n", "def test_it():\n    with pytest.raises(ValueError):\n        add('a')\n",
         "def holds(value):\n    assert value\n\ndef test_it():\n    holds(add(1, 1))\n", "def test_it(mock):\n    mock.assert_called_once()\n",
         "def test_it():\n    if broken():\n        pytest.fail('broken')\n", "def helper():\n    return 3\n",
         "def test_it(server):\n    assert urlopen(f'http://127.0.0.1:{server}/').status == 200\n",
         "def test_it():\n    assert safe(get('https://example.com/a')) is None\n",
         "def test_it(client, table):\n    assert client.get('https://testserver/x').status == table.get('https://github.com')\n",
         "@pytest.fixture\ndef test_client():\n    return make()\n",
         "def a(x):\n    assert x\n\ndef b(x):\n    a(x)\n\ndef test_it():\n    b(1)\n",
         "HERE = Path(__file__).resolve().parents[1]\n\ndef test_it():\n    assert (HERE / 'examples/a.csv').exists()\n",
         "def test_it():\n    assert day(datetime(2026, 1, 2)) == 'Friday'\n"]


@pytest.mark.parametrize("name", WEAK)
def test_a_test_that_can_not_be_trusted_is_told(name: str) -> None:
    text, said = WEAK[name]
    told = weak_tests({"tests/test_a.py": text})
    assert len(told) == 1 and told[0].startswith("`tests/test_a.py`, ") and said in told[0], told


@pytest.mark.parametrize("text", SOUND)
def test_a_test_that_can_be_trusted_is_left_alone(text: str) -> None:
    assert weak_tests({"tests/test_a.py": text, "tests/a.test.js": "(", "tests/b.bin": b"\0",
                       "src/a.py": "import time\n\ndef test_it():\n    time.sleep(1)\n"}) == []
