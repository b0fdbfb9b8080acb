"""The hello of TLS: what real clients send is read, in any pieces; what is odd is refused, and nothing else is raised."""

from __future__ import annotations

import ssl
from contextlib import suppress
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metaflow_agents.network.hello import Hello, OddHello, read


@cache
def hello(name: str | None, oldest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.maximum_version = oldest
    out = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name).do_handshake()
    return out.read()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("name", ["api.example.com", None])
def test_what_openssl_sends(version: ssl.TLSVersion, name: str | None) -> None:
    data = hello(name, version)
    assert read(data) == Hello(name)
    assert read(data + b"what follows") == Hello(name)
    assert all(read(data[:end]) is None for end in range(len(data)))


@given(st.data())
def test_in_records_of_any_size(data: st.DataObject) -> None:
    message, whole, at = hello("api.example.com")[5:], b"", 0
    while at < len(message):
        part = message[at:at + data.draw(st.integers(1, 300))]
        whole += b"\x16\x03\x01" + len(part).to_bytes(2, "big") + part
        at += len(part)
    assert read(whole) == Hello("api.example.com")


@given(st.data())
def test_with_bytes_changed_it_is_read_or_refused(data: st.DataObject) -> None:
    changed = bytearray(hello("api.example.com"))
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    with suppress(OddHello):
        read(bytes(changed))


@pytest.mark.parametrize("data", [
    b"GET / HTTP/1.1\r\n", b"\x80\x2e\x01\x03\x01", b"\x17\x03\x03\x00\x01a", b"\x16\x03\x01\x00\x00",
    b"\x16\x03\x01\x00\x04\x02\x00\x00\x00", b"\x16\x03\x01\x00\x01\x01" * 20000,
])
def test_what_is_no_hello(data: bytes) -> None:
    with pytest.raises(OddHello):
        read(data)
