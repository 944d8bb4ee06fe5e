"""The addresses that a map may lead us to: none in a local network to which its own host does not belong.
Pure."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_NAT64: Final = IPv6Network("64:ff9b::/96")
"""The addresses of IPv6 that a gateway of the network translates to addresses of IPv4 (RFC 6052)."""


@lru_cache(maxsize=1024)
def network_of(address: str) -> str | None:
    """Returns the kind of network to which an IP address belongs, or None for the internet.

    Raises ValueError for a text that is not an IP address.
    """
    ip = ip_address(address)
    if isinstance(ip, IPv6Address):
        if ip.is_site_local:
            return "private"
        # Such an address stands for one of IPv4.
        translated = IPv4Address(int(ip) % 2**32) if ip in _NAT64 else None
        ip = ip.ipv4_mapped or ip.sixtofour or translated or ip
    if ip.is_loopback or ip.is_unspecified:
        return "this computer's own"
    if ip.is_link_local:
        return "link-local"
    return None if ip.is_global else "private"


def refused_network(address: str, own: Iterable[str]) -> str | None:
    """Returns the kind of network because of which an address must not be asked, or None if it may be.

    `own` are the IP addresses of the map's own host. A map in a private network may lead us within private
    networks.
    """
    kind = network_of(address)
    return None if kind is None or kind in map(network_of, own) else kind
