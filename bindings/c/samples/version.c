/* Prints the version of the library that is loaded; fails if it is not the one of the header. */

#include <punctual.h>
#include <stdio.h>

int main(void) {
  puts(punctual_version_string());
  return punctual_version() == PUNCTUAL_VERSION ? 0 : 1;
}
