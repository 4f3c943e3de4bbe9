"""Which zone the person lives in."""

import pytest

from nanoclaw.clock import clock


def test_the_configured_zone_comes_before_tz_and_tz_before_the_machines() -> None:
    assert clock("Asia/Tokyo", {"TZ": "Europe/Berlin"}).name == "Asia/Tokyo"
    assert clock("", {"TZ": "Europe/Berlin"}).name == "Europe/Berlin"
    assert clock("", {"TZ": ":Europe/Berlin"}).name == "Europe/Berlin"


@pytest.mark.parametrize("name", ["Nowhere/Land", "", "../../etc/passwd", "/etc/localtime", "a\0b"])
def test_whatever_the_machine_says_there_is_always_an_aware_time_and_a_name(name: str) -> None:
    now = clock("", {"TZ": name})
    assert now().utcoffset() is not None
    assert now.name


@pytest.mark.parametrize(
    ("name", "near"),
    [("Europe/Berln", "'Europe/Berlin'"), ("berlin", "Berlin"), ("xyzzy", "Write it like"), ("../x", "unknown")],
)
def test_an_unknown_zone_is_refused_with_near_ones(name: str, near: str) -> None:
    with pytest.raises(ValueError, match=r"unknown time zone") as raised:
        clock(name, {})
    assert near in str(raised.value)
