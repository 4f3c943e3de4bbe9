"""Files of the home that may have the words: lines typed, logs, and what plugins keep."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from nanoclaw.atomic_write import replace_in, write_atomically
from nanoclaw.beneath.paths import open_again, open_parent_named
from nanoclaw.core.errors import WorkspaceError
from nanoclaw.core.plugin import Host
from nanoclaw.outputs import FOLDER
from nanoclaw.plugins.forget.words import Words

LARGEST_SEARCHED_BYTES = 100_000_000


def forget_typed(path: Path, words: Words, said: Sequence[str]) -> None:
    """Take entries out of the lines typed in the terminal: those with the words, and messages `said` that had them."""

    def keep(entry: str) -> bool:
        text = "\n".join(line[1:] for line in entry.split("\n") if line.startswith("+"))
        quoted = json.dumps(text)
        return not words.stand_in(text) and not (text.strip() and any(quoted in each for each in said))

    rewrite(path, "\n# ", keep)


def scrub_kept(host: Host, words: Words) -> int:
    """Take words out of large outputs of tools, and of the texts that plugins keep in their folders of the home and in
    their files outside the workspace; how many changed."""
    changed = 0
    for path in (*outputs(host.workspace), *_kept_by_plugins(host)):
        with suppress(OSError):
            before = _text(path)
            if (after := words.without_any(before)) != before:
                _write(path, after, host.workspace)
                changed += 1
    return changed


def outputs(root: Path) -> Iterator[Path]:
    """Files in which whole outputs of tools are kept."""
    return _files_at(root / FOLDER)


def stands_in(path: Path, has_words: Callable[[str], bool]) -> bool:
    with suppress(OSError):
        return has_words(_text(path))
    return False


def _kept_by_plugins(host: Host) -> Iterator[Path]:
    for plugin in host.plugins():
        places: Mapping[Path, str] = {host.program_home / "plugins" / plugin.name: "kept", **plugin.files()}
        for place, kind in places.items():
            if kind != "derived" and not place.is_relative_to(host.workspace):
                yield from _files_at(place)


def _text(path: Path) -> str:
    """The text of a file; bytes that are no text stay as they are."""
    return _content(path).decode("utf-8", "surrogateescape")


def _content(path: Path) -> bytes:
    """A file by its real path; a link that came since is not followed, and a pipe doesn't block."""
    with open_again(path) as file:
        return file.read()


def _write(path: Path, text: str, root: Path) -> None:
    content, real = text.encode("utf-8", "surrogateescape"), Path(os.path.realpath(root))
    if not path.is_relative_to(real):
        write_atomically(path, content)
        return
    with open_parent_named(real, path.relative_to(real).as_posix()) as (folder, name):
        replace_in(folder, name, content)


def holding(home: Path, root: Path, words: Words) -> Iterator[str]:
    """Names of files of the home and the workspace that have one of the phrases."""
    wanted = [phrase.lower().encode() for phrase in words.phrases if len(phrase) > 3]
    for top in (home,) if root.is_relative_to(home) else (home, root):
        top = Path(os.path.realpath(top))
        for path in below(top, besides="models"):
            with suppress(OSError):
                is_searched = path.stat().st_size < LARGEST_SEARCHED_BYTES
                content = _content(path).lower() if is_searched else b""
                if any(phrase in content for phrase in wanted):
                    yield path.relative_to(top).as_posix()


def is_aside(name: str) -> bool:
    """True for a file of the home that is a copy kept aside by the program."""
    return name.startswith("before-restore-") or ".damaged-" in name


def below(top: Path, besides: str) -> Iterator[Path]:
    """Plain files, without those in one folder of the top."""
    for folder, folders, files in os.walk(top):
        folders[:] = sorted(name for name in folders if Path(folder) != top or name != besides)
        paths = (Path(folder, name) for name in sorted(files))
        yield from (path for path in paths if path.is_file() and not path.is_symlink())


def _files_at(place: Path) -> Iterator[Path]:
    place = Path(os.path.realpath(place.parent), place.name)
    if place.is_file():
        yield place
    elif place.is_dir():
        yield from below(place, besides="")


def rewrite(path: Path, separator: str, keep: Callable[[str], bool]) -> None:
    """In place: whoever appends to the file has it open."""
    try:
        with path.open("r+b") as file:
            parts = file.read().decode("utf-8", "surrogateescape").split(separator)
            kept = [part for part in parts if keep(part)]
            if len(kept) < len(parts):
                file.seek(0)
                file.write(separator.join(kept).encode("utf-8", "surrogateescape"))
                file.truncate()
                file.flush()
                os.fsync(file.fileno())
    except FileNotFoundError:
        return
    except OSError as error:
        raise WorkspaceError(f"{path} may still have the words: {error.strerror}.") from None
