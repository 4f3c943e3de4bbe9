"""The command `nanoclaw`."""

import sys


def main() -> int:
    if sys.argv[1:] in (["--version"], ["-V"]):  # before anything else is imported
        from nanoclaw import __version__

        print(f"nanoclaw {__version__}")
        return 0
    from nanoclaw.cli import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
