"""Attention: what can wait is collected, and comes together at the hours that the person chose."""
