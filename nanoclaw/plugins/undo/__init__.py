"""Undo: what tools did, told and taken back."""
