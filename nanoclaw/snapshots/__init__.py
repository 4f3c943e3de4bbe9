"""Folders before and after: lists their files, keeps copies of them, tells what is gone, and puts it back."""
