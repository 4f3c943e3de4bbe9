"""Reading what is left of a damaged SQLite file, and copies to go back to."""

UNSYNCED = 2
"""Transactions in a row that a store commits without waiting for the disk: where more are lost, it was no power cut."""
