"""Time, memory, rounds and bytes of fedcox and of its rivals; see README.md."""
