"""Tool search: tools that have no room in the prompt are found by words, and run by name."""
