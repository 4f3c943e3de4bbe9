"""Pictures made ready for a model: opened safely, turned upright, shrunk, without metadata."""
