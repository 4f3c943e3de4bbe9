"""The interactive chat in a terminal; prompt_toolkit is imported nowhere else."""
