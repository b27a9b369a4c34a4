"""The Hub, and nothing else that is remote: revisions, verified files, retries, card globs."""
