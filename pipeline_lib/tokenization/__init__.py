"""Text to token ids: tokenizers, their encoders, and BPE training."""
