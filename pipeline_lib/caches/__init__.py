"""Path B, second half: conversations become token caches, each under a key of named parts."""
