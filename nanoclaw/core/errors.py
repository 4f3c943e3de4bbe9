"""Every exception raised on purpose. Each text says what is wrong and what to do, fit to be shown to a person.

NanoclawError
├── ConfigError            config, environment or usage: exit status 2
├── WorkspaceError         the person's folder: missing, not writable, disk full
├── StoreError             state.db: damaged, from a newer version
│   └── StoreBusy          another process owns it
├── ProviderError          a model did not answer
│   ├── ProviderRefused    asking again cannot help: wrong key, bad request, no quota
│   │   └── LimitReached   the person's own limit of money
│   ├── ProviderUnavailable  worth another try: 429, 5xx, timeouts, cut streams
│   │   └── CutOff         whoever asked has waited long enough
│   ├── CannotSee          the model refuses images, and another one sees them
│   └── ContextTooLong     the request outgrew the model's window
├── ToolError              a tool's way to tell the model what went wrong
│   └── Refused            the guard said no
├── SkillError             a skill that is broken, unknown or lacks something
├── ChannelError           a chat platform that does not do what it was asked
│   ├── ChannelUnavailable  it is in trouble, which says nothing of a message: 5xx, timeouts
│   │   └── Unreachable    there is no connection to it: whatever else were sent now would not arrive either
│   └── Undeliverable      asking again cannot help: no such chat, blocked by the person
└── ScheduleError          a time, interval or cron expression that no job can have
"""

from __future__ import annotations


class NanoclawError(Exception):
    """The base class; its text is a sentence for a person."""


class ConfigError(NanoclawError):
    pass


class WorkspaceError(NanoclawError):
    pass


class StoreError(NanoclawError):
    pass


class StoreBusy(StoreError):
    pass


class ProviderError(NanoclawError):
    pass


class ProviderRefused(ProviderError):
    pass


class LimitReached(ProviderRefused):
    pass


class ProviderUnavailable(ProviderError):
    """`retry_after` is the number of seconds the provider asked to wait, if it did."""

    def __init__(self, text: str, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.retry_after = retry_after


class CutOff(ProviderUnavailable):
    """Its asker has given up: what the model had read by then is paid all the same."""


class CannotSee(ProviderError):
    """The model refuses images, and another one that sees them is available."""


class ContextTooLong(ProviderError):
    """`window` is the number of tokens that the model takes in, if its provider named it."""

    def __init__(self, text: str, window: int | None = None) -> None:
        super().__init__(text)
        self.window = window


class ToolError(NanoclawError):
    pass


class Refused(ToolError):
    pass


class SkillError(NanoclawError):
    pass


class ChannelError(NanoclawError):
    """`retry_after` is the number of seconds the platform asked to wait, if it did."""

    def __init__(self, text: str, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.retry_after = retry_after


class ChannelUnavailable(ChannelError):
    pass


class Unreachable(ChannelUnavailable):
    pass


class Undeliverable(ChannelError):
    pass


class ScheduleError(NanoclawError):
    pass


FAULTS = (Exception, SystemExit, KeyboardInterrupt)
"""Raised by a plugin, tool or command these end its step, never the program; Ctrl-C arrives as a stop."""
