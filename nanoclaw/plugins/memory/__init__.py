"""Notes and facts in Markdown: noted, recalled, searched."""
