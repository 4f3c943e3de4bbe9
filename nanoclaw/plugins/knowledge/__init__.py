"""Folders of Markdown, text and PDF that the person's questions are looked up in, each passage with its place."""
