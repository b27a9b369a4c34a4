"""Will it fit: what a run will fetch, write and hold, told before it does."""
