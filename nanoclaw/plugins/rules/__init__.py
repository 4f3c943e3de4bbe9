"""Rules: pinned rules are in every prompt, and are enforced where code can."""
