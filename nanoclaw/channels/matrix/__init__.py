"""Matrix, with encryption; nio is imported when the channel runs."""

from nanoclaw.channels.matrix.channel import Matrix

__all__ = ["Matrix"]
