/* Sessions that end after ten minutes without use. The sessions are in an array and contain their
 * timers, so the raw wheel stores only 12 bytes per session. A use of a session stores one number,
 * its new deadline, and calls no function of the wheel. */

#include <punctual.h>
#include <stdio.h>
#include <string.h>

enum { SESSIONS = 1000, IDLE_S = 600 };

struct session {
  uint64_t ends_s;
  uint32_t generation; /* generation of the current entry in the wheel; changes when the session ends */
  bool open;
};

static struct session sessions[SESSIONS];

/* Returns whether an entry of the wheel is current, and writes the deadline of its session. */
static bool deadline(void *owner, uint32_t index, uint32_t generation, uint64_t *deadline) {
  const struct session *session = (const struct session *)owner + index;
  if (!session->open || session->generation != generation) return false;
  *deadline = session->ends_s;
  return true;
}

int main(void) {
  punctual_raw_timers table = {sessions, deadline, NULL};
  punctual_raw_wheel *wheel = punctual_raw_wheel_new(&table);
  punctual_raw_due due;
  unsigned ended = 0;
  uint32_t n;

  for (n = 0; n < SESSIONS; ++n) {
    sessions[n].open = true;
    sessions[n].ends_s = IDLE_S + n;
    punctual_raw_wheel_insert(wheel, sessions[n].ends_s, n, sessions[n].generation);
  }
  for (n = 0; n < SESSIONS; n += 2) sessions[n].ends_s += 10000; /* used: re-armed later */
  for (n = 1; n < SESSIONS; n += 4) {                            /* logged out */
    sessions[n].open = false;
    ++sessions[n].generation;
    punctual_raw_wheel_forget(wheel);
  }

  while (punctual_raw_wheel_pop_due(wheel, IDLE_S + SESSIONS, &due) == PUNCTUAL_OK) {
    sessions[due.index].open = false;
    ++sessions[due.index].generation;
    ++ended;
  }
  printf("%u sessions ended, %zu are still open\n", ended, punctual_raw_wheel_len(wheel));
  n = punctual_raw_wheel_len(wheel) == SESSIONS / 2 && ended == SESSIONS / 4 ? 0 : 1;
  punctual_raw_wheel_free(wheel);
  return (int)n;
}
