"""The tables [mcp.NAME]: whether they fit, what is open by them, and what in them is secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.plugin import Finding
from nanoclaw.redaction import smells_of_secret

if TYPE_CHECKING:
    from nanoclaw.plugins.mcp.plugin import ServerSettings

_NAME = re.compile(r"[a-z][a-z0-9-]*(?:_[a-z0-9-]+)*", re.IGNORECASE)
_LONGEST_NAME = 32
_REFERENCE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Z_][A-Z0-9_]*))")


def check(servers: Mapping[str, ServerSettings]) -> None:
    """Raises ConfigError for servers that cannot be."""
    for name, one in servers.items():
        where = f"mcp.{name}"
        check_name(name)
        if [other.casefold() for other in servers].count(name.casefold()) > 1:
            raise ConfigError(f"[{where}] appears twice, in capitals and small letters: remove one.")
        if bool(one.command.strip()) == bool(one.url.strip()):
            raise ConfigError(f"[{where}] needs either command, the program to start, or url, the server's address.")
        if one.url and not one.url.startswith(("http://", "https://")):
            raise ConfigError(f"{where}.url must begin with https:// or http://.")
        if "\0" in "".join((one.command, *one.args, one.cwd, one.url)):
            raise ConfigError(f"{where} has a NUL in it.")
        for key in ("args", "env", "cwd") if one.url else ("headers",):
            if getattr(one, key):
                raise ConfigError(f"{where}.{key} has no effect beside {'url' if one.url else 'command'}: take it out.")


def check_name(name: str) -> None:
    """Raises ConfigError for what cannot be the beginning of a tool's name."""
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise ConfigError(
            f"{name!r} cannot be the name of an MCP server: up to {_LONGEST_NAME} letters, digits, hyphens and single "
            "underscores, a letter first."
        )


def resolved(text: str, environment: Mapping[str, str]) -> str:
    """A text with the variables that it refers to, as "$GITHUB_TOKEN" or "Bearer ${TOKEN}". Raises ConfigError."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name not in environment:
            raise ConfigError(f"{name} is not set: put {name}=… into secrets.env of the home, or into the environment")
        return environment[name]

    return _REFERENCE.sub(value, text)


def place(server: ServerSettings) -> str:
    """Its address or command, for a person; without what may be secret."""
    if server.url:
        return re.sub(r"//[^/@]*@", "//", server.url.partition("?")[0])
    shown = " ".join((server.command, *server.args))
    for value in _in_arguments(server.args):
        shown = shown.replace(value, "…")
    return shown


def opened(name: str, server: ServerSettings) -> Iterator[Finding]:
    """Findings about what is open by it."""
    about, url, shown = f"mcp {name}", urlsplit(server.url), place(server)
    if not server.url:
        yield Finding(True, f"{shown}: runs with your rights, outside of the sandbox", about, risk="note")
    elif url.scheme == "http" and url.hostname not in ("localhost", "127.0.0.1", "::1"):
        said = "without TLS, so others on the network can read and change it"
        yield Finding(False, f"{shown}: {said}", about, risk="bad")
    else:
        yield Finding(True, f"{shown}: receives the arguments of its tools", about, risk="note")
    if "*" in server.reads:
        yield Finding(False, 'none of its tools asks: reads = ["*"]', about, risk="warning")
    elif server.reads:
        yield Finding(True, f"not asked about: {', '.join(server.reads)}", about, risk="note")
    if given := ", ".join((*server.env, *server.headers)):
        yield Finding(True, f"is given {given}", about, risk="note")


# --- what is secret --------------------------------------------------------------------------------------------------


def secrets(servers: Mapping[str, ServerSettings], environment: Mapping[str, str]) -> Iterator[str]:
    """Values that must never show."""
    for one in servers.values():
        given = {**one.env, **one.headers}
        for name, value in given.items():
            if smells_of_secret(name):
                yield from (value, value.partition(" ")[2].strip())  # also the token of "Bearer TOKEN"
        for value in (one.url, *one.args, *given.values()):
            named = (match[1] or match[2] for match in _REFERENCE.finditer(value))
            yield from (environment.get(name, "") for name in named if smells_of_secret(name))
        for value in (one.url, *one.args):
            yield from _in_address(value)
        yield from _in_arguments(one.args)


def _in_arguments(arguments: Sequence[str]) -> Iterator[str]:
    """The values of options that smell of a secret: `--api-key X`, `--api-key=X`."""
    for number, one in enumerate(arguments):
        name, equals, value = one.partition("=")
        if name.startswith("-") and smells_of_secret(name):
            yield from filter(None, [value] if equals else arguments[number + 1 : number + 2])


def _in_address(text: str) -> Iterable[str]:
    """The password in an address, and values in its query that are named like secrets."""
    try:
        parts = urlsplit(text if "://" in text else "")
        return [parts.password or "", *(value for name, value in parse_qsl(parts.query) if smells_of_secret(name))]
    except ValueError:
        return ()
