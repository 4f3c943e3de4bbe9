"""One archive of everything, and the way back from it."""
