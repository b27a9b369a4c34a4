"""Turns to token ids: the chat template."""
