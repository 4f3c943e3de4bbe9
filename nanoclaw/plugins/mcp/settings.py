"""The tables [mcp.NAME]: how each server is reached, which of its tools are used, and what in them is secret."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.plugin import Finding
from nanoclaw.redaction import smells_of_secret

SECONDS = 60.0
_NAME = re.compile(r"[a-z][a-z0-9-]*(?:_[a-z0-9-]+)*", re.IGNORECASE)
_LONGEST_NAME = 32
_REFERENCE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Z_][A-Z0-9_]*))")
_LISTS, _TABLES, _TEXTS = ("args", "roots", "allow", "deny", "reads"), ("env", "headers"), ("command", "cwd", "url")


class ServerSettings(NamedTuple):
    """One MCP server, started by `command` or reached at `url`."""

    name: str
    command: str = ""  # program that starts the server
    args: tuple[str, ...] = ()  # its arguments
    env: Mapping[str, str] = MappingProxyType({})  # environment; `$NAME` comes from secrets.env
    cwd: str = ""  # folder to start it in; empty: the workspace
    url: str = ""  # address of a remote server, in place of `command`
    headers: Mapping[str, str] = MappingProxyType({})  # HTTP headers for it: { Authorization = "Bearer $TOKEN" }
    roots: tuple[str, ...] = (".",)  # folders that the server is told about; ".": the workspace
    allow: tuple[str, ...] = ()  # the only tools to offer, as names or patterns; empty: all
    deny: tuple[str, ...] = ()  # tools not to offer, as names or patterns
    reads: tuple[str, ...] = ()  # tools that you declare read-only, so that they don't ask
    seconds: float = SECONDS  # seconds for one call, and for connecting
    off: bool = False  # ignore this server

    @property
    def place(self) -> str:
        """Its address or command, for a person; without what may be secret."""
        if self.url:
            return re.sub(r"//[^/@]*@", "//", self.url.partition("?")[0])
        hidden = set(_in_arguments(self.args))
        return " ".join((self.command, *(_without(one, hidden) for one in self.args)))

    def opened(self) -> Iterator[Finding]:
        """Findings about what is open by it."""
        name, url = f"mcp {self.name}", urlsplit(self.url)
        if not self.url:
            yield Finding(True, f"{self.place}: runs with your rights, outside of the sandbox", name, risk="note")
        elif url.scheme == "http" and url.hostname not in ("localhost", "127.0.0.1", "::1"):
            yield Finding(
                False, f"{self.place}: without TLS, so others on the network can read and change it", name, risk="bad"
            )
        else:
            yield Finding(True, f"{self.place}: receives the arguments of its tools", name, risk="note")
        if "*" in self.reads:
            yield Finding(False, 'none of its tools asks: reads = ["*"]', name, risk="warning")
        elif self.reads:
            yield Finding(True, f"not asked about: {', '.join(self.reads)}", name, risk="note")
        if given := ", ".join((*self.env, *self.headers)):
            yield Finding(True, f"is given {given}", name, risk="note")

    def allows(self, tool: str) -> bool:
        from fnmatch import fnmatchcase

        allowed = not self.allow or any(fnmatchcase(tool, glob) for glob in self.allow)
        return allowed and not any(fnmatchcase(tool, glob) for glob in self.deny)

    def only_reads(self, tool: str) -> bool:
        from fnmatch import fnmatchcase

        return any(fnmatchcase(tool, glob) for glob in self.reads)


def parsed(servers: Any) -> dict[str, ServerSettings]:
    """The servers of the table [mcp] by name. Raises ConfigError."""
    if not isinstance(servers, Mapping):
        raise ConfigError("'mcp' is a table: write [mcp.NAME] for each server, and its keys below.")
    found: dict[str, ServerSettings] = {}
    for name, table in servers.items():
        check_name(name)
        if name.casefold() in map(str.casefold, found):
            raise ConfigError(f"[mcp.{name}] appears twice, in capitals and small letters: remove one.")
        found[name] = _server(name, table)
    return found


def secrets(servers: Any, environment: Mapping[str, str]) -> Iterator[str]:
    """Values that must never show."""
    for table in servers.values() if isinstance(servers, Mapping) else ():
        if isinstance(table, Mapping):
            yield from _secrets(table, environment)


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


def _server(name: str, table: Any) -> ServerSettings:
    where = f"mcp.{name}"
    if not isinstance(table, Mapping):
        raise ConfigError(f"{where} must be a table: write [{where}] and below it command = … or url = …")
    known = ServerSettings._fields[1:]
    for key in table:
        if key not in known:
            import difflib

            near = difflib.get_close_matches(key, known, 1, 0.7)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}."
            raise ConfigError(f"unknown key '{where}.{key}'; {hint}")
    fields: dict[str, Any] = {}
    for key, value in table.items():
        _check(f"{where}.{key}", key, value)
        fields[key] = tuple(value) if key in _LISTS else float(value) if key == "seconds" else value
    server = ServerSettings(name, **fields)
    if bool(server.command.strip()) == bool(server.url.strip()):
        raise ConfigError(f"[{where}] needs either command, the program to start, or url, the address of the server.")
    if server.url and not server.url.startswith(("http://", "https://")):
        raise ConfigError(f"{where}.url must begin with https:// or http://.")
    lost = [key for key in (("args", "env", "cwd") if server.url else ("headers",)) if key in table]
    if lost:
        raise ConfigError(f"{where}.{lost[0]} has no effect beside {'url' if server.url else 'command'}: take it out.")
    return server


def _check(where: str, key: str, value: Any) -> None:
    """Raises ConfigError for a value of another type; the value is not in it, as it may be secret."""
    if key in _LISTS:
        wanted = 'a list of texts in quotes, such as ["a", "b"]'
        is_right = isinstance(value, list) and all(isinstance(item, str) for item in value)
    elif key in _TABLES:
        wanted = 'names with texts in quotes, such as { NAME = "value" }'
        is_right = isinstance(value, Mapping) and all(isinstance(item, str) for item in value.values())
    elif key in _TEXTS:
        wanted, is_right = "text in quotes", isinstance(value, str) and "\0" not in value
    elif key == "off":
        wanted, is_right = "true or false", isinstance(value, bool)
    else:
        wanted = "a number of seconds, more than 0 and at most 86400"
        is_right = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 86_400
    if not is_right:
        raise ConfigError(f"{where} must be {wanted}.")


def _secrets(table: Mapping[str, Any], environment: Mapping[str, str]) -> Iterator[str]:
    for key in _TABLES:
        given = table.get(key)
        for name, value in given.items() if isinstance(given, Mapping) else ():
            if isinstance(value, str):
                yield from _referenced(value, environment)
                if smells_of_secret(name):
                    yield value
                    yield from _last_word(value)
    arguments = [one for one in table.get("args", ()) if isinstance(one, str)]
    for value in (str(table.get("url", "")), *arguments):
        yield from _referenced(value, environment)
        yield from _in_address(value)
    yield from _in_arguments(arguments)


def _in_arguments(arguments: Sequence[str]) -> Iterator[str]:
    """The values of options that smell of a secret: `--api-key X`, `--api-key=X`."""
    for number, one in enumerate(arguments):
        name, equals, value = one.partition("=")
        if name.startswith("-") and smells_of_secret(name):
            yield from [value] if equals else arguments[number + 1 : number + 2]


def _without(text: str, hidden: Collection[str]) -> str:
    name, equals, value = text.partition("=")
    return "…" if text in hidden else f"{name}=…" if equals and value in hidden else text


def _referenced(text: str, environment: Mapping[str, str]) -> Iterator[str]:
    """Values of the variables that smell of a secret."""
    for match in _REFERENCE.finditer(text):
        name = match[1] or match[2]
        if smells_of_secret(name):
            yield environment.get(name, "")


def _last_word(text: str) -> Iterator[str]:
    """The token of "Bearer TOKEN"."""
    scheme, _, token = text.partition(" ")
    if token and scheme.isalpha():
        yield token.strip()


def _in_address(text: str) -> Iterator[str]:
    """The password in an address, and values in its query that are named like secrets."""
    if "://" not in text:
        return
    from urllib.parse import parse_qsl, urlsplit

    try:
        parts = urlsplit(text)
        if parts.password:
            yield parts.password
        yield from (value for name, value in parse_qsl(parts.query) if smells_of_secret(name))
    except ValueError:
        return
