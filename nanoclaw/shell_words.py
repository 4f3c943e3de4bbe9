"""Which commands a line of shell would run, read without running it: through quotes, pipes, subshells and prefixes.

What only shows at run time stays unseen: variables, aliases, scripts, programs that start others by themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

DEEPEST = 12
"""Shells within shells that are looked into."""


@dataclass(slots=True)
class _Command:
    """`given` is text that comes in by a here-document; `is_piped`: what the command before it writes is its input."""

    words: list[str] = field(default_factory=list)
    given: str = ""
    is_piped: bool = False


def commands_in(text: str, depth: int = 0) -> Iterator[tuple[str, ...]]:
    """The words of every command; one that only starts another (`sudo`, `sh -c`) comes before the one it starts."""
    if depth > DEEPEST:
        return
    before: list[str] = []
    for command in _parsed(text, depth):
        if isinstance(command, tuple):  # from a substitution within
            yield command
            continue
        words = _without_openers(command.words)
        fed = command.given or (_echoed(before) if command.is_piped else "")
        yield from _started(words, fed, depth)
        before = words


def _started(words: Sequence[str], fed: str, depth: int) -> Iterator[tuple[str, ...]]:
    words = _without_openers(words)
    if not words or depth > DEEPEST:
        return
    yield tuple(words)
    name, rest = _name(words[0]), list(words[1:])
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
        if name == "env" and (split := _after(rest, "-S", "--split-string")):
            yield from commands_in(split, depth + 1)
        if name == "runuser":
            yield from commands_in(_script(rest), depth + 1)
        inner = _behind(rest, *_PREFIXES[name])
        if name == "xargs" and fed:
            inner = [*inner, *fed.split()]
        if name == "flock" and inner[:1] in (["-c"], ["--command"]):
            yield from commands_in(_script(inner), depth + 1)
        elif name in _JOINING:
            yield from commands_in(" ".join(inner), depth + 1)
        else:
            yield from _started(inner, fed, depth + 1)


def _name(word: str) -> str:
    """The name of a program however its path was given."""
    return word.rsplit("/", 1)[-1]


_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "mksh"})
_WITH_SCRIPT = frozenset({"su", "script", "sg"})
"""Programs that give a shell the text behind -c."""
_JOINING = frozenset({"watch", "ssh", "parallel"})
"""Prefixes that give a shell the other's words, joined by blanks."""
_PREFIXES: Mapping[str, tuple[frozenset[str], int]] = {
    name: (frozenset(options.split()), arguments)
    for name, options, arguments in (
        ("sudo", "-u -g -h -p -C -r -t -T -U -D -R --user --group --host --prompt --chdir --chroot", 0),
        ("doas", "-u -C", 0),
        ("env", "-u -C -S --unset --chdir --split-string", 0),
        ("nohup", "", 0),
        ("setsid", "", 0),
        ("exec", "-a", 0),
        ("command", "", 0),
        ("builtin", "", 0),
        ("busybox", "", 0),
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
        ("chroot", "", 1),
        ("taskset", "", 1),
        ("chrt", "", 1),
        ("strace", "-e -o -p -s -u -E", 0),
        ("ltrace", "-e -o -p -s -u", 0),
        ("unshare", "", 0),
        ("runuser", "-u -g --user --group", 0),
        ("setpriv", "", 0),
        ("unbuffer", "", 0),
        ("chronic", "", 0),
        ("caffeinate", "-t -w", 0),
        ("ssh", "-p -i -l -o -F -J -L -R -D -W -b -c -e -m -S", 1),
    )
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
    """What follows a prefix's own options, assignments and arguments."""
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


def _after(words: Sequence[str], *options: str) -> str:
    for number, word in enumerate(words):
        if word in options:
            return " ".join(words[number + 1 :])
        for option in options:
            if word.startswith(option) and word != option:
                return " ".join([word[len(option) :].removeprefix("="), *words[number + 1 :]])
    return ""


def _echoed(words: Sequence[str]) -> str:
    """What a command certainly writes."""
    if words and _name(words[0]) in ("echo", "printf"):
        return " ".join(word for word in words[1:] if not re.fullmatch("-[neE]+", word)).replace("\\n", "\n")
    return ""


# --- reading ---------------------------------------------------------------------------------------------------------


def _parsed(text: str, depth: int) -> list[_Command | tuple[str, ...]]:
    return _Reader(text, depth).read()


class _Reader:
    """One text of shell from its first character to its last; what is not closed ends with the text."""

    def __init__(self, text: str, depth: int) -> None:
        self._text, self._depth, self._at = text, depth, 0
        self._found: list[_Command | tuple[str, ...]] = []
        self._command = _Command()
        self._word: list[str] | None = None
        self._redirected = ""  # the operator whose target comes next
        self._waiting: list[tuple[_Command, str, bool]] = []  # here-documents that begin at the next line

    def read(self) -> list[_Command | tuple[str, ...]]:
        while self._at < len(self._text):
            self._step(self._text[self._at])
        self._end_command()
        return self._found

    def _step(self, sign: str) -> None:
        text, at = self._text, self._at
        if sign in " \t\r":
            self._end_word()
            self._at += 1
        elif sign == "\n":
            self._end_command()
            self._at += 1
            self._read_documents()
        elif text.startswith("\\\n", at):
            self._at += 2
        elif sign == "#" and self._word is None:
            end = text.find("\n", at)
            self._at = len(text) if end < 0 else end
        elif sign in "<>" or text.startswith(("&>", "&>>"), at):
            self._redirect()
        elif sign in ";&|()":
            is_pipe = sign == "|" and not text.startswith("||", at)
            self._end_command()
            self._command.is_piped = is_pipe
            self._at += 2 if text[at : at + 2] in ("&&", "||", ";;", "|&") else 1
        else:
            self._take()

    def _take(self) -> None:
        """One piece of a word."""
        text, at = self._text, self._at
        word = self._word = [] if self._word is None else self._word
        sign = text[at]
        if sign == "\\":
            word.append(text[at + 1 : at + 2].replace("\n", ""))
            self._at += 2
        elif sign == "'":
            end = _find(text, "'", at + 1)
            word.append(text[at + 1 : end])
            self._at = end + 1
        elif sign == '"':
            self._at = self._quoted(at + 1, word)
        elif text.startswith("$'", at):
            end = _closing_quote(text, at + 2, "'")
            word.append(_unescaped(text[at + 2 : end]))
            self._at = end + 1
        elif text.startswith('$"', at):
            self._at = self._quoted(at + 2, word)
        elif sign in "$`":
            self._at = self._expansion(at, word)
        else:
            word.append(sign)
            self._at += 1

    def _quoted(self, at: int, word: list[str]) -> int:
        """Within double quotes; where it goes on behind them."""
        text = self._text
        while at < len(text) and text[at] != '"':
            if text[at] == "\\" and text[at + 1 : at + 2] in ("$", "`", '"', "\\", "\n"):
                word.append(text[at + 1].replace("\n", ""))
                at += 2
            elif text[at] in "$`":
                at = self._expansion(at, word)
            else:
                word.append(text[at])
                at += 1
        return at + 1

    def _expansion(self, at: int, word: list[str]) -> int:
        """Commands within are found too; what they would write is not known."""
        text = self._text
        if text.startswith("$(", at):
            end = _closing(text, at + 2, "(", ")")
            self._within(text[at + 2 : end])
        elif text.startswith("${", at):
            end = _closing(text, at + 2, "{", "}")
            inner = text[at + 2 : end]
            if "$(" in inner or "`" in inner:
                self._within(inner[min(place for place in (inner.find("$("), inner.find("`")) if place >= 0) :])
        elif text[at] == "`":
            end = _closing_quote(text, at + 1, "`")
            self._within(re.sub(r"\\([$`\\])", r"\1", text[at + 1 : end]))
        else:
            word.append(text[at])
            return at + 1
        word.append(text[at : end + 1])
        return end + 1

    def _within(self, text: str) -> None:
        self._found.extend(commands_in(text, self._depth + 1))

    def _redirect(self) -> None:
        text, at = self._text, self._at
        if self._word is not None and "".join(self._word).isdigit():
            self._word = None  # the number of a descriptor
        self._end_word()
        if text[at + 1 : at + 2] == "(":  # <( ) and >( )
            end = _closing(text, at + 2, "(", ")")
            self._within(text[at + 2 : end])
            self._command.words.append(text[at : end + 1])
            self._at = end + 1
            return
        found = re.compile(r"<<<|<<-?|&>>?|[<>]&|>>|>\||<>|[<>]").match(text, at)
        assert found
        self._redirected = found[0]
        self._at = found.end()

    def _end_word(self) -> None:
        if self._word is None:
            return
        word, self._word = "".join(self._word), None
        operator, self._redirected = self._redirected, ""
        if operator in ("<<", "<<-"):
            self._waiting.append((self._command, word, operator == "<<-"))
        elif operator == "<<<":
            self._command.given = word
        elif not operator:
            self._command.words.append(word)

    def _end_command(self) -> None:
        self._end_word()
        self._redirected = ""
        if self._command.words:
            self._found.append(self._command)
        self._command = _Command()

    def _read_documents(self) -> None:
        """The lines of here-documents are what a command reads, not commands; only a shell makes such of them."""
        for command, end, is_indented in self._waiting:
            lines: list[str] = []
            while self._at < len(self._text):
                stop = _find(self._text, "\n", self._at)
                line = self._text[self._at : stop]
                self._at = stop + 1
                if (line.lstrip("\t") if is_indented else line) == end:
                    break
                lines.append(line)
            command.given = "\n".join(lines)
        self._waiting.clear()


def _find(text: str, sign: str, start: int) -> int:
    found = text.find(sign, start)
    return len(text) if found < 0 else found


def _closing_quote(text: str, at: int, sign: str) -> int:
    while at < len(text) and text[at] != sign:
        at += 2 if text[at] == "\\" else 1
    return min(at, len(text))


def _closing(text: str, at: int, opening: str, closing: str) -> int:
    """Where the bracket that was opened before `at` is closed."""
    depth = 1
    while at < len(text):
        sign = text[at]
        if sign == "\\":
            at += 1
        elif sign in "'":
            at = _find(text, "'", at + 1)
        elif sign == '"':
            at = _closing_quote(text, at + 1, '"')
        elif sign == opening:
            depth += 1
        elif sign == closing:
            depth -= 1
            if not depth:
                return at
        at += 1
    return len(text)


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
