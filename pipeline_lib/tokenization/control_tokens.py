"""The control tokens of tokenizers trained here: written down once, in this module."""

ENDOFTEXT, PAD = "<|endoftext|>", "<|pad|>"
IM_START, IM_SEP, IM_END = "<|im_start|>", "<|im_sep|>", "<|im_end|>"
CONTROL_TOKENS = (ENDOFTEXT, PAD, IM_START, IM_SEP, IM_END)
"""End of a document, padding, and the three marks of a turn. A trained tokenizer gives them the
ids 0 to 4, in this order."""
