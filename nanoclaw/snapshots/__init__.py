"""Folders before and after: lists their files, keeps copies of them, reports what is gone, and restores it."""
