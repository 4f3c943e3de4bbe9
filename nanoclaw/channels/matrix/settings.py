"""The settings of Matrix, and how an account is linked."""

from __future__ import annotations

from typing import NamedTuple

from nanoclaw.core.channel import Channel, ChannelHost, ChannelSpec, LinkHelp


class MatrixSettings(NamedTuple):
    """The assistant's Matrix account."""

    homeserver: str = ""  # address of the server, such as "https://matrix.example.org"
    user: str = ""  # account, such as "@bot:example.org"
    password: str = ""  # password, needed for the first login only


def make(settings: MatrixSettings, host: ChannelHost) -> Channel:
    from nanoclaw.channels.matrix.channel import Matrix

    return Matrix(settings, host)


LINK = LinkHelp(
    missing="""\
matrix is not configured yet. Make an account for the assistant on your homeserver, then put into config.toml
  [channels.matrix]
  homeserver = "https://matrix.example.org"
  user = "@assistant:example.org"
and NANOCLAW_MATRIX_PASSWORD=… into secrets.env (chmod 600), and run this again.""",
    where="{user}, which you invite to a room where you two are alone",
)

SPEC = ChannelSpec(
    make,
    MatrixSettings,
    needed=("homeserver", "user"),
    secrets=("password",),
    libraries=("nio", "vodozemac"),
    link=LINK,
)
