"""`punctual.golang.sync`."""

from punctual.golang.sync import *
