"""Path B, second half: conversations become token files, which training maps into memory."""
