"""MCP: a client for servers of the Model Context Protocol."""
