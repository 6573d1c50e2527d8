"""The dashboard: the account holder's pages, at /dashboard, rendered here, made live by htmx."""
