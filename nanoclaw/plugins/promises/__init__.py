"""Promises: what the assistant says it will do later becomes a job, or is taken back."""
