"""What operators look after: workers, shards, servers, and that nothing is broken."""
