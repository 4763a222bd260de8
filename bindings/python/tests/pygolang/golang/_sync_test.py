"""pygolang has tests in C++ here, which link its own library."""
