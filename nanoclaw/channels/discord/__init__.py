"""Discord: a bot in private chats, and in the channels and threads of servers."""
