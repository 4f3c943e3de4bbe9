"""Files: the tools that read, write and search files in the workspace."""
