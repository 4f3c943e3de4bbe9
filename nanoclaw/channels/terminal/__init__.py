"""The interactive chat in a terminal; prompt_toolkit is imported nowhere else."""

from nanoclaw.channels.terminal.chat import OWN_COMMANDS, Terminal

__all__ = ["OWN_COMMANDS", "Terminal"]
