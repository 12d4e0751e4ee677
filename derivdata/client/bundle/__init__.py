"""A bundle as a file: written while answers come, read with distrust, replayed in their place."""
