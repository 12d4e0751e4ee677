"""HTTP of the service: routes, keys, limits, queries and responses."""
