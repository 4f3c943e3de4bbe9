"""The plan card: what goes far is collected, shown once, and done after one yes."""
