"""Models of services, of one's own servers, and inside the program."""
