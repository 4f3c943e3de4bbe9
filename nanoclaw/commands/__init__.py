"""The commands of the command line: a table of all, and a module for each family, imported when it is asked for."""
