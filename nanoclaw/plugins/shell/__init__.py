"""Shell: the tool that runs commands in the workspace."""
