"""The Hugging Face Hub, and the only use of the network: revisions, verified files, retries."""
