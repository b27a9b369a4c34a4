"""Will it fit? Network, disk and memory of a run, predicted before it begins."""
