"""Chat apps that config.toml has a table for."""
