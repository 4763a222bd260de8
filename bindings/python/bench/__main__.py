"""`python -m bench`, run in the folder `bindings/python`."""

from bench import main

main()
