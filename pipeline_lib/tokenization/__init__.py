"""Text to token ids: tokenizers, the encoders behind them, and BPE training."""
