"""The HTTP client: connections to targets, requests and answers. It knows nothing of the store."""
