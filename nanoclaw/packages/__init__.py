"""Folders of files that others made: read safely, shown in full, pinned by a hash, imported as they were read."""
