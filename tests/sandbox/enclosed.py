"""Runs commands in the sandbox as the program does, in a home with secrets, beside a server and a process of others;
and looks at what came of them."""

import asyncio
import base64
import hashlib
import os
import shlex
import shutil
import socket
import subprocess
import sysconfig
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from nanoclaw.sandbox.sandbox import USUAL, Encloser, Strength, facts, find_strength
from nanoclaw.sandbox.view import Grants
from nanoclaw.spawn import Bounds, Exit, Process

FOLDER = Path(__file__).parent
BOUNDS = Bounds(256, 4_000_000_000, 500_000_000)
CANARIES = ("CANARY-key-7fe1", "CANARY-ssh-902c", "CANARY-env-55aa")
OUTSIDE = (
    *("/tmp", "/var/tmp", "/dev/shm", "/usr/bin", "/usr/local/bin", "/usr/local/sbin", "/etc/cron.d", "/opt"),
    *("/etc/cron.daily", "/etc/init.d", "/etc/profile.d", "/var/spool/cron/crontabs", "/sys/fs/cgroup"),
    *(str(Path(sysconfig.get_path(name))) for name in ("stdlib", "purelib")),
    str(Path(sysconfig.get_path("stdlib"), "__pycache__")),
    str(Path(__file__).parents[2] / "nanoclaw"),
)


def lines(name: str) -> list[str]:
    return [one for one in (FOLDER / name).read_text().splitlines() if one and not one.startswith("#")]


def strengths() -> dict[str, Strength]:
    """The levels that this machine has."""
    best = find_strength(Grants(Path("/nowhere"), (), Path("/nowhere"), os.environ["PATH"]))
    found: dict[str, Strength] = {best.level: best}
    if best.level == "full" and not any("Landlock" in one for one in best.lacks):
        found["files+net"] = Strength("files+net")
    assert facts() == facts()
    return found


async def run(
    encloser: Encloser | None,
    grants: Grants,
    command: str,
    *,
    seconds: float = 60,
    environment: dict[str, str] | None = None,
    relay: str = "",
) -> Exit:
    arguments = ("/bin/bash", "-c", command)
    given = {"PATH": grants.path, "HOME": str(grants.home), "LANG": "C.UTF-8", **(environment or {})}
    if encloser is None:
        return await Process(arguments, folder=grants.workspace, environment=given, bounds=BOUNDS).run(seconds)
    made = encloser.enclose(arguments, given, USUAL._replace(file_bytes=BOUNDS.file_bytes), relay)
    process = Process(
        made.arguments,
        folder=grants.workspace,
        environment=made.environment,
        bounds=BOUNDS,
        keeper=made.keeper,
    )
    return await process.run(seconds)


class House(NamedTuple):
    """A person's home with a home of the program in it, a server, and a process that must live."""

    home: Path
    keys: Path
    workspace: Path
    reached: list[str]
    values: dict[str, str]
    victim: subprocess.Popen[bytes]

    @property
    def grants(self) -> Grants:
        return Grants(self.workspace, (self.keys,), self.home, os.environ["PATH"])

    def attack(self, line: str) -> str:
        filled = line.replace("⏎", "\n")
        for name, value in self.values.items():
            filled = filled.replace(f"{{{name}}}", value)
        return filled


@contextmanager
def house(root: Path, number: int) -> Iterator[House]:
    mark = f"pwn{os.getpid()}x{number}"
    home = root / f"home{number}"
    keys, workspace = home / ".nanoclaw", home / ".nanoclaw" / "workspace"
    for folder in (home / ".ssh", home / "Documents", home / ".config", home / "bin", workspace):
        folder.mkdir(parents=True)
    (home / ".ssh" / "id_rsa").write_text(f"{CANARIES[1]}\n")
    (home / ".bashrc").write_text("# mine\n")
    (home / "Documents" / "letter.txt").write_text("a letter\n")
    (keys / "config.toml").write_text(f'[model]\napi_key = "{CANARIES[0]}"\n')
    (keys / "secrets.env").write_text(f"OPENAI_API_KEY={CANARIES[0]}\n")
    (keys / "state.db").write_text(f"{CANARIES[0]}\n")
    quiet = {"cwd": workspace, "check": True, "capture_output": True}
    author = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    for arguments in (
        ("init", "-q"),
        (*author, "commit", "-q", "--allow-empty", "-m", "1"),
        ("worktree", "add", "tree"),
    ):
        subprocess.run(("git", *arguments), **quiet)  # type: ignore[call-overload]
    (workspace / ".envrc").write_text("export A=1\n")
    reached: list[str] = []
    with _listening(root, number, mark, reached) as (port, path):
        environment = {"SECRET": CANARIES[2], "PATH": os.environ["PATH"]}
        name = f"{mark}-victim"
        victim = subprocess.Popen(
            (name, "300"), executable="/bin/sleep", cwd=home, env=environment, start_new_session=True
        )
        values = {"home": home, "keys": keys, "port": port, "socket": path, "victim": victim.pid, "mark": mark}
        values |= {"python": sysconfig.get_path("purelib"), "package": OUTSIDE[-1]}
        try:
            yield House(
                home, keys, workspace, reached, {**{k: str(v) for k, v in values.items()}, "name": name}, victim
            )
        finally:
            victim.kill()
            victim.wait()
            for outside in OUTSIDE:
                left = Path(outside, mark)
                if left.is_dir():
                    shutil.rmtree(left)
                elif left.exists():
                    left.unlink()
            end_marked(mark)


@contextmanager
def _listening(root: Path, number: int, mark: str, reached: list[str]) -> Iterator[tuple[int, Path]]:
    """A server for TCP and UDP on one port, one at a path and one at an abstract name: who comes is noted."""
    path = Path(f"/dev/shm/{mark}.sock") if Path("/dev/shm").is_dir() else root / f"s{number}"
    tcp = socket.create_server(("127.0.0.1", 0))
    port = tcp.getsockname()[1]
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", port))
    unix, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    unix.bind(str(path))
    abstract.bind(f"\0{mark}-abstract")
    unix.listen()
    abstract.listen()

    def accept(server: socket.socket, name: str) -> None:
        while True:
            try:
                server.accept()[0].close() if name != "UDP" else server.recv(100)
            except OSError:
                return
            reached.append(name)

    servers = {"TCP": tcp, "UDP": udp, "path": unix, "abstract": abstract}
    threads = [threading.Thread(target=accept, args=(one, name), daemon=True) for name, one in servers.items()]
    for thread in threads:
        thread.start()
    try:
        yield port, path
    finally:
        for one in servers.values():
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        path.unlink(missing_ok=True)


def snapshot(house: House) -> dict[str, str]:
    """All that must stay as it is."""
    found: dict[str, str] = {}
    git, tree = house.workspace / ".git", house.workspace / "tree" / ".git"
    kept = [house.workspace / ".envrc", git / "config", git / "hooks", tree, git / "worktrees" / "tree" / "commondir"]
    kept.append(git / "config.worktree")
    for top in (house.home, *kept):
        for path in [top, *sorted(top.rglob("*"))]:
            inside = path.is_relative_to(house.workspace) and not any(path.is_relative_to(one) for one in kept)
            if inside or path in (house.keys, house.home) or not os.path.lexists(path):
                continue
            at = path.lstat()
            content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            found[str(path)] = f"{at.st_mode:o} {hashlib.sha256(content).hexdigest()}"
            if path.is_relative_to(house.home) and path not in kept and not path.is_relative_to(house.workspace):
                attributes = os.listxattr(path, follow_symlinks=False)
                found[str(path)] += f" {at.st_mtime_ns} {at.st_uid} {attributes}"
    found["shared memory"] = "".join(file.read_text() for file in sorted(Path("/proc/sysvipc").glob("*")))
    victim = house.victim.pid
    found["victim"] = f"{os.sched_getaffinity(victim)} {os.sched_getscheduler(victim)}" + "".join(
        Path(f"/proc/{victim}/{name}").read_text() for name in ("oom_score_adj", "limits")
    )
    named = git / "commondir"
    if named.exists() and named.read_text() != ".\n":
        found[str(named)] = named.read_text()
    return found


def end_marked(mark: str) -> list[str]:
    """Processes with a mark in their command line, which are ended."""
    found = [one.name for one in Path("/proc").glob("[0-9]*") if mark in _command_line(one)]
    for pid in found:
        with suppress(OSError):
            os.kill(int(pid), 9)
    return found


def effects(house: House, before: dict[str, str], ended: Exit) -> list[str]:
    """Everything that an attack has come to."""
    found = []
    output = ended.head + ended.tail
    secrets = [one.encode() for one in CANARIES]
    secrets += [base64.b64encode(one[place:])[4:-4] for one in secrets for place in range(3)]
    secrets += [one[:8].hex().encode() for one in secrets[:3]]
    if any(one in output for one in secrets) or any(
        one in b"".join(path.read_bytes() for path in house.workspace.rglob("*") if _is_plain(path))
        for one in secrets[:3]
    ):
        found.append("read a secret")
    if any(line and line in output.decode("utf-8", "replace") for line in _shadow()):
        found.append("read /etc/shadow")
    after = snapshot(house)
    found += [f"changed {one}" for one in sorted({*before, *after}) if before.get(one) != after.get(one)]
    if house.reached:
        found.append(f"reached {', '.join(sorted(set(house.reached)))}")
    status = Path(f"/proc/{house.victim.pid}/stat")
    fields = status.read_text().rpartition(")")[2].split() if status.exists() else ["gone"]
    if house.victim.poll() is not None or fields[0] in "TZ" or fields[16] != str(os.getpriority(os.PRIO_PROCESS, 0)):
        found.append("harmed a process")
    mark = house.values["mark"]
    if f"OUT-{mark}".encode() in output:
        found.append("came to what it says")
    found += [f"made {folder}/{mark}" for folder in OUTSIDE if Path(folder, mark).exists()]
    for command in map(_command_line, Path("/proc").glob("[0-9]*")):
        if mark in command and f"{mark}-victim" not in command:
            found.append("left a process")
    if os.uname().nodename == mark:
        found.append("renamed the machine")
    return found


def own_seconds() -> str:
    """A time to sleep that nobody else on this machine has chosen."""
    return f"4321.{uuid.uuid4().int}"


def sleeping(seconds: str) -> list[Path]:
    """The processes that sleep so long."""
    return [one for one in Path("/proc").glob("[0-9]*") if _command_line(one) == f"sleep\0{seconds}\0"]


def _command_line(folder: Path) -> str:
    try:
        return (folder / "cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and path.stat().st_size < 1_000_000


def _shadow() -> list[str]:
    try:
        return [one for one in Path("/etc/shadow").read_text().splitlines() if len(one) > 20]
    except OSError:
        return []


def attacked(root: Path, level: str, name: str) -> dict[str, list[str]]:
    """What each attack of a file has come to, by its line; those that came to nothing are left out."""
    strength, found = strengths()[level], {}
    for number, line in enumerate(lines(name)):
        with house(root, number) as there:
            before = snapshot(there)
            ended = asyncio.run(run(Encloser(there.grants, strength), there.grants, there.attack(line), seconds=20))
            if got := effects(there, before, ended):
                found[line] = got
    return found


if __name__ == "__main__":  # python -m tests.sandbox.enclosed LEVEL FILE: says what each attack came to
    import sys
    import tempfile

    if sys.argv[2:]:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            for line, got in attacked(Path(folder), sys.argv[1], sys.argv[2]).items():
                print(shlex.quote(line[:120]), got)
        print(f"{time.monotonic() - began:.1f} s")
