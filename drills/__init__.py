"""What happens between hospitals when something is killed: drills with real processes."""
