"""Who decides what to ask next."""
