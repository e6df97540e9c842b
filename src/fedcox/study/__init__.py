"""One study, start to end: its file, its plan, its fit and what may be inferred."""
