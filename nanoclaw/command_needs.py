"""Finds in the text of a command what it needs beyond a sandbox: servers of the web, or places that it only reads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from nanoclaw.shell_words import commands_in, program_name

_PYPI, _NPM = ("pypi.org", "files.pythonhosted.org"), ("registry.npmjs.org",)
_REGISTRIES: Mapping[str, tuple[str, ...]] = {
    "pip": _PYPI,
    "pip3": _PYPI,
    "uv": _PYPI,
    "npm": _NPM,
    "npx": _NPM,
    "pnpm": _NPM,
    "yarn": ("registry.yarnpkg.com", *_NPM),
    "cargo": ("index.crates.io", "static.crates.io"),
    "go": ("proxy.golang.org", "sum.golang.org"),
}
_READERS = re.compile(
    r"cat|head|tail|less|more|wc|e?grep|rg|ls|find|tree|file|stat|du|diff|cmp|\w+sum|sort|uniq|cut|tr|nl|cd|echo|cp|unzip"
)


def only_reads(command: str) -> bool:
    """True for a command that names places outside and changes none of them."""
    if ">" in re.sub(r"\d?>+\s*(/dev/null|&\d)\b", "", command):
        return False
    runs = [(program_name(words[0]), words[-1]) for words in commands_in(command)]
    return all(_READERS.fullmatch(name) and not (name == "cp" and last[:1] in "~/$") for name, last in runs)


def writes_nothing(command: str) -> bool:
    """True for a command whose programs are for reading only, with nothing that has them write."""
    runs = [" ".join(words).removeprefix("/usr").removeprefix("/bin/") for words in commands_in(command)]
    return bool(runs) and only_reads(command) and not any(map(_WRITING.match, runs))


_WRITING = re.compile(  # what has a path may be the workspace's; uniq writes to a second file
    r"(?s)[^ ]*/|(cp|unzip|uniq (-\S+ )*(?!-\S)\S+) |find .*-(delete|exec|ok|fprint|fls)"
    r"|(sort|tree|less) (.* )?-(\w*[oOT]|-[otlL])|rg .*--pre|file (.* )?-(\w*C|-c)"
)


def servers(command: str) -> tuple[str, ...]:
    """Servers without which it fails; none for what installs something outside of the workspace."""
    in_own = "bin/activate" in command
    found = (server for words in commands_in(command) for server in _servers(words, in_own=in_own))
    return tuple(dict.fromkeys(found))


def _servers(words: Sequence[str], *, in_own: bool) -> Iterator[str]:
    name, given = program_name(words[0]), {*words[1:]}
    if re.match(r"python[\d.]*$", name) and words[1:3] == ("-m", "pip"):
        name = "pip"
    if name in ("pip", "pip3") and "install" in given:
        in_own = in_own or "/" in words[0] or bool({"-t", "--target"} & given)
    elif name in _REGISTRIES:
        in_own = not {"-g", "--global", "tool"} & given
    if name in ("curl", "wget") or (name == "git" and {"clone", "ls-remote"} & given):
        from nanoclaw.net.public import NotPublic, host_of

        for word in words[1:]:
            with suppress(NotPublic):
                yield host_of(word).named
    elif in_own:
        yield from _REGISTRIES.get(name, ())
