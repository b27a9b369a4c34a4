"""The offline sample: every data set in its exact schema, made without a network."""
