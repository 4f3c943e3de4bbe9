"""What a person can do from the command line, a module for each family; imported when it is asked for."""
