"""Pages of the public net: fetched from the address that was checked, and from no private one."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """True for "localhost", and for a number such as 127.0.0.1 or ::1; a name like 127.example.org is another's."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def leads_to_loopback(url: str) -> bool:
    """True for a URL whose host is this machine. Raises ValueError for what is no URL."""
    return is_loopback(urlsplit(url).hostname or "")
