"""XMPP: an account of the assistant's own, in chats and in rooms."""
