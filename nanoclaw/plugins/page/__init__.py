"""The web page: a channel, and the server that brings it into a browser."""
