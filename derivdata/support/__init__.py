"""Code for every layer: times, argument checks, notices, atomic files, forks."""
