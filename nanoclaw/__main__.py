"""The command `nanoclaw`."""

import os
import sys


def main() -> int:
    """Run a command and end at once when all is said and on disk: taking the interpreter apart takes as long as a turn
    does. Where a thread still works, or the reader has left, the interpreter ends it as usual."""
    status, threading = run(), sys.modules.get("threading")
    if threading and threading.active_count() == 1:
        import atexit

        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (AttributeError, OSError, ValueError):  # one is closed
            return status
        atexit._run_exitfuncs()
        os._exit(status)
    return status


def run() -> int:
    """The exit status of what the command line says."""
    if sys.stdin is None:  # it was closed
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
    if sys.argv[1:] in (["--version"], ["-V"]):  # before anything else is imported
        from nanoclaw import __version__

        print(f"nanoclaw {__version__}")
        return 0
    if sys.argv[1:2] and sys.argv[1].startswith("-"):
        from nanoclaw.channels.attach import answer_once

        status = answer_once(sys.argv[1:], os.environ)  # the process that runs has all that this would have to load
        if status is not None:
            return status
    from nanoclaw.cli import run as run_command

    return run_command(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
