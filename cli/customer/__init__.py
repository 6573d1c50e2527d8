"""The commands of a customer, over HTTP."""
