"""The offline sample: invented text in the exact schema of every registered source."""
