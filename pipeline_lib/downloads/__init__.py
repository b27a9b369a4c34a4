"""Data sets: the registry's entries, plans, sizes, fetching, and the sealed copies on disk."""
