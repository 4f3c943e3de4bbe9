"""The gateway as a service of the person's account."""
