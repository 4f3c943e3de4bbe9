"""Plan mode: a plan is shown, and nothing changed before the person has approved it."""
