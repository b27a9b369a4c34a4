"""Path A: the run that turns a pinned corpus into published token shards."""
