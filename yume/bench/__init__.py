"""Benches: what Yume's own code does on cases and simulated worlds that others can check."""
