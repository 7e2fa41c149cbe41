"""emi-bench."""
