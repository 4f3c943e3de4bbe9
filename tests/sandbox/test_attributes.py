"""Modes, owners and times change in what a command may write, and nowhere else."""

import json
import os
import shlex
from pathlib import Path

import pytest

from tests.sandbox.enclosed import strengths
from tests.sandbox.test_protected import Place

at_each_level = pytest.mark.parametrize("level", [one for one in strengths() if one not in ("none", "files")])

WAYS = Path(__file__).with_name("ways.txt").read_text()
"""A program that tries each way to change an attribute of a file, and prints how each ended."""


def _ways(place: Place, path: str) -> dict[str, int]:
    ended = place.run(f"python3 -c {shlex.quote(WAYS)} {path}; rm -f link")
    assert ended.status == 0, ended
    return dict(json.loads(ended.head))


@at_each_level
def test_each_way_works_in_the_workspace_and_none_outside(tmp_path: Path, level: str) -> None:
    place = Place(tmp_path, level)
    inside = place.workspace / "a"
    inside.touch()
    ways = _ways(place, str(inside))
    assert (len(ways), set(ways.values())) == (14, {0})
    assert (inside.stat().st_mode & 0o777, inside.stat().st_mtime) == (0o600, 2)
    assert set(_ways(place, "/etc/hostname").values()) <= {1, 30}  # EPERM, EROFS


@at_each_level
@pytest.mark.skipif(os.geteuid() != 0, reason="devices are root's")
def test_devices_of_the_machine_stay_as_they_are(tmp_path: Path, level: str) -> None:
    before = Path("/dev/full").stat().st_ctime_ns
    ended = Place(tmp_path, level).run("touch /dev/full; chmod 666 /dev/full; chown 0:0 /dev/full; echo x > /dev/null")
    assert (Path("/dev/full").stat().st_ctime_ns, ended.status) == (before, 0)


@at_each_level
def test_a_change_that_cannot_be_is_told_as_the_kernel_does(tmp_path: Path, level: str) -> None:
    ended = Place(tmp_path, level).run(
        "chmod 600 missing; mkdir d; chmod 600 d/../missing; touch -h -d 2020-01-01 l; ln -s nowhere l; "
        "touch -h -d 2020-01-01 l; stat -c %y l | cut -c1-4; chmod 600 l"
    )
    said = ended.head.decode()
    assert said.count("cannot access 'missing': No such file") == 1 and "2020\n" in said
    assert "cannot operate on dangling symlink 'l'" in said


@at_each_level
def test_capabilities_and_owners_are_given_to_no_file(tmp_path: Path, level: str) -> None:
    capability = "bytes.fromhex('0100000200200000000000000000000000000000')"
    give = f"import os; os.setxattr('a', 'security.capability', {capability})"
    place = Place(tmp_path, level)
    place.run(f"cp /bin/true a; chown 1:1 a; python3 -c {shlex.quote(give)}")
    assert (place.workspace / "a").stat().st_uid == os.getuid()
    assert "security.capability" not in os.listxattr(place.workspace / "a")


@at_each_level
def test_calls_that_are_not_known_are_said_not_to_exist(tmp_path: Path, level: str) -> None:
    tried = "import ctypes, os; c = ctypes.CDLL(None, use_errno=True)\nfor n in {}: print(c.syscall(n, 0, 0, 0, 0, 0))"
    place, numbers = Place(tmp_path, level), (340, 423, 471, 1000, 0x40000000 | 39, 0x40000000 | 90)
    if os.uname().machine == "x86_64":
        ended = place.run(f"python3 -c {shlex.quote(tried.format(numbers))}")
        assert ended.head.split() == [b"-1"] * len(numbers)


@at_each_level
def test_what_is_made_a_program_starts(tmp_path: Path, level: str) -> None:
    ended = Place(tmp_path, level).run(
        "printf '#!/bin/sh\necho ran' > a; chmod +x a && ./a && install -m 711 a b && tar -cf c.tar b && rm b && "
        "tar -xpf c.tar && ./b && stat -c %a b"
    )
    assert (ended.head, ended.status) == (b"ran\nran\n711\n", 0)


@at_each_level
def test_no_folder_is_closed_to_who_looks_there_for_new_repositories(tmp_path: Path, level: str) -> None:
    rights = "0200000001000300ffffffff04000000ffffffff20000000ffffffff"  # -wx for the owner
    give = f"import os; os.setxattr('c', 'system.posix_acl_access', bytes.fromhex('{rights}'))"
    place = Place(tmp_path, level)
    place.run(
        f"mkdir a b c; chmod 311 a; chmod u-r b; python3 -c {shlex.quote(give)}; mkdir -m 311 d; umask 777; mkdir e"
    )
    made = [one for one in place.workspace.iterdir() if len(one.name) == 1]
    assert [one for one in made if not one.stat().st_mode & 0o400] == []
    assert len(made) >= 3
