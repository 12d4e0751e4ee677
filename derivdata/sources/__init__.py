"""Data sources: venues, archives, the synthetic market, and the service in front of them."""
