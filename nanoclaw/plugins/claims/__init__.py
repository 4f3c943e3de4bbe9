"""Claims: answers that say more than was done."""
