"""State of the program, for monitors."""
