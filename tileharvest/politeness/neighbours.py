"""Which addresses a site may send us to: none of a network that we are in and its own host is not. Pure."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def network_of(address: str) -> str | None:
    """Returns what kind of network an IP address is of, or None for one of the internet.

    Raises ValueError for what is no IP address.
    """
    # A zone, such as `%eth0`, is known to this computer alone.
    ip = ip_address(address.partition("%")[0])
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    if ip.is_loopback or ip.is_unspecified:
        return "this computer's own"
    if ip.is_link_local:
        return "link-local"
    return None if ip.is_global else "private"


def refused_network(target: Iterable[str], own: Iterable[str]) -> str | None:
    """Returns the kind of network for which a redirect is not followed, or None where it may be.

    `target` are the IP addresses of the host that it leads to, and `own` those of the map's own host. A map
    of a private network may send us around in it.
    """
    near = {network_of(address) for address in own}
    kinds = (network_of(address) for address in target)
    return next((kind for kind in kinds if kind is not None and kind not in near), None)
