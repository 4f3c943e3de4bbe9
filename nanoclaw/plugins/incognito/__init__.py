"""Incognito: talk of which nothing is kept."""
