"""Which addresses may be connected to: those of global unicast, and no others. Pure.

The registries of special addresses are those of `ipaddress` (RFC 6890, https://www.iana.org/assignments/iana-ipv4-special-registry).
An IPv6 address with an IPv4 one inside is refused whatever that is: nobody has to write it so, and what comes out of it is up
to the machine (RFC 4291 2.5.5, RFC 3056, RFC 4380, RFC 6052, RFC 8215).
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address

_AROUND = (
    (IPv6Network("::ffff:0:0/96"), "IPv4-mapped"),
    (IPv6Network("::ffff:0:0:0/96"), "IPv4-translated"),
    (IPv6Network("64:ff9b::/96"), "a NAT64 address"),
    (IPv6Network("64:ff9b:1::/48"), "a NAT64 address"),
    (IPv6Network("2002::/16"), "a 6to4 address"),
    (IPv6Network("2001::/32"), "a Teredo address"),
    (IPv6Network("::/96"), "IPv4-compatible"),
)
_GRANTABLE = ("loopback", "private")


def around_ipv4(address: Address) -> str | None:
    """How an IPv4 address stands inside of this IPv6 one (`IPv4-mapped`, …); None where none does. `::` and `::1` are neither."""
    if isinstance(address, IPv4Address) or int(address) <= 1:
        return None
    return next((how for network, how in _AROUND if address in network), None)


def refused(address: Address) -> str | None:
    """Why nobody connects to this address; None for one of global unicast."""
    around = around_ipv4(address)
    if around is not None:
        return f"{around}: an IPv4 address inside of an IPv6 one"
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return "with a zone"
    kinds = (
        ("unspecified", address.is_unspecified),
        ("loopback", address.is_loopback),
        ("link-local", address.is_link_local),
        ("multicast", address.is_multicast),
        ("site-local", isinstance(address, IPv6Address) and address.is_site_local),
        ("reserved", address.is_reserved),
        ("private", not address.is_global),                # RFC 1918, shared (RFC 6598), unique local, documentation, …
    )
    return next((kind for kind, is_so in kinds if is_so), None)


def grantable(address: Address) -> bool:
    """Whether a person may grant this address by writing it down: loopback and private ranges, and what is global anyway."""
    return refused(address) in (None, *_GRANTABLE)


def read(text: str) -> Address | None:
    """The address that a resolver or a URL gave, in the one spelling that each has; None for anything else."""
    try:
        return ip_address(text)
    except ValueError:
        return None
