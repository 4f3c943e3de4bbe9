"""Promises that hold when the process is killed, the disk refuses or the power fails, at any system call of a day."""
