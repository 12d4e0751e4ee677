"""Data of the service: the store at the clock, windows, buckets and totals."""
