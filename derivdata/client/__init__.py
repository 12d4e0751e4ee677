"""How a request becomes a table: transport and cache, windows, checked answers, record and replay."""
