"""How fast the library is, beside named peers on the same bytes or arrays: ``python -m benchmarks``."""
