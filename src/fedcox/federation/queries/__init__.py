"""One file per question a hospital may be asked."""
