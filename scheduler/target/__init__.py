"""Where a request may go: URLs, addresses, and the grammar of HTTP. Pure."""
