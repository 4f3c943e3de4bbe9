"""Looking inside: what a request is made of, and why the last answer is as it is."""
