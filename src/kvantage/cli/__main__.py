"""`python -m kvantage.cli`."""

from kvantage.cli import main

main()
