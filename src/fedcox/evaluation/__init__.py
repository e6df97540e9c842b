"""How good, against what."""
