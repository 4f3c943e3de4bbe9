"""Voice notes: quoted in the answer, which is spoken, too."""
