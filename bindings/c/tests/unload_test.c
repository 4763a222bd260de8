/* dlclose with armed timers: the library, which has the code of its threads, stays loaded. The
 * argument is the path of the library. */

#define _POSIX_C_SOURCE 200809L

#include "check.h"

#include <dlfcn.h>
#include <punctual.h>
#include <string.h>
#include <unistd.h>

static int pipe_end;

static void write_byte(void *argument) {
  (void)argument;
  CHECK(write(pipe_end, "!", 1) == 1);
}

/* Finds a function. ISO C cannot cast a void * to a function pointer, so this copies the bytes. */
static void find(void *library, const char *name, void *function) {
  void *address = dlsym(library, name);
  CHECK(address != NULL);
  memcpy(function, &address, sizeof address);
}

int main(int count, char **arguments) {
  punctual_timer *(*after_func)(int64_t, punctual_function, void *, punctual_function);
  void (*timer_free)(punctual_timer *);
  uint32_t (*version)(void);
  punctual_timer *timer;
  void *library;
  int pipes[2];
  char byte;
  CHECK(count == 2);
  library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  CHECK(library != NULL);
  find(library, "punctual_after_func", &after_func);
  find(library, "punctual_timer_free", &timer_free);
  find(library, "punctual_version", &version);
  CHECK(version() == PUNCTUAL_VERSION);
  CHECK(pipe(pipes) == 0);
  pipe_end = pipes[1];
  timer = after_func(20000000, write_byte, NULL, NULL);
  CHECK(timer != NULL);
  CHECK(dlclose(library) == 0);
  CHECK(read(pipes[0], &byte, 1) == 1 && byte == '!');
  timer_free(timer); /* its code is still loaded */
  printf("ok dlclose_leaves_armed_timers_alone\n");
  return 0;
}
