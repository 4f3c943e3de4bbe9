"""Questions with options that the model asks its person."""
