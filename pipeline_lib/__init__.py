"""Deterministic, resumable preparation of language-model training data.

The floors, from the ground up. A module imports only what stands above it in this table, so
there are no circles, and the rules of floor 1 touch neither files nor sockets nor the clock.

    floor 0  ground
        errors records digest atomic lock engines signals machine table cachesite
    floor 1  rules (pure)
        recipe order selection visits sampling windows
        chat trees turns utterances verdicts turnparts cards registry sourcecode sample_schemas
    floor 2  matter: one outside thing each
        patience hub footers encoders trainers tokenizer parquet sources shards checkpoint
        saved segmented cachekey cache turnstore
        rowstream prose sample_rows sample_trees sample_dialogues sample_reasoning sample plans
    floor 3  work: composition
        pinned sameness staging stages lanes manifest published verify
        preparation progress prepare_data
        fetch acquire sizes preflight
        sourcerows sourcestore conversations mixture preferences
        encoding tokenrows tokenizercache chatcaches
    floor 4  seen by training
        datasets
"""

__version__ = "0.1.0"
