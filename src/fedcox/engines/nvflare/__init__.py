"""Centers on other machines, reached through NVIDIA FLARE."""
