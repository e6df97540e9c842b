"""Attacks on what a fit sends: how many patients whoever runs it can read off the replies."""
