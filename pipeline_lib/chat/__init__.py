"""Path B, first half: rows of data sets become checked conversations on disk and a mixture."""
