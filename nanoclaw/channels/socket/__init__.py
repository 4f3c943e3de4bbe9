"""Terminals that are attached to a running process through a Unix socket, and the terminal's side of such a line."""

from nanoclaw.channels.socket.far_side import talk
from nanoclaw.channels.socket.terminals import Terminals

__all__ = ["Terminals", "talk"]
