"""Bundles: files of recorded responses. They are written during a fetch, verified when read, and replayed."""
