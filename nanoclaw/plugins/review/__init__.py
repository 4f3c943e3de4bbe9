"""The evening review: what of a day belongs into memory, proposed and written only after a yes."""
