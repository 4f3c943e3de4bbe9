"""Says which parts of the machine a command sees, and how: a list of places, outer ones first."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

Kind = Literal["read", "write", "empty", "scratch"]
"""As it is, but not to be written; as it is; nothing of it; nothing of it, to be written and gone afterwards."""


class Visible(NamedTuple):
    path: Path
    kind: Kind


class Grants(NamedTuple):
    """The folders that commands are about. `hidden` is never seen, wherever it lies; `home` is the person's, of which
    only tools on `path` are seen; `read` and `write` are shown besides. `spelled` are the same paths as commands may
    write them, by way of links."""

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
    *(
        "/sys/devices",
        "/sys/class",
        "/var/lib/dpkg",
        "/var/lib/apt",
        "/var/lib/rpm",
        "/var/lib/pacman",
        "/var/cache/fontconfig",
    ),
    *("/home/linuxbrew/.linuxbrew", "/run/current-system"),
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

PROTECTED = frozenset(
    {
        *(".envrc", ".direnv", ".vscode", ".idea", ".mcp.json", ".gitconfig"),
        *(".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv"),
    }
)
"""In each writable folder: what a program of the person runs later, outside of the sandbox."""

OF_REPOSITORIES = ("hooks", "config", "config.worktree", "commondir", "modules", "info/attributes")
"""The same in a `.git`."""

LOOKED_THROUGH, DEEP = 1_000, 4
"""Folders that are looked through for what is protected, and how deep."""

_SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages", ".venv", "venv"})


class Protected(NamedTuple):
    """Something that must stay as it is, or, where it is a folder `around` such, where it is. No link has led the
    descriptor elsewhere."""

    path: Path
    descriptor: int
    is_around: bool


def places(grants: Grants) -> list[Visible]:
    """List the places that a command sees, outer ones first: each overrides those before it."""
    found: dict[Path, Kind] = {}
    made = {Path(name) for name in SCRATCH} | {grants.home} - {Path("/")}
    found.update((one, "scratch") for one in made)
    for name in SYSTEM:
        if os.path.isdir(name) and not os.path.islink(name):
            found[Path(name)] = "read"
    for name in (*_KEPT_SECRET, *_host_keys()):
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
            inside = (*grants.hidden, *grants.writable, home)
            if not any(other.is_relative_to(one) for other in inside) and not _is_seen(one, grants):
                yield one


def _prefixes(folder: Path, home: Path) -> Iterator[Path]:
    """A folder of programs, and the installation that it belongs to; of an environment of Python that of its base."""
    yield folder
    if folder.name in ("bin", "sbin", "shims") and folder.parent not in (home, home / ".local", home / ".cargo"):
        yield folder.parent
    if os.path.exists(folder.parent / "pyvenv.cfg"):  # False where nobody may look, too
        with suppress(OSError):
            yield (folder / "python").resolve().parents[1]


def _is_seen(path: Path, grants: Grants) -> bool:
    shown = (*map(Path, SYSTEM), *grants.writable)
    return any(path.is_relative_to(one) for one in shown)


def _host_keys() -> list[str]:
    with suppress(OSError):
        return [f"/etc/ssh/{name}" for name in os.listdir("/etc/ssh") if re.fullmatch("ssh_host_.*_key", name)]
    return []


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


def protected(folders: Iterable[Path]) -> list[Protected]:
    """Find what is to be protected in some folders, outer ones first; the caller closes the descriptors."""
    found: dict[Path, Protected] = {}
    for folder in folders:
        with suppress(OSError):
            top = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                for parts, is_around in _to_protect(top):
                    path, descriptor = Path(folder, *parts), _opened(top, parts)
                    if descriptor >= 0 and (path in found or stat.S_ISLNK(os.fstat(descriptor).st_mode)):
                        os.close(descriptor)
                    elif descriptor >= 0:
                        found[path] = Protected(path, descriptor, is_around)
            finally:
                os.close(top)
    return list(found.values())


def _to_protect(top: int) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Paths below a folder, each with True where it is only around what must stay as it is."""
    waiting, looked = deque[tuple[str, ...]]([()]), 0
    while waiting and (looked := looked + 1) <= LOOKED_THROUGH:
        parts = waiting.popleft()
        folders = _entries(top, parts)
        for name in PROTECTED & folders.keys():
            yield (*parts, name), False
        if ".git" in folders:
            for many in range(1, len(parts) + 1):  # else it could be put elsewhere, and another one in its place
                yield parts[:many], True
            yield from _of_repository(top, (*parts, ".git")) if folders[".git"] else [((*parts, ".git"), False)]
        if len(parts) < DEEP:
            inner = (one for one, is_folder in folders.items() if is_folder and one[:1] != "." and one not in _SKIPPED)
            waiting.extend((*parts, one) for one in islice(inner, LOOKED_THROUGH))


def _of_repository(top: int, git: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], bool]]:
    """The same of a `.git`, in which what is missing, and would count, is made."""
    yield git, True
    opened = _opened(top, git)
    with suppress(OSError):
        os.mkdir("hooks", dir_fd=opened)
    with suppress(OSError):  # names the folder of the configuration: here, as without it
        made = os.open("commondir", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=opened)
        os.write(made, b".\n")
        os.close(made)
    os.close(opened)
    for name in OF_REPOSITORIES:
        yield (*git, *name.split("/")), False
    for name, is_folder in islice(_entries(top, (*git, "worktrees")).items(), LOOKED_THROUGH):
        if is_folder:
            yield (*git, "worktrees"), True
            yield (*git, "worktrees", name), True
            yield (*git, "worktrees", name, "commondir"), False
            yield (*git, "worktrees", name, "config.worktree"), False


def _entries(top: int, parts: tuple[str, ...]) -> dict[str, bool]:
    """Names in a folder, True for folders."""
    if (opened := _opened(top, parts)) < 0:
        return {}
    try:
        with os.scandir(f"/proc/self/fd/{opened}") as entries:
            return {one.name: one.is_dir(follow_symlinks=False) for one in entries}
    except OSError:
        return {}
    finally:
        os.close(opened)


def _opened(top: int, parts: Iterable[str]) -> int:
    """A descriptor of what is there, to which no link has led; -1 where nothing is."""
    at = os.dup(top)
    for name in parts:
        try:
            inner = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        except OSError:
            return -1
        finally:
            os.close(at)
        at = inner
    return at
