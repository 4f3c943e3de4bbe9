"""Pages of the net read, and the net searched."""
