"""Rules: what the person pinned stands in every prompt, and what can be enforced is."""
