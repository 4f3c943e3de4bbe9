"""Helpers: parts of the work are done in conversations of their own."""
