"""Deterministic, resumable preparation of language-model training data.

The floors, from the ground up (a module imports only from floors below its own):

    floor 4  seen by training   datasets
    floor 3  work               prepare_data  cache
    floor 2  matter             sources  tokenizer  shards  checkpoint  preflight ...
    floor 1  rules (pure)       recipe  order  selection  chat
    floor 0  ground             errors  records  digest  atomic  lock  engines
"""

__version__ = "0.1.0"
