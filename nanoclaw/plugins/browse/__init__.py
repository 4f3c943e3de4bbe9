"""Browse: pages in a real browser, for what needs scripts, clicks or a login."""
