"""Files that other programs wrote, as the tests read them."""
