"""Claims what is due, fires it at its target, and acks the outcome."""
