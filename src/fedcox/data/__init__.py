"""From hospitals' files to cohorts."""
