"""Messages of the owner's own programs, by `nanoclaw send` and by webhooks."""
