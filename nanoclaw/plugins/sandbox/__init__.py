"""Sandbox: commands see and reach the workspace, and little else."""
