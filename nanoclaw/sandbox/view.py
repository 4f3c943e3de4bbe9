"""Says which parts of the machine a command sees, and how: a list of places, outer ones first."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

Kind = Literal["read", "write", "empty", "scratch"]
"""As it is, but not to be written; as it is; nothing of it; nothing of it, to be written (but for a home) and gone
afterwards."""


class Visible(NamedTuple):
    path: Path
    kind: Kind


class Grants(NamedTuple):
    """The folders that commands are about. `hidden` is never seen, wherever it is; `home` is the person's, of which
    only tools on `path` and the names of folders are seen; `read` and `write` are shown besides. `spelled` are the same
    paths as commands may write them, by way of links."""

    workspace: Path
    hidden: tuple[Path, ...]
    home: Path
    path: str
    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    spelled: tuple[Path, ...] = ()

    @property
    def writable(self) -> tuple[Path, ...]:
        return (self.workspace, *self.write)


SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu", "/snap"),
    *("/sys/devices", "/sys/class", "/var/lib/dpkg", "/var/lib/apt", "/var/lib/rpm", "/var/lib/pacman"),
    *("/var/cache/fontconfig", "/home/linuxbrew/.linuxbrew", "/run/current-system"),
    *("/System", "/Library", "/Applications", "/private/etc", "/private/var/select", "/private/var/db/timezone"),
)
"""Parts of the system that commands read."""

SCRATCH = ("/tmp", "/dev/shm")

_KEPT_SECRET = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d"),
    *("/etc/security/opasswd", "/etc/ssl/private", "/etc/letsencrypt", "/etc/wireguard", "/etc/krb5.keytab"),
    *("/etc/NetworkManager/system-connections", "/etc/ppp", "/etc/openvpn", "/etc/docker", "/etc/rancher"),
)
"""Of the system, and for nobody else: only an administrator can read them at all."""

_TOOLS = (
    *(".pyenv", ".rbenv", ".nvm", ".asdf", ".volta", ".sdkman", ".rustup", ".cargo/bin", ".bun/bin", ".deno/bin"),
    *(".local/bin", ".local/lib", ".local/share/uv/python", ".local/share/uv/tools", ".local/share/pipx"),
    *(".local/pipx", ".local/share/mise", ".local/share/fnm", "go/bin", "miniconda3", "anaconda3", "miniforge3"),
)
"""Folders of a person's home that have programs and no secrets."""


def places(grants: Grants) -> list[Visible]:
    """List the places that a command sees, outer ones first: each overrides those before it."""
    found: dict[Path, Kind] = {}
    made = {Path(name) for name in SCRATCH} | {grants.home} - {Path("/")}
    found.update((one, "scratch") for one in made)
    for name in SYSTEM:
        if os.path.isdir(name) and not os.path.islink(name):
            found[Path(name)] = "read"
    for name in (*_KEPT_SECRET, *map(str, Path("/etc/ssh").glob("ssh_host_*_key"))):
        if os.access(name, os.R_OK):
            found[Path(name)] = "empty"
    found.update((one, "read") for one in _tools(grants))
    found.update((one, "read") for one in grants.read if os.path.exists(one))
    found.update((one, "write") for one in grants.writable)
    found.update((one, "empty") for one in grants.hidden if one not in grants.writable)
    seen: dict[Path, Kind] = {}
    for path in sorted(found, key=lambda path: len(path.parts)):  # each is a mount, whose price is that of those before
        outer = next((seen[parent] for parent in path.parents if parent in seen), "scratch")
        is_same = found[path] == outer or (found[path], outer) == ("empty", "scratch")
        if not is_same or path in made:
            seen[path] = found[path]
    return [Visible(path, kind) for path, kind in seen.items()]


def links(grants: Grants, seen: Iterable[Visible]) -> list[tuple[str, str]]:
    """Links on the way to what is seen, such as /bin or /home, with where they lead."""
    there = [one.path for one in seen if one.kind != "scratch"]
    found: dict[str, str] = {}
    on_path = (Path(name) for name in grants.path.split(os.pathsep) if os.path.isabs(name))
    for path in (*map(Path, SYSTEM), *grants.spelled, *on_path):
        for one in (*reversed(path.parents), path):
            if os.path.islink(one) and not any(one.is_relative_to(other) for other in there):
                found[str(one)] = os.readlink(one)
                break  # what follows is below the place that it leads to
    return list(found.items())


def _tools(grants: Grants) -> Iterator[Path]:
    """Programs that are neither part of the system nor in a writable folder: what PATH names, and this Python."""
    home, own = grants.home, (Path(sys.base_prefix), Path(__file__).parents[1])
    on_path = [prefix for name in grants.path.split(os.pathsep) if name for prefix in _prefixes(Path(name), home)]
    for one in (*own, *(home / name for name in _TOOLS), *on_path):
        with suppress(OSError):
            one = one.resolve(strict=True)
            inside, shown = (*grants.hidden, *grants.writable, home), (*map(Path, SYSTEM), *grants.writable)
            if not any(other.is_relative_to(one) for other in inside) and not any(map(one.is_relative_to, shown)):
                yield one


def _prefixes(folder: Path, home: Path) -> Iterator[Path]:
    """A folder of programs, and the installation that it belongs to; of an environment of Python that of its base."""
    yield folder
    if folder.name in ("bin", "sbin", "shims") and folder.parent not in (home, home / ".local", home / ".cargo"):
        yield folder.parent
    if os.path.exists(folder.parent / "pyvenv.cfg"):  # False where nobody may look, too
        with suppress(OSError):
            yield (folder / "python").resolve().parents[1]


def git_identity(home: Path) -> bytes:
    """The name and address of the person for git, of a configuration that isn't seen."""
    lines = ["[user]"]
    for file in (home / ".config" / "git" / "config", home / ".gitconfig"):  # the last one said holds
        with suppress(OSError, UnicodeDecodeError):
            section = ""
            for line in file.read_text().splitlines():
                if found := re.match(r"\s*\[(.*?)\]", line):
                    section = found[1].strip().lower()
                elif section == "user" and (found := re.match(r"\s*(name|email)\s*=\s*(.*)", line)):
                    lines.append(f"\t{found[1]} = {found[2]}")
    return ("\n".join([*lines, ""]) if lines[1:] else "").encode()
