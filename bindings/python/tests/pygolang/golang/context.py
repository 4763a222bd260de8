"""`punctual.golang.context`."""

from punctual.golang.context import *
