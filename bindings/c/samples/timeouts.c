/* An event loop with a timeout of one second per request. Its clock is a number, so that the
 * program ends at once; a real program uses the milliseconds of CLOCK_MONOTONIC. */

#include <inttypes.h>
#include <punctual.h>
#include <stdio.h>

struct request {
  const char *name;
  punctual_key timeout;
  uint64_t answered_ms; /* time of the reply */
};

int main(void) {
  struct request requests[] = {{"quick", 0, 300}, {"lost", 0, UINT64_MAX}, {"slow", 0, 1700}};
  const size_t count = sizeof requests / sizeof *requests;
  punctual_wheel *timeouts = punctual_wheel_new();
  uint64_t now_ms = 0;
  int timed_out = 0;
  size_t n;

  for (n = 0; n < count; ++n)
    requests[n].timeout = punctual_wheel_insert(timeouts, now_ms + 1000 + n, &requests[n]);

  while (punctual_wheel_len(timeouts) > 0) {
    punctual_wheel_timer due;
    size_t budget = 1000; /* when it is used up, the loop serves its sockets */

    now_ms += 100; /* a real program calls poll() until punctual_wheel_next_wakeup */
    for (n = 0; n < count; ++n) {
      if (requests[n].answered_ms <= now_ms && punctual_wheel_remove(timeouts, requests[n].timeout, NULL) == PUNCTUAL_OK)
        printf("%s was answered in time\n", requests[n].name);
    }
    while (punctual_wheel_poll(timeouts, now_ms, &budget, &due) == PUNCTUAL_OK) {
      printf("%s timed out at %" PRIu64 " ms\n", ((struct request *)due.value)->name, due.deadline);
      ++timed_out;
    }
  }
  punctual_wheel_free(timeouts);
  return timed_out == 2 ? 0 : 1;
}
