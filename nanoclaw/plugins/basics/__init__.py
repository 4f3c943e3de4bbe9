"""Commands about a conversation and its model."""
