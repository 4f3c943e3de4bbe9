"""Keeps secrets out of tool results, answers and the log."""
