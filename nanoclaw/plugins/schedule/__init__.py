"""Reminders and tasks: what is to happen later."""
