"""Titles of conversations."""
