"""The command `nanoclaw`."""

import os
import sys


def main() -> int:
    if sys.argv[1:] in (["--version"], ["-V"]):  # before anything else is imported
        from nanoclaw import __version__

        print(f"nanoclaw {__version__}")
        return 0
    if sys.argv[1:2] and sys.argv[1].startswith("-"):
        from nanoclaw.channels.attach import answer_once

        status = answer_once(sys.argv[1:], os.environ)  # the process that runs has all that this would have to load
        if status is not None:
            return status
    from nanoclaw.cli import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
