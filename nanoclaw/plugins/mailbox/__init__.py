"""The owner's own mailbox, as tools."""
