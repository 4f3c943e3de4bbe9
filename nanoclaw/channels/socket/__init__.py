"""Terminals that are attached to a running process through a Unix socket, and the client's side of it."""
