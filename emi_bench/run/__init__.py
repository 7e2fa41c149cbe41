"""One run: its specification, the online loop, and what is measured on the way. Knows no Ray."""
