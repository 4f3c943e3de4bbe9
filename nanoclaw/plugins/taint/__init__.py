"""Taint: what others' text might be behind needs the owner's yes."""
