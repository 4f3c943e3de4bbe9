"""Forgetting for good, with ten minutes to undo it."""
