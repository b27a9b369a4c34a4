"""Will it fit: what the stages of a run will write and hold, told before they do."""
