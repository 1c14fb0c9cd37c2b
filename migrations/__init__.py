"""The database schema: SQL written out, forward only, one change a file."""
