"""The fields of requests, queries and answers: how each is read, judged and shown."""
