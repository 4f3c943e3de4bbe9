"""The keyring of the system (Secret Service, KWallet, macOS Keychain), asked within a time limit.

A keyring may wait for a person who unlocks it, or for a program of the desktop that hangs: it is asked in a thread that
nobody waits for beyond the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

SERVICE = "nanoclaw"
"""The name that all entries have in it."""

SECONDS, PERSONS_SECONDS = 10.0, 120.0
"""The longest wait for it: at a start, and where a person sits who may have to unlock it."""


class KeyringFailure(Exception):
    """Says in a sentence why a keyring cannot be used."""


class Entries(NamedTuple):
    """Values by name, and by name why there is none."""

    values: Mapping[str, str]
    lacks: Mapping[str, str]


def read(names: Iterable[str]) -> Entries:
    """The entries with these names, as far as they came in time. Raises nothing."""
    wanted, values, lacks = list(names), dict[str, str](), dict[str, str]()

    def look() -> None:
        ring = _ring()
        for name in wanted:
            value = ring.get_password(SERVICE, name)
            if value:
                values[name] = value
            else:
                lacks[name] = "it has no such entry"

    why = ""
    try:
        _within(SECONDS, look)
    except KeyringFailure as failure:
        why = str(failure)
    there = dict(values)  # a thread that is late changes nothing any more
    return Entries(there, {name: lacks.get(name, why) for name in wanted if name not in there})


def store(name: str, value: str) -> None:
    """Keep a value, in place of one with that name. Raises KeyringFailure."""

    def keep() -> bool:
        ring = _ring()
        ring.set_password(SERVICE, name, value)
        return bool(ring.get_password(SERVICE, name) == value)

    if not _within(PERSONS_SECONDS, keep):
        raise KeyringFailure("it keeps nothing (keyring is switched off on this machine)")


def delete(name: str) -> bool:
    """True if there was such an entry. Raises KeyringFailure."""

    def remove() -> bool:
        ring = _ring()
        if ring.get_password(SERVICE, name) is None:
            return False
        ring.delete_password(SERVICE, name)
        return True

    return _within(PERSONS_SECONDS, remove)


def _ring() -> Any:
    """The keyring that the person chose, or the best that is there of those that are safe."""
    import keyring.core

    if keyring.core._keyring_backend is None:
        keyring.core.init_backend(limit=keyring.core.recommended)
    return keyring.core.get_keyring()


def _within(seconds: float, work: Callable[[], T]) -> T:
    """The result of a work that is left alone when it takes too long. Raises KeyringFailure."""
    ended: SimpleQueue[tuple[T | None, Exception | None]] = SimpleQueue()

    def run() -> None:
        try:
            ended.put((work(), None))
        except Exception as error:  # of whichever backend there is
            ended.put((None, error))

    Thread(target=run, daemon=True, name="keyring").start()
    try:
        result, error = ended.get(timeout=seconds)
    except Empty:
        raise KeyringFailure(f"it did not answer within {seconds:.0f} s: unlock it, and try again") from None
    if error:
        raise KeyringFailure(_in_words(error)) from None
    return result  # type: ignore[return-value]


def _in_words(error: Exception) -> str:
    """One sentence about what went wrong; texts of backends are kept short."""
    kinds = {one.__name__ for one in type(error).__mro__}
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "keyring":
        return "the library for it is not installed"
    if "NoKeyringError" in kinds:
        return "this machine has none (no Secret Service, KWallet or Keychain that answers)"
    if "KeyringLocked" in kinds:
        return "it is locked: unlock it, and try again"
    said = " ".join(str(error).split())[:200]
    return f"{type(error).__name__}{': ' if said else ''}{said}"
