"""Signal: an account of the assistant's own, over signal-cli."""
