"""The control tokens of tokenizers that are trained here; no other module spells them."""

ENDOFTEXT, PAD = "<|endoftext|>", "<|pad|>"
IM_START, IM_SEP, IM_END = "<|im_start|>", "<|im_sep|>", "<|im_end|>"
CONTROL_TOKENS = (ENDOFTEXT, PAD, IM_START, IM_SEP, IM_END)
"""End of a document, padding, and the three marks of a turn. In a trained tokenizer they have the
ids 0 to 4, in this order."""
