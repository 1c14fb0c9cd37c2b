"""`python -m app` is the footnote command."""

from app.cli import main

main()
