"""Path B, second half: conversations become token files that training maps."""
