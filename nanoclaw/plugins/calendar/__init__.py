"""The owner's calendar, on a CalDAV server."""
