"""Path A: a pinned corpus becomes published token shards."""
