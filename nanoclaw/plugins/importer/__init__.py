"""Brings a person over from another assistant: files, memories, conversations, jobs and skills."""
