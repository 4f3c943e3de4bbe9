"""Pins: packages as somebody looked at them, by the hash of all their files; kept in one JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from nanoclaw.atomic_write import write_atomically
from nanoclaw.named_tuple import NamedTuple
from nanoclaw.packages.reading import Package, PackageError

MOST_TEXT = 500_000
"""Characters of a pinned package's texts that are kept, to show what was changed since."""


class PackagePin(NamedTuple):
    """A package as it was looked at: its files' hashes and texts by path."""

    sha256: str
    hashes: Mapping[str, str]
    texts: Mapping[str, str]


def pin_of(package: Package) -> PackagePin:
    texts, left = dict[str, str](), MOST_TEXT
    for path, file in package.files.items():
        if (text := file.text) is not None and len(text) <= left:
            texts[path] = text
            left -= len(text)
    return PackagePin(package.sha256, package.hashes, texts)


class PinFile:
    """Pins by name. A file that is damaged pins nothing, and says so."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, PackagePin]:
        """Raises PackageError for a damaged file."""
        try:
            return {name: _pin(one) for name, one in json.loads(self.path.read_bytes()).items()}
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise PackageError(f"{self.path} cannot be read: {error.strerror or error}") from error
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise PackageError(f"{self.path} is damaged") from error

    def set(self, name: str, package: Package) -> None:
        """Pin a package as it is. Raises OSError."""
        self._write({**self._whole(), name: pin_of(package)})

    def drop(self, name: str) -> None:
        """Raises OSError."""
        if name in (pins := self._whole()):
            del pins[name]
            self._write(pins)

    def _whole(self) -> dict[str, PackagePin]:
        """Pins in a damaged file are lost: each package must be reviewed again."""
        try:
            return self.read()
        except PackageError:
            return {}

    def _write(self, pins: Mapping[str, PackagePin]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        table = {name: pin._asdict() for name, pin in pins.items()}
        write_atomically(self.path, json.dumps(table, indent=1, ensure_ascii=False) + "\n", 0o600)


def _pin(value: Mapping[str, object]) -> PackagePin:
    sha256, hashes, texts = (value[name] for name in PackagePin._fields)
    if not (isinstance(sha256, str) and isinstance(hashes, dict) and isinstance(texts, dict)):
        raise TypeError
    return PackagePin(sha256, hashes, texts)
