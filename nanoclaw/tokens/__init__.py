"""Tokens of texts and pictures, estimated."""
