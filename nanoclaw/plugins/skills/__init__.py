"""Skills: know-how in folders with a SKILL.md, listed for the model and started by hand."""
