"""Large outputs, kept in files and shortened."""
