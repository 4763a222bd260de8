"""`punctual.golang.time`."""

from punctual.golang.time import *
