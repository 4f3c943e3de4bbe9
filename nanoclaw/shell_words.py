"""Finds the commands that a line of shell would run, without running it: tree-sitter reads it, prefixes are followed.

What only shows at run time stays unseen: variables, aliases, scripts, programs that start others by themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

DEEPEST = 12
"""Shells within shells that are looked into."""
LONGEST = 10_000
"""Characters that are parsed: for some texts that no shell takes, the time grows with their square."""


def commands_in(text: str, depth: int = 0) -> Iterator[tuple[str, ...]]:
    """The words of every command; one that only starts another (`sudo`, `sh -c`) comes before the one it starts."""
    if depth <= DEEPEST:
        for words, fed in _parsed(text):
            yield from _started(words, fed, depth)


def _started(words: Sequence[str], fed: str, depth: int) -> Iterator[tuple[str, ...]]:
    words = _without_openers(words)
    if not words or depth > DEEPEST:
        return
    yield tuple(words)
    name, rest = program_name(words[0]), list(words[1:])
    if name in _SHELLS:
        yield from commands_in(_script(rest) or fed, depth + 1)
    elif name == "eval":
        yield from commands_in(" ".join(rest), depth + 1)
    elif name in _WITH_SCRIPT:
        yield from commands_in(_script(rest), depth + 1)
    elif name == "trap":
        yield from commands_in(rest[0] if rest else "", depth + 1)
    elif name == "find":
        for number, word in enumerate(rest):
            if word in ("-exec", "-execdir", "-ok", "-okdir"):
                yield from _started(rest[number + 1 :], "", depth + 1)
    elif name in _PREFIXES:
        if name == "runuser":
            yield from commands_in(_script(rest), depth + 1)
        whole = [re.sub("^(?:-S|--split-string=?)", "", word) for word in rest] if name == "env" else rest
        inner = _behind(whole, *_PREFIXES[name])
        if name == "xargs" and fed:
            inner = [*inner, *fed.split()]
        if name == "flock" and inner[:1] in (["-c"], ["--command"]):
            yield from commands_in(_script(inner), depth + 1)
        elif name in _JOINING or whole != rest:
            yield from commands_in(" ".join(inner), depth + 1)
        else:
            yield from _started(inner, fed, depth + 1)


def words_in(text: str) -> Iterator[str]:
    """All words of a line, as they would be to read: also files that stand behind < and >, and texts of here-documents.
    In one that is too long to be parsed, or not all shell, all between quotes and the shell's own characters."""
    root = _root(text)
    if root.has_error or len(text) > LONGEST:
        yield from re.split(r"[\s;|&<>()`'\"]+", text)
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting += node.named_children
        if node.type in _WORDS or node.type == "heredoc_body":
            yield _word(node)


def program_name(word: str) -> str:
    """The name of a program however its path was given."""
    return word.rsplit("/", 1)[-1]


def plain_words(text: str) -> tuple[str, ...]:
    """The words of a command that is nothing but words; () of anything else."""
    found = [] if _MORE_THAN_WORDS.search(text) else list(_parsed(text))
    return found[0][0] if len(found) == 1 else ()


_MORE_THAN_WORDS = re.compile(r"[|;&<>()`$\\{}!#\n\r]")


_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "mksh"})
_WITH_SCRIPT = frozenset({"su", "script", "sg"})
"""Programs that give a shell the text behind -c."""
_JOINING = frozenset({"watch", "ssh", "parallel"})
"""Prefixes that give a shell the other's words, joined by spaces."""
_PREFIXES: Mapping[str, tuple[frozenset[str], int]] = {
    name: (frozenset(options.split()), arguments)
    for names, options, arguments in (
        ("nohup setsid command builtin busybox unshare setpriv unbuffer chronic", "", 0),
        ("chroot taskset chrt", "", 1),
        ("sudo", "-u -g -h -p -C -r -t -T -U -D -R --user --group --host --prompt --chdir --chroot", 0),
        ("doas", "-u -C", 0),
        ("env", "-u -C --unset --chdir", 0),
        ("exec", "-a", 0),
        ("time", "-f -o --format --output", 0),
        ("nice", "-n --adjustment", 0),
        ("ionice", "-c -n -p --class --classdata", 0),
        ("timeout", "-k -s --kill-after --signal", 1),
        ("stdbuf", "-i -o -e --input --output --error", 0),
        (
            "xargs",
            "-n -I -i -P -L -l -d -E -s -a --max-args --replace --max-procs --max-lines --delimiter --arg-file",
            0,
        ),
        ("parallel", "-j -S -a --jobs --arg-file", 0),
        ("watch", "-n --interval", 0),
        ("flock", "-w -E --timeout --conflict-exit-code", 1),
        ("strace", "-e -o -p -s -u -E", 0),
        ("ltrace", "-e -o -p -s -u", 0),
        ("runuser", "-u -g --user --group", 0),
        ("caffeinate", "-t -w", 0),
        ("ssh", "-p -i -l -o -F -J -L -R -D -W -b -c -e -m -S", 1),
    )
    for name in names.split()
}
"""Programs that start another: their options that take a value, and how many words stand before the other's name."""

_OPENERS = frozenset(["if", "then", "else", "elif", "while", "until", "do", "!", "{", "(", "function", "coproc", "in"])
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=.*", re.DOTALL)


def _without_openers(words: Sequence[str]) -> list[str]:
    """Without words of the shell's own grammar and assignments that stand before a command."""
    start = 0
    while start < len(words) and (words[start] in _OPENERS or _ASSIGNMENT.fullmatch(words[start])):
        start += 1
    return list(words[start:])


def _behind(words: Sequence[str], with_value: frozenset[str], arguments: int) -> list[str]:
    """The words behind a prefix's own options, assignments and arguments."""
    position = 0
    while position < len(words):
        word = words[position]
        if word == "--":
            position += 1
            break
        if word.startswith("-") and len(word) > 1:
            position += 2 if word in with_value else 1
        elif _ASSIGNMENT.fullmatch(word):
            position += 1
        else:
            break
    return list(words[position + arguments :])


def _script(words: Sequence[str]) -> str:
    """The text that a shell was given with -c, which may stand among other letters."""
    for number, word in enumerate(words):
        if word.startswith("-") and not word.startswith("--") and "c" in word:
            return next((text for text in words[number + 1 :] if not text.startswith("-")), "")
        if word == "--command":
            return words[number + 1] if number + 1 < len(words) else ""
        if word.startswith("--command="):
            return word.removeprefix("--command=")
    return ""


def _echoed(words: Sequence[str]) -> str:
    """Text that a command certainly writes."""
    if words and program_name(words[0]) in ("echo", "printf"):
        return " ".join(word for word in words[1:] if not re.fullmatch("-[neE]+", word)).replace("\\n", "\n")
    return ""


# --- reading ---------------------------------------------------------------------------------------------------------


@cache
def _parser() -> Parser:
    import tree_sitter  # for those who have rules
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def _root(text: str) -> Node:
    return _parser().parse(text[:LONGEST].encode("utf-8", "replace")).root_node


def _parsed(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """The words of each command, and the text that certainly comes in: a here-document, or what `echo` pipes to it.

    In a long text, and in one that is not all shell, everything between the shell's own characters may be a command.
    """
    root = _root(text)
    if root.has_error or len(text) > LONGEST:
        for part in re.split(r"\$?[;&|()`\n]", re.sub(r"[\"'\\]", "", text)):
            yield tuple(part.split()), ""
    waiting: list[tuple[Node, str, tuple[str, ...]]] = [(root, "", ())]
    while waiting:  # no recursion, as a text may nest more deeply than Python does
        node, fed, more = waiting.pop()
        for redirect in node.children_by_field_name("redirect"):
            given, further = _redirected(redirect)
            fed, more = given or fed, (*more, *further)
        if node.type == "command":
            yield (*_words(node), *more), fed
        inner, piped = [], fed
        for child in node.named_children:
            inner.append((child, piped, more))
            piped = _echoed(_last_words(child)) if node.type == "pipeline" else fed
        waiting += reversed(inner)


def _words(command: Node) -> list[str]:
    return [_word(part) for part in command.named_children if not part.type.endswith("_redirect")]


def _last_words(node: Node) -> list[str]:
    """Those of the command that writes last into a pipe."""
    while node.type != "command":
        inner = node.child_by_field_name("body") or next(reversed(node.named_children), None)
        if inner is None:
            return []
        node = inner
    return _words(node)


def _redirected(redirect: Node) -> tuple[str, tuple[str, ...]]:
    """The text that a redirection feeds to its command, and words behind it that belong to the command all the same."""
    words = [part for part in redirect.named_children if part.type in _WORDS]
    if redirect.type == "file_redirect":
        return "", tuple(map(_word, words[1:]))
    if redirect.type == "herestring_redirect":
        return "".join(map(_word, words)), ()
    bodies = (_text(part) for part in redirect.named_children if part.type == "heredoc_body")
    return "".join(re.sub(r"(?m)^\t+", "", body) for body in bodies), tuple(map(_word, words))


_WORDS = frozenset({"word", "number", "string", "raw_string", "ansi_c_string", "translated_string", "concatenation"})


def _word(node: Node) -> str:
    """A word without its quotes; what an expansion would come to is not known."""
    text = _text(node)
    match node.type:
        case "word":
            return re.sub(r"(?s)\\(.)", lambda sign: sign[1].replace("\n", ""), text)
        case "string":
            return re.sub(r"\\([$`\"\\\n])", lambda sign: sign[1].replace("\n", ""), text[1:-1])
        case "raw_string":
            return text[1:-1]
        case "ansi_c_string":
            return _unescaped(text[2:-1])
        case "concatenation" | "command_name" | "translated_string":
            return "".join(_word(part) for part in node.children if part.type != "$")
    return text


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|[0-7]{1,3}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}


def _unescaped(text: str) -> str:
    """As $'…' means it."""

    def sign(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] in "xu" and len(code) > 1:
            return chr(int(code[1:], 16))
        if code.isdigit() and code.isascii():
            return chr(int(code, 8) & 255) if all(digit in "01234567" for digit in code) else code
        return _ESCAPES.get(code, code)

    return _ESCAPE.sub(sign, text)
