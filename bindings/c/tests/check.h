/* CHECK(condition): if the condition is false, prints the location and aborts. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) {                                                             \
      fprintf(stderr, "%s:%d: %s: not true: %s\n", __FILE__, __LINE__, __func__, #condition); \
      abort();                                                                      \
    }                                                                               \
  } while (0)

/* Runs a test and prints its name. */
#define RUN(test)          \
  do {                     \
    test();                \
    printf("ok %s\n", #test); \
  } while (0)

#endif
