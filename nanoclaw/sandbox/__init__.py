"""Runs commands that see and reach little: by bubblewrap, or by Landlock and seccomp. Each module says its part;
`sandbox.Sandbox` is what is used. Empty, as `launch.py` starts with each command."""
