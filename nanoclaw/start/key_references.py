"""Keys that stand in the keyring of the system: "keyring:NAME" in config.toml or secrets.env is read from there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

REFERENCE = "keyring:"


class KeySources(NamedTuple):
    """The places of keys. `written` is the file as it is there, `in_file` the lines of the secrets file that hold
    (those that the environment does not replace); `found` and `lacks` are entries of the keyring by name, and why there
    is none."""

    table: Mapping[str, Any] = MappingProxyType({})
    in_file: Mapping[str, str] = MappingProxyType({})
    found: Mapping[str, str] = MappingProxyType({})
    lacks: Mapping[str, str] = MappingProxyType({})

    @property
    def written(self) -> Mapping[str, Any]:
        """The dotted keys of config.toml with what is there, references as such."""
        return dict(leaves(self.table))

    def of_setting(self, key: str) -> str:
        """The place of a dotted key's value, '' if it has none."""
        value = self.written.get(key)
        if isinstance(value, str) and value.startswith(REFERENCE):
            return "keyring" if name_in(value) in self.found else ""
        return "file" if value else ""

    def of_variable(self, name: str, environment: Mapping[str, str]) -> str:
        """The place of a variable's value, '' if it has none."""
        if name not in self.in_file:
            return "environment" if environment.get(name) else ""
        if name_in(self.in_file[name]):
            return "keyring" if name_in(self.in_file[name]) in self.found else ""
        return "file" if self.in_file[name] else ""

    def lacking(self) -> Iterator[str]:
        """A sentence for each entry of the keyring that could not be read."""
        if not self.lacks:
            return
        from nanoclaw.installation import install_command, start_command

        for name, why in self.lacks.items():
            told = f"{start_command()} keys set {name} puts it there."
            if "not installed" in why:
                told = f"{install_command('keyring')} adds it."
            yield f"the key {name} could not be read from the keyring, so it counts as not set: {why}. {told}"


def name_in(value: Any) -> str:
    """The name of the keyring's entry that a value stands for, '' for a plain one."""
    return value.removeprefix(REFERENCE).strip() if isinstance(value, str) and value.startswith(REFERENCE) else ""


def resolve(
    table: Mapping[str, Any], in_file: Mapping[str, str], environ: Mapping[str, str]
) -> tuple[Mapping[str, Any], Mapping[str, str], KeySources]:
    """The table and the environment with keyring references replaced by the keys; unreadable ones are left out."""
    lines = {name: value for name, value in in_file.items() if name not in environ}
    names = dict.fromkeys([*_names(table), *filter(None, map(name_in, lines.values()))])
    if not names:
        return table, {**lines, **environ}, KeySources(table, lines)
    from nanoclaw import system_keyring

    entries = system_keyring.read(names)
    keys = KeySources(table, lines, entries.values, entries.lacks)
    known = {name: entries.values.get(name_in(value), value) for name, value in lines.items()}
    given = {name: value for name, value in known.items() if not name_in(value)}
    return _with(table, entries.values), {**given, **environ}, keys


def leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted keys of a table with their values; one of an empty table, too."""
    for name, value in table.items():
        if value and isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _names(value: Any) -> Iterator[str]:
    """Names of the entries that are referred to."""
    if isinstance(value, Mapping | list):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _names(one)
    elif name := name_in(value):
        yield name


def _with(value: Any, found: Mapping[str, str]) -> Any:
    """The same with the entries in place of their names."""
    if isinstance(value, Mapping):
        return {key: _with(one, found) for key, one in value.items() if name_in(one) in ("", *found)}
    if isinstance(value, list):
        return [_with(one, found) for one in value if name_in(one) in ("", *found)]
    return found.get(name_in(value), value)
