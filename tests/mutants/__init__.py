"""Small changes to scripts and worker, each of which some test must notice: `make mutants`."""
