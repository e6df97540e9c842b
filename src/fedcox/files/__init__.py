"""Files: put in place whole, read with care, followed, locked; and folders as lists."""
