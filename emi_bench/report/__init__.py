"""Tables, figures, statistics, the comparison with published numbers and the claims, from what the store holds."""
