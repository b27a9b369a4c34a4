"""Data sets on disk: which there are, what they weigh, how they get there, what seals them."""
