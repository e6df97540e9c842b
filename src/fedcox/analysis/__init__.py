"""One study, start to end."""
