"""The offline page: one HTML file with everything in it."""
