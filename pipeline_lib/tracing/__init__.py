"""Jinja chat templates, rendered so that each character knows where it comes from."""
