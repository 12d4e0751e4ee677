"""Options: listings, and quotes around a surface model with public parameters."""
