"""Opening, walking and searching files beneath one folder, so that no link leads out of it."""
