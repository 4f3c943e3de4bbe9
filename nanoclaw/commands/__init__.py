"""The commands of the command line, a module for each family; imported when it is asked for."""
