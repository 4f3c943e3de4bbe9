"""Files that come with messages, and files that go out with answers."""
