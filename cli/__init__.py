"""The command line: `postdate up` and its smaller sisters."""
