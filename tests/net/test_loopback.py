"""Addresses of this machine itself."""

import pytest

from nanoclaw.net import is_loopback, leads_to_loopback


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "127.8.9.1", "::1"])
def test_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["127.example.org", "127.0.0.1.example.org", "localhost.example.org", "10.0.0.1", ""])
def test_another_machine(host: str) -> None:
    assert not is_loopback(host)


def test_the_host_of_a_url_counts() -> None:
    assert leads_to_loopback("http://me:pass@[::1]:8080/v1")
    assert not leads_to_loopback("http://localhost@example.org/")
    assert not leads_to_loopback("nothing")
