"""Reading what is left of a damaged SQLite file, and copies to go back to."""
