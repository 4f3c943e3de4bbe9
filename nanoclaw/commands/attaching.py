"""`nanoclaw attach`: a terminal of a gateway on another machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nanoclaw.channels.attach import LAST, say
from nanoclaw.commands.talking import TerminalChat, run
from nanoclaw.core.errors import ConfigError
from nanoclaw.start.config import Config

if TYPE_CHECKING:
    from nanoclaw.commands.arguments import Options


def attach(config: Config, options: Options) -> int:
    """Talk until the person leaves; a connection that is lost comes again."""
    from nanoclaw.channels.socket.remote import checked

    checked(options.url)
    token = _token(options.token_file)
    config.home.mkdir(0o700, parents=True, exist_ok=True)  # what was typed is kept there, as for every terminal
    try:
        return run(_RemoteChat(config, options, token).talk())
    except _NotLetIn as refusal:
        raise ConfigError(str(refusal)) from None


def _token(name: str) -> str:
    if not name:
        raise ConfigError("attach needs --token-file FILE: `nanoclaw web token NAME`, on that machine, prints a token.")
    try:
        token = (path := Path(name).expanduser()).read_text("ascii").split()
        if path.stat().st_mode & 0o077:
            say(f"{path} holds a token and can be read by others: run chmod 600 {path}")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise ConfigError(f"the token in {name!r} cannot be read: {reason}.") from None
    if not token or not token[0].isprintable():
        raise ConfigError(f"there is no token in {name!r}.")
    return token[0]


class _NotLetIn(Exception):
    """The token is refused; a wrong one said again and again would keep others out."""


class _RemoteChat(TerminalChat):
    """With the gateway of another machine, again and again."""

    _next = "the connection is gone: trying again"

    def __init__(self, config: Config, options: Options, token: str) -> None:
        super().__init__(config, options)
        self._token = token

    async def _once(self) -> None:
        from nanoclaw.channels.socket.remote import attached
        from nanoclaw.channels.web_api import UnknownToken

        try:
            place = self._relay.place if self._relay else (self._options.session, LAST)
            async with attached(self._options.url, self._token, *place) as link:
                await self._attached(link)
        except UnknownToken as refusal:
            raise _NotLetIn(str(refusal)) from None
