"""nanoclaw: one person, one assistant, one process."""

__version__ = "0.1.0"
