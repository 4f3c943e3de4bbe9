"""A package in words for a person: its files in full, and what was changed since it was looked at."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from nanoclaw.escapes import revealed
from nanoclaw.packages.pins import PackagePin
from nanoclaw.packages.reading import Package

MOST_SHOWN = 200_000
"""Characters of one file that are shown."""


def lines(package: Package, pin: PackagePin | None = None) -> Iterator[str]:
    """All files with their texts; of a package that was looked at before, what was changed since."""
    was = pin.hashes if pin else {}
    yield f"Files ({package.sha256[:12]}):"
    for path, file in package.files.items():
        told = [f"{len(file.data):,} bytes"]
        told += ["script"] if package.is_script(path) else []
        told += [] if file.text is not None else ["no text"]
        told += ["new"] if pin and path not in was else []
        told += ["changed"] if path in was and was[path] != package.hashes[path] else []
        yield f"  {revealed(path)} ({', '.join(told)})"
    yield from (f"  {revealed(path)} (taken away)" for path in was if path not in package.files)
    for path, file in package.files.items():
        if pin and was.get(path) == package.hashes[path]:
            continue
        if file.text is not None:
            yield ""
            before = pin.texts.get(path) if pin else None
            yield f"--- {revealed(path)}{' (what was changed)' if before is not None else ''}"
            yield from _text(file.text, before)


def _text(text: str, before: str | None) -> Iterator[str]:
    if before is not None:
        changes = list(difflib.unified_diff(before.splitlines(), text.splitlines(), lineterm="", n=3))[2:]
        text = "\n".join(changes) or "(only the ends of lines)"
    shown = revealed(text[:MOST_SHOWN]).rstrip("\n")
    yield f"{shown}\n[{len(text) - MOST_SHOWN:,} characters more]" if len(text) > MOST_SHOWN else shown


def as_data(package: Package) -> dict[str, object]:
    """The same for --json, without the texts."""
    files: list[Mapping[str, object]] = [
        {"path": path, "bytes": len(file.data), "script": package.is_script(path), "sha256": package.hashes[path]}
        for path, file in package.files.items()
    ]
    return {"sha256": package.sha256, "files": files}
