"""The channel protocol: one class per platform, known to the configuration by a `ChannelSpec`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, Protocol, Self, runtime_checkable
from urllib.parse import quote, unquote

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.events import Event
from nanoclaw.core.messages import Address, Attachment, Inbound, Outbound
from nanoclaw.named_tuple import NamedTuple
from nanoclaw.redaction import Redactor, smells_of_secret

Deliver = Callable[[Inbound], Awaitable[str | None]]
"""Passes a message on; returns once it is stored, so that the platform may be told "received"."""

Ids = Annotated[tuple[str, ...], int]
"""A setting with a list of stable ids, which may also be written as numbers: 555 is "555"."""

TERMINAL = "terminal"  # the channel that only the owner can use
MAIN = Address(TERMINAL, "main")  # its usual conversation

UNVERIFIED = "unverified:"
"""Prefix of an id that its platform does not verify, such as the sender of a mail that anybody may have written."""


class Hints(NamedTuple):
    """Abilities of the platform; the prompt, the splitter, delivery, conversations and growing answers read them.

    `length` of one message and `caption` of a file are in `units`; a `length` of 0 is no limit, a `caption` of 0 means
    that a file stands alone. `files` is how many one message holds, `file_bytes` the largest that can be sent; where
    either is 0, none can. An answer grows only where there are `edits`; each of the `threads` of a chat is a
    conversation of its own. With `bursts`, messages that follow within a moment are answered as one. `remark` is what
    else the model should know, a sentence. `stays` is False if nobody is there for an answer that comes much later: one
    question, one answer. With `notices` the program's are read beside the answer.
    """

    length: int = 0
    units: Literal["characters", "utf-16", "bytes"] = "characters"
    markup: Literal["plain", "markdown"] = "plain"
    caption: int = 0
    files: int = 1
    file_bytes: int = 0
    edits: bool = False
    threads: bool = False
    buttons: bool = False
    remark: str = ""
    stays: bool = True
    bursts: bool = True
    notices: bool = False


class Place(NamedTuple):
    """A place on a platform: as text, the `chat` of an Address. `thread` is a topic or thread within
    the chat, `person` whose conversation it is where several talk, each '' for none."""

    chat: str
    thread: str = ""
    person: str = ""

    def __str__(self) -> str:
        parts = [quote(part, safe="!$#@:+-_.~=") for part in (self.chat, self.thread, self.person)]
        return "/".join(parts).rstrip("/")

    @classmethod
    def of(cls, text: str) -> Self:
        chat, thread, person = (*map(unquote, text.split("/")), "", "")[:3]
        return cls(chat, thread, person)


class Channel(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def hints(self) -> Hints: ...

    @property
    def alive(self) -> datetime | None:
        """The last sign of life of the other side, such as a completed poll; None before the first."""

    async def run(self, deliver: Deliver) -> None:
        """Receive until cancelled or until the person leaves. Raises ChannelError, or any other exception, if the
        connection is lost: the caller waits and runs it again, longer each time until `alive` changes."""

    def serves(self, outbound: Outbound) -> bool:
        """True if somebody is there now to receive it; if not, it waits without an attempt."""

    async def send(self, outbound: Outbound) -> str:
        """Deliver and return the platform's message id. Raises any exception to have it retried later."""

    def show(self, address: Address, event: Event) -> None:
        """Show what a turn is doing, as far as the hints allow. Must not raise and must not block."""


@runtime_checkable
class Checks(Protocol):
    """A channel that can check its login without being run."""

    async def check(self) -> str:
        """The login, such as the bot's name. Raises ChannelError that says what is wrong and what to do. Leaves no
        connection open."""


@runtime_checkable
class Proves(Protocol):
    """A channel whose platform must be tested before what it says about a sender is trusted."""

    @property
    def proof(self) -> tuple[bool, str]:
        """True if the platform passed that test, and a sentence about it, '' for nothing to say."""

    async def prove(self, *, anew: bool = False) -> tuple[bool, str]:
        """Run the test if it is due, or in any case with `anew`, and keep the result. The sentence names failures."""


@runtime_checkable
class Holds(Protocol):
    """A channel whose platform holds the files that came with a message until they are asked for."""

    async def fetch(self, attachment: Attachment, most: int) -> bytes:
        """The file, of at most a number of bytes. Raises Undeliverable for one that is larger, or gone, and
        ChannelError if another try may help."""


class ChannelAccess:
    """The people of a channel, as far as the channel itself must know them. By default nobody is known."""

    def is_known(self, sender: str) -> bool:
        """True for people with access, whose invitations are accepted."""
        return False

    def awaits_code(self) -> bool:
        """True while the owner may write the code of `nanoclaw link`, and so may have to invite the assistant."""
        return False

    async def invited_by(self, sender: str) -> None:
        """A stranger invites the assistant, perhaps to ask to be let in."""

    def owners_chats(self) -> Sequence[str]:
        """Chats that the owner has alone with the assistant."""
        return ()


class ChannelHost(NamedTuple):
    """The surroundings of a channel. `folder` is its own, not made yet; `most_bytes` of a file are taken
    or sent; `menu` are the commands with their help; `access` knows who is let in; `redact` hides what it is given by
    `redact.add(token)`: a login that came while it ran."""

    folder: Path
    clock: Callable[[], datetime]
    most_bytes: int = 20_000_000
    menu: Mapping[str, str] = MappingProxyType({})
    access: ChannelAccess = ChannelAccess()
    redact: Redactor = Redactor()


class LinkHelp(NamedTuple):
    """Texts of `nanoclaw link NAME`. In `where`, {who} is the login of the channel, other names are settings."""

    missing: str
    """A sentence to show if the channel is not configured."""
    where: str
    """To whom to send the code."""
    steps: str = ""
    """Steps to get the secret that is then asked for."""
    asks: str = ""
    """The setting with that secret, '' if none is asked for."""
    looks: str = ""
    """Pattern of the secret, which `shape` says in words."""
    shape: str = ""


class ChannelSpec(NamedTuple):
    """A channel as the configuration knows it, before it is made; an entry point "nanoclaw.channels" can be one.

    Each of its `secrets` can also come from the environment, as NANOCLAW_NAME_KEY.
    """

    make: Callable[[Any, ChannelHost], Channel]
    """Raises ConfigError for settings that cannot be right. Connects to nothing."""
    settings: type | None = None
    """A NamedTuple with defaults: the keys of [channels.NAME] besides those that say who is let in. None: the channel
    is given the table as it is."""
    needed: tuple[str, ...] = ()
    """Settings that it needs to run; without the first of them it counts as not configured."""
    secrets: tuple[str, ...] = ()
    """Settings that must never show; without `settings`, all whose names suggest it."""
    libraries: tuple[str, ...] = ()
    """Libraries that the package's extra NAME installs."""
    ids: Literal["any", "numbers", "addresses"] = "any"
    """The kind of stable ids of people; in addresses upper and lower case are the same."""
    link: LinkHelp | None = None
    is_tried: bool = False
    """Its channel `Proves` that the platform can be trusted about senders: `nanoclaw link` tests it."""
    needs_page: bool = False
    """Messages come through the server of [page]."""


def secret_variable(channel: str, key: str) -> str:
    """The environment variable, or line of secrets.env, with a secret of a channel."""
    return f"NANOCLAW_{channel.upper()}_{key.upper()}"


class ChannelTable(NamedTuple):
    """[channels.NAME]: the channel's spec and its own `settings`, or its table where it declares none."""

    name: str
    spec: ChannelSpec
    settings: Any
    table: Mapping[str, Any]

    @property
    def lacks(self) -> str:
        """The first setting that is needed and missing; '' for none."""
        return next((key for key in self.spec.needed if not getattr(self.settings, key)), "")

    @property
    def is_configured(self) -> bool:
        return not self.lacks or self.lacks != self.spec.needed[0]

    @property
    def secrets(self) -> dict[str, str]:
        """Settings that must never show, with their values."""
        if self.spec.settings:
            return {key: str(getattr(self.settings, key)) for key in self.spec.secrets}
        return {key: text for key, text in self.settings.items() if isinstance(text, str) and smells_of_secret(key)}

    def made(self, host: ChannelHost) -> Channel:
        """The channel itself. Raises ConfigError for what is missing, or not installed."""
        from importlib.util import find_spec

        if not all(map(find_spec, self.spec.libraries)):
            from nanoclaw.installation import install_command

            raise ConfigError(f"[channels.{self.name}] needs more libraries: {install_command(self.name)}")
        if key := self.lacks:
            secret = f", or {secret_variable(self.name, key)} into secrets.env" if key in self.spec.secrets else ""
            file = host.folder.with_name("config.toml")
            raise ConfigError(f"{file}: [channels.{self.name}] lacks {key}: put it there{secret}.")
        return self.spec.make(self.settings, host)
