"""Who carries the questions."""
