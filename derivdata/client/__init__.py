"""Turn requests into tables: transport and cache, windows, checked responses, record and replay."""
