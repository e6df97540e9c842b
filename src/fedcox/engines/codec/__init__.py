"""Questions and replies as bytes, and back: a closed list of types, checked on both sides."""
