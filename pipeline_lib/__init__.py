"""Deterministic, resumable preparation of language-model training data.

The floors, from the ground up. A module imports only what stands above it in this table, so
there are no circles, and the rules of floor 1 touch neither files nor sockets nor the clock.
What both paths share lies flat in this folder; a name with a slash is the folder that holds
the modules behind it.

    floor 0  ground
        errors records digest engines signals machine table
        durable/ syscalls folders atomic appender
        ./ lock
        caches/ cachesite
    floor 1  rules (pure)
        recipe order selection chat letters
        preparing/ visits
        reading/ sampling windows
        chats/ trees turns utterances verdicts turnparts sourcecode
        remote/ cards
        downloads/ registry
        sampledata/ sample_schemas
        fit/ density
    floor 2  matter: one outside thing each
        remote/ patience hub footers
        ./ encoders trainers tokenizer parquet foldersource sources shards checkpoint
        downloads/ saved
        caches/ segmented cachekey
        ./ cache
        chats/ turnstore
        downloads/ rowstream jsonlines
        sampledata/ prose sample_rows sample_trees sample_dialogues sample_reasoning sample
        downloads/ plans
    floor 3  work: composition
        preparing/ pinned sameness staging stages documents lanes manifest
        reading/ published
        preparing/ tokencheck verify origin preparation progress
        ./ prepare_data
        downloads/ fetch acquire sizes
        chats/ sourcerows sourcestore conversations mixture preferences
        caches/ encoding tokenrows tokenizercache chatcaches
        fit/ expected corpus made writes holds report
        ./ preflight
    floor 4  seen by training
        datasets
"""

__version__ = "0.1.0"
