"""The questions and the door."""
