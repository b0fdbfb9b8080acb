"""URLs read into places: one spelling each, and nothing that is read in two ways."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metaflow_agents.errors import FetchRefused
from metaflow_agents.network import addresses
from metaflow_agents.network.hosts import NetworkPlace, joined, parse, parse_authority

URLS = st.builds(
    "{}://{}{}{}".format,
    st.sampled_from(["http", "https", "HTTP"]),
    st.sampled_from(["api.example.com", "API.example.com", "bücher.example", "10.0.0.1", "[2606:4700::1111]", "a_b.example",
                     "a..b"]),
    st.sampled_from(["", ":80", ":443", ":8080", ":", ":x"]),
    st.text("/.?#%2eE5fF&=aé~@:\\ ", max_size=20).map(lambda text: f"/{text}"),
)


@pytest.mark.one_in(8)
@given(st.one_of(URLS, st.text(max_size=40), st.text(max_size=20).map("http://{}/".format)))
def test_a_place_is_written_in_a_form_that_means_the_same(url: str) -> None:
    try:
        place = parse(url)
    except FetchRefused as refusal:
        assert str(refusal).isascii()
        return
    assert parse(place.url) == place
    assert place.url.isascii()
    again = urlsplit(place.url)             # the standard library reads it in the same way
    assert (again.scheme, again.hostname, again.path, again.query) == (place.scheme, place.host, place.path, place.query)
    assert (again.port or {"http": 80, "https": 443}[again.scheme]) == place.port
    assert not {".", ".."} & set(place.path.split("/"))


@given(st.ip_addresses(v=4), st.sampled_from(["::ffff:", "::", "64:ff9b::"]))
def test_no_ipv4_address_hides_in_an_ipv6_one(address: IPv4Address, prefix: str) -> None:
    if prefix == "::" and int(address) < 2:
        return
    around = IPv6Address(f"{prefix}{address}")
    assert addresses.refused(around) is not None
    with pytest.raises(FetchRefused):
        parse(f"http://[{around}]/")


@given(st.ip_addresses())
def test_only_global_unicast_is_connected_to(address: IPv4Address | IPv6Address) -> None:
    if addresses.refused(address) is None:
        assert address.is_global and not address.is_multicast and not address.is_reserved
    if not address.is_global or address.is_multicast:
        assert addresses.refused(address) is not None


def test_origins_and_authorities() -> None:
    place = parse("https://API.example.com/a?b=c")
    assert (place.origin, place.authority, place.url) == ("https://api.example.com", "api.example.com:443",
                                                          "https://api.example.com/a?b=c")
    assert parse("http://[2606:4700::1111]:8080").origin == "http://[2606:4700::1111]:8080"
    assert parse("http://api.example.com/x").encrypted().url == "https://api.example.com/x"
    assert parse("http://api.example.com:8080/x").encrypted().url == "https://api.example.com:8080/x"


def test_a_tunnel_is_for_a_host_as_a_whole() -> None:
    place = parse_authority("api.example.com:443")
    assert place == NetworkPlace("https", "api.example.com", 443, path="") and place.whole
    assert not parse("https://api.example.com").whole
    for odd in ("api.example.com", "api.example.com:443/x", "a@b:443", ":443", "api.example.com:0"):
        with pytest.raises(FetchRefused):
            parse_authority(odd)


@pytest.mark.parametrize(("location", "url"), [
    ("/b", "https://api.example.com/b"), ("b", "https://api.example.com/a/b"), ("../b", "https://api.example.com/b"),
    ("?c=d", "https://api.example.com/a/?c=d"), ("//other.example/x", "https://other.example/x"), ("#f", "https://api.example.com/a/"),
])
def test_redirects_are_joined(location: str, url: str) -> None:
    assert joined(parse("https://api.example.com/a/"), location).url == url


@pytest.mark.parametrize("location", ["ja\tvascript:x", "\\\\evil.example", " /b", "javascript:alert(1)", "/\r\nSet-Cookie: a"])
def test_odd_redirects_are_refused(location: str) -> None:
    with pytest.raises(FetchRefused):
        joined(parse("https://api.example.com/a/"), location)
