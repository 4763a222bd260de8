"""`python -m bench`, from the folder above."""

from bench import main

main()
