"""What a training loop sees: datasets, batch order, loader. Torch lives here."""
