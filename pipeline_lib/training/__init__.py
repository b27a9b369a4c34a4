"""The parts that a training loop uses: datasets, batch order, loader. Only they load torch."""
