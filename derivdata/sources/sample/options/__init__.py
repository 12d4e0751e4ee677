"""Options: what is listed when, quoted around a surface model whose parameters are public."""
