"""Fetchers: one module per family of endpoints, one function per table."""
