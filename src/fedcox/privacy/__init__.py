"""What may leave a hospital, and under which protection."""
