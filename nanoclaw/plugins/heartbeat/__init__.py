"""A checklist that code looks at now and then, and that wakes the model only for what is due or has changed."""
