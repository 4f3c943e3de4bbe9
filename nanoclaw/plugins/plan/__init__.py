"""Answers that say nothing: NO_REPLY and HEARTBEAT_OK."""
