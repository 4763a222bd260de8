/* Prints the version of the loaded library; fails if it differs from the version of the header. */

#include <punctual.h>
#include <stdio.h>

int main(void) {
  puts(punctual_version_string());
  return punctual_version() == PUNCTUAL_VERSION ? 0 : 1;
}
