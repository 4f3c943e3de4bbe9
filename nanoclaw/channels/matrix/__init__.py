"""Matrix, with end-to-end encryption."""
