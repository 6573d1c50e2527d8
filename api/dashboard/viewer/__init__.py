"""Who looks at a page: sign-in, session, password, and where a write comes from."""
