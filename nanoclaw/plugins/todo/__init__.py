"""To-do list of a longer task, kept by the model and watched by the person."""
