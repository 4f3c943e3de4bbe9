"""The page: settings, the channel, the role of who is signed in, and /web."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from functools import cached_property, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from nanoclaw.core.channel import Channel
from nanoclaw.core.errors import ConfigError
from nanoclaw.core.messages import Address, Inbound
from nanoclaw.core.plugin import Command, Hears, Host, NamedTuple, Plugin, Reply, Said, Tx

if TYPE_CHECKING:
    from nanoclaw.plugins.page.channel import PageChannel
    from nanoclaw.plugins.page.sessions import SignIns
    from nanoclaw.plugins.page.tokens import ApiTokens

NAME = "page"
OFF = "The page is not on here: `nanoclaw web` starts it, or a table [page] in config.toml with the gateway."

USAGE = (
    "`nanoclaw web token NAME` makes a token, `nanoclaw web token --revoke NAME` ends it, `nanoclaw web tokens` lists;"
    " `nanoclaw web browsers` lists who is signed in, `nanoclaw web browser --revoke NUMBER` signs one out;"
    " `nanoclaw web guest NAME` makes a link to one conversation."
)


class PageSettings(NamedTuple):
    """The web page; this table, even an empty one, makes the gateway serve it."""

    address: str = "127.0.0.1"  # another than this machine's own needs a password
    port: int = 8787  # another one where that is taken
    hosts: tuple[str, ...] = ()  # further names of it, such as "home.example" of a reverse proxy
    password: str = ""  # lets a browser in like the link of `nanoclaw web`

    def check(self) -> None:
        try:
            is_own = ipaddress.ip_address(self.address).is_loopback
        except ValueError:
            raise ConfigError(f"page.address must be an address such as 127.0.0.1, not {self.address!r}.") from None
        if not is_own and len(self.password) < 12:
            raise ConfigError("page.address lets other machines in: set page.password, 12 characters or more.")
        if not 0 <= self.port < 65536:
            raise ConfigError(f"page.port must be a number up to 65535, not {self.port}.")


class Page(Plugin):
    name = NAME
    settings = PageSettings
    secrets = ("password",)
    migrations = (
        """CREATE TABLE page_browsers (  -- that are signed in
            id INTEGER PRIMARY KEY,
            sha256 TEXT NOT NULL UNIQUE,              -- of the cookie's value
            agent TEXT NOT NULL,
            made TEXT NOT NULL,
            used TEXT NOT NULL                        -- the day
        ) STRICT""",
        """CREATE TABLE page_lines (  -- that the history of a conversation does not have: commands, replies, failures
            id INTEGER PRIMARY KEY,
            session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
            place INTEGER NOT NULL,                   -- so many messages of the history stand before it
            kind TEXT NOT NULL,
            text TEXT NOT NULL,
            at TEXT NOT NULL
        ) STRICT;
        CREATE INDEX page_lines_of ON page_lines (session, id)""",
        """CREATE TABLE page_tokens (  -- of the API
            id INTEGER PRIMARY KEY,
            name TEXT NOT NULL UNIQUE,
            sha256 TEXT NOT NULL UNIQUE,
            made TEXT NOT NULL,
            used TEXT                                 -- the hour, NULL for never
        ) STRICT""",
        """CREATE TABLE page_files (  -- that were dropped into the page, kept for a day
            id TEXT PRIMARY KEY,
            name TEXT NOT NULL,
            mime TEXT NOT NULL,
            data BLOB NOT NULL,
            at TEXT NOT NULL
        ) STRICT;
        CREATE TABLE page_drafts (conversation TEXT PRIMARY KEY, text TEXT NOT NULL) STRICT""",
        """DELETE FROM page_lines;  -- their place was a count before
        ALTER TABLE page_lines RENAME COLUMN place TO after""",
        """ALTER TABLE page_browsers  -- only: the conversation of a guest, whose link has no agent until it is opened
        ADD COLUMN only TEXT NOT NULL DEFAULT ''""",
    )
    marks = (
        *(f"page_browsers.{one}" for one in ("sha256", "agent", "made", "used", "only")),
        *("page_lines.kind", "page_lines.at", "page_files.id", "page_files.mime", "page_files.at"),
        "page_drafts.conversation",
        *(f"page_tokens.{one}" for one in ("name", "sha256", "made", "used")),
    )

    def __init__(self, host: Host, settings: PageSettings) -> None:
        self._host, self._settings = host, settings
        self.public: PageChannel | None = None
        self.hears = {"on_message": Hears(channels=(NAME,))}

    @cached_property
    def _tokens(self) -> ApiTokens:
        from nanoclaw.plugins.page.tokens import ApiTokens

        return ApiTokens(self._host)

    @cached_property
    def _sign_ins(self) -> SignIns:
        from nanoclaw.plugins.page.sessions import SignIns

        return SignIns(self._host)

    def channels(self) -> Iterable[Channel]:
        if self._host.setting(NAME) is None or not self._host.is_gateway():
            return ()
        lacking = [name for name in ("starlette", "uvicorn", "h11", "nh3") if find_spec(name) is None]
        if lacking:
            from nanoclaw.installation import install_command

            raise ConfigError(f"the page needs {', '.join(lacking)}: {install_command(NAME)}")
        from nanoclaw.plugins.page.channel import PageChannel

        self.public = PageChannel(self._host, self._settings, self._sign_ins, self._tokens)
        return self.public, self.public.api

    def commands(self) -> Iterable[Command]:
        told = f"a link that opens the page in your browser, good for one browser and ten minutes; {USAGE}"
        return (Command("web", told, self._web, cli=True, private=True, part_of="status"),)

    async def _web(self, said: Said) -> Reply:
        match said.argument.split():
            case [] | ["--qr"]:
                pass
            case ["browsers"]:
                return self._sign_ins.listed()
            case ["browser", "--revoke", number]:
                return self._sign_ins.revoked(number, self.public.stream.wake if self.public else lambda: None)
            case ["tokens"]:
                return self._tokens.listed()
            case ["token", "--revoke", name] | ["token", name, "--revoke"]:
                return self._tokens.revoke(name)
            case ["token" | "browser" as what] | ["token" | "browser" as what, "--revoke"]:
                lack = "NAME" if what == "token" else "NUMBER"
                raise ConfigError(f"web {said.argument.strip()} lacks {lack}. Try nanoclaw web --help.")
            case ["token", *words]:
                return self._tokens.made(" ".join(words))
            case ["guest", *name] if self.public:
                return await self._guest(self.public, " ".join(name) or str(said.conversation))
            case ["guest", *_]:
                raise ConfigError(OFF)
            case _:
                raise ConfigError(f"web {said.argument.strip()} is not understood. Try nanoclaw web --help.")
        if self.public is None:
            raise ConfigError(OFF)
        await self.public.listening.wait()
        links = self.public.links()
        qr = [self.public.drawn(links[-1])] if said.argument.strip() else []
        return Reply("\n".join([*links, *qr]), {"url": links[0]})

    async def _guest(self, page: PageChannel, name: str) -> Reply:
        key = name if ":" in name else f"terminal:{name}"
        if key not in {one.key for one in self._host.conversations.all()}:
            raise ConfigError(f"there is no conversation {name!r}: /sessions lists those there are.")
        from nanoclaw.plugins.page.sessions import GUEST_DAYS

        links = page.links(await self._host.write(partial(self._sign_ins.invite, key)))
        told = f"It lets one browser read and write in {key} alone, for {GUEST_DAYS} days: `nanoclaw web browsers`."
        return Reply("\n".join([*links, told]), {"url": links[0], "conversation": key})

    # --- who is signed in --------------------------------------------------------------------------------------------

    def on_message(self, inbound: Inbound, tx: Tx) -> Inbound | None:
        """The role of the owner or of a guest, for what a browser that is signed in hands in, and for nothing else."""
        if self.public is None or inbound.address.channel != NAME or inbound.external_id not in self.public.admitted:
            return None
        conversation = self.conversation_of(inbound.address)
        if inbound.sender != "owner":
            return inbound._replace(role="guest", name="a guest", conversation=conversation)
        if access := self._host.get("access"):
            access.accounts.meet(tx, inbound.address, inbound.sender)
        return inbound._replace(role="owner", conversation=conversation)

    def conversation_of(self, address: Address) -> Address | None:
        if address.channel != NAME:
            return None
        channel, colon, chat = address.chat.partition(":")
        return Address(channel, chat) if colon else address
