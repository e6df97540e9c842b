"""Files: put in place whole, read with care, followed, locked."""
