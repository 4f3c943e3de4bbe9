"""A profile for sandbox-exec of macOS, from the places that a command sees. The last rule that fits holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from nanoclaw.sandbox.protect import Protected
from nanoclaw.sandbox.view import Visible

PROGRAM = "/usr/bin/sandbox-exec"

_BASE = """(version 1)
(deny default)
(allow process-exec process-fork pseudo-tty ipc-posix-sem system-socket)
(allow signal process-info* (target same-sandbox))
(allow sysctl-read (sysctl-name-prefix "hw.") (sysctl-name-prefix "machdep.cpu.") (sysctl-name-prefix "kern.os"))
(allow sysctl-read (sysctl-name-prefix "kern.max") (sysctl-name "kern.argmax") (sysctl-name "kern.hostname"))
(allow sysctl-read (sysctl-name "kern.version") (sysctl-name "kern.usrstack64") (sysctl-name "vm.loadavg"))
(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))
(allow file-read* (literal "/") (subpath "/dev/fd"))
(allow file-read* file-write-data file-ioctl (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty"))
(allow file-read* (literal "/dev/random") (literal "/dev/urandom"))"""

_RULES = {
    "read": "(allow file-read* file-map-executable (subpath {}))",
    "write": "(allow file-read* file-map-executable file-write* (subpath {}))",
    **dict.fromkeys(("empty", "scratch"), "(deny file-read* file-map-executable file-write* (subpath {}))"),
    "kept": "(deny file-write* (literal {0}) (subpath {0}))",
    "closed": "(deny file-read* file-write* (literal {}))",
}
_WALK = "(allow file-read-metadata (vnode-type DIRECTORY) (vnode-type SYMLINK))"  # or no path such as /etc/x is found


def profile(seen: Iterable[Visible], protected: Iterable[Protected]) -> str:
    """Nothing of the network is in it, so that is denied. What is protected keeps its place: no folder around it is
    put elsewhere."""
    rules = [_RULES[kind].format(_quoted(path)) for path, kind in seen]
    around = dict[Path, None]()
    for path, kind in protected:
        rules += [_RULES[kind].format(_quoted(path))] if kind in _RULES else []
        around |= dict.fromkeys((path, *path.parents) if kind == "around" else path.parents)
    held = (f"(deny file-write-unlink (literal {_quoted(one)}))" for one in around)
    return "\n".join((_BASE, *rules, *held, _WALK))


def launched(command: Sequence[str], rules: str, report: int) -> tuple[str, ...]:
    """A command by way of a shell outside, which tells how it ended."""
    told = f"printf + >&{report}; \"$@\" {report}>&-; printf '\\n%d\\n' $? >&{report}"
    return ("/bin/bash", "-c", told, "bash", PROGRAM, "-p", rules, *command)


def _quoted(path: Path) -> str:
    return json.dumps(str(path), ensure_ascii=False)
