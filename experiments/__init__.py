"""The paper, rerun: stored results, and the tables made from them."""
