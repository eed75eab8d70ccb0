"""`python -m kvantage`."""

from kvantage.cli import main

main()
