"""How fast the library is, next to named peers on the same bytes or arrays: ``python -m benchmarks``."""
