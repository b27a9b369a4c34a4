"""The Hugging Face Hub: revisions, verified files, cards, footers, retries."""
