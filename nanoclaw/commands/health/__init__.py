"""Findings about a home and its machine for `nanoclaw doctor` and `nanoclaw audit`, each with what repairs it."""
