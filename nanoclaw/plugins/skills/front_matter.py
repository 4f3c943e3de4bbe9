"""Front matter of a Markdown file: `key: value` fields between two lines of ---, each parsed alone.

Most fields are one line of text or JSON, and need no YAML, which costs 90 M instructions to import. Parsed alone, a
field may also be `description: Use when: ...`, which is no YAML but often written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress

from nanoclaw.core.errors import SkillError
from nanoclaw.named_tuple import NamedTuple

LONGEST_BYTES = 32_000

_BLOCK = re.compile(rb"(?:\xef\xbb\xbf)?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_ENTRY = re.compile(r"([A-Za-z_][\w.-]*)[ \t]*:(?:[ \t]+(.*))?")
_PLAIN = re.compile(r"(?:[^\s\"'\[\]{}|>&*!%@`#,?-](?:(?! #).)*)?")
"""Text that means itself in YAML too, except a colon in it."""


class Field(NamedTuple):
    """`value` is text, or a list or mapping of such; JSON also brings numbers, true, false and null."""

    line: int
    value: object


def split(content: bytes) -> tuple[bytes, bytes]:
    """Split a file into its front matter, without the fence, and the rest. Raises SkillError if there is none."""
    if match := _BLOCK.match(content[: LONGEST_BYTES + 8]):
        return match[1], content[match.end() :]
    if not content.removeprefix(b"\xef\xbb\xbf").startswith(b"---"):
        raise SkillError("line 1: it must begin with front matter between two lines of ---")
    if len(content) > LONGEST_BYTES:
        raise SkillError(f"line 1: its front matter is longer than {LONGEST_BYTES:,} bytes")
    raise SkillError("line 1: its front matter has no closing line of ---")


def parse(block: bytes) -> Mapping[str, Field]:
    """Fields by key, with their line in the file. Raises SkillError with line and reason."""
    try:
        lines = block.decode().replace("\r\n", "\n").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        before = block[: error.start].count(b"\n")
        raise SkillError(f"line {before + 2}: its front matter is not UTF-8") from None
    starts: list[tuple[int, re.Match[str]]] = []
    for index, line in enumerate(lines):
        if match := _ENTRY.fullmatch(line):
            starts.append((index, match))
        elif line.startswith("#"):
            lines[index] = ""
        elif line.strip() and not starts:
            raise SkillError(f"line {index + 2}: its front matter has no 'key: value' there")
    fields, ends = dict[str, Field](), [index for index, _ in starts[1:]] + [len(lines)]
    for (index, match), end in zip(starts, ends, strict=True):
        key, first = match[1], (match[2] or "").strip(" \t")
        fields[key] = Field(index + 2, _value(key, first, lines[index:end], index + 2))
    return fields


def _value(key: str, first: str, lines: list[str], number: int) -> object:
    more = "\n".join(lines[1:]).rstrip()
    if not more and _PLAIN.fullmatch(first):
        return first
    text = f"{first}\n{more}".strip()
    if text[:1] in ("{", "[") or (first[:1] == '"' and not more):
        with suppress(ValueError, RecursionError):
            return json.loads(text)
    return _yaml(key, "\n".join(lines), number)


def _yaml(key: str, text: str, number: int) -> object:
    import yaml

    class Loader(yaml.BaseLoader):  # takes every scalar as text and makes no objects
        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            if self.check_event(yaml.AliasEvent):
                raise yaml.MarkedYAMLError(problem="it has an alias (*name), which is refused")
            return super().compose_node(parent, index)

    try:
        loaded = yaml.load(text, Loader)
    except RecursionError:
        raise SkillError(f"line {number}: {key!r} is nested too deeply") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = number + min(mark.line, text.count("\n")) if mark else number
        raise SkillError(f"line {line}: {key!r} cannot be read: {getattr(error, 'problem', None) or error}") from None
    if not isinstance(loaded, dict) or list(loaded) != [key]:
        raise SkillError(f"line {number}: {key!r} is not one YAML field")
    return loaded[key]
