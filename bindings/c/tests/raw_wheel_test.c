/* Tests of punctual_raw_wheel, with sessions that contain their timers. */

#include "check.h"

#include <punctual.h>
#include <string.h>

enum { SESSIONS = 5000 };

struct session {
  uint64_t deadline;
  uint32_t generation;
  uint32_t order;
  bool armed;
};

struct sessions {
  struct session all[SESSIONS];
  punctual_raw_wheel *wheel;
  uint32_t armings;
  bool use_wheel; /* whether the callback uses the wheel */
  punctual_status refused;
};

static bool deadline(void *owner, uint32_t index, uint32_t generation, uint64_t *tick) {
  struct sessions *sessions = owner;
  struct session *session = &sessions->all[index];
  if (sessions->use_wheel) {
    sessions->refused = punctual_raw_wheel_insert(sessions->wheel, 1, 1, 1);
    CHECK(punctual_raw_wheel_len(sessions->wheel) == 0);
    CHECK(punctual_raw_wheel_forget(sessions->wheel) == PUNCTUAL_REENTERED);
    CHECK(punctual_raw_wheel_pop_due(sessions->wheel, 1, NULL) == PUNCTUAL_REENTERED);
    CHECK(punctual_raw_wheel_next_wakeup(sessions->wheel, NULL) == PUNCTUAL_REENTERED);
    CHECK(punctual_raw_wheel_clear(sessions->wheel) == PUNCTUAL_REENTERED);
  }
  if (!session->armed || session->generation != generation) return false;
  *tick = session->deadline;
  return true;
}

static uint32_t order(void *owner, uint32_t index) { return ((struct sessions *)owner)->all[index].order; }

static struct sessions *open_sessions(bool ordered) {
  struct sessions *sessions = calloc(1, sizeof *sessions);
  punctual_raw_timers table;
  table.owner = sessions;
  table.deadline = deadline;
  table.order = ordered ? order : NULL;
  sessions->wheel = punctual_raw_wheel_new(&table);
  CHECK(sessions->wheel != NULL);
  return sessions;
}

static void close_sessions(struct sessions *sessions) {
  punctual_raw_wheel_free(sessions->wheel);
  free(sessions);
}

static void arm(struct sessions *sessions, uint32_t index, uint64_t tick) {
  struct session *session = &sessions->all[index];
  bool was_armed = session->armed;
  session->order = ++sessions->armings;
  if (was_armed && tick > session->deadline) { /* re-armed later: no call is needed */
    session->deadline = tick;
    return;
  }
  session->deadline = tick;
  if (was_armed) ++session->generation;
  session->armed = true;
  CHECK(punctual_raw_wheel_insert(sessions->wheel, tick, index, session->generation) == PUNCTUAL_OK);
  if (was_armed) CHECK(punctual_raw_wheel_forget(sessions->wheel) == PUNCTUAL_OK);
}

static void cancel(struct sessions *sessions, uint32_t index) {
  struct session *session = &sessions->all[index];
  if (!session->armed) return;
  session->armed = false;
  ++session->generation;
  CHECK(punctual_raw_wheel_forget(sessions->wheel) == PUNCTUAL_OK);
}

static void fired(struct sessions *sessions, const punctual_raw_due *due) {
  struct session *session = &sessions->all[due->index];
  CHECK(session->armed && session->generation == due->generation && session->deadline == due->deadline);
  session->armed = false;
  ++session->generation;
}

static void sessions_are_cancelled_rearmed_and_fire(void) {
  struct sessions *sessions = open_sessions(true);
  punctual_raw_due due;
  uint64_t tick = 0;
  arm(sessions, 0, 100);
  arm(sessions, 1, 200);
  arm(sessions, 2, 300);
  arm(sessions, 3, 300);
  CHECK(punctual_raw_wheel_len(sessions->wheel) == 4);
  arm(sessions, 0, 300); /* re-armed later: fires after 2 and 3 */
  cancel(sessions, 1);
  CHECK(punctual_raw_wheel_next_wakeup(sessions->wheel, &tick) == PUNCTUAL_OK && tick <= 300);
  CHECK(punctual_raw_wheel_next_deadline(sessions->wheel, &tick) == PUNCTUAL_OK && tick == 300);
  CHECK(punctual_raw_wheel_pop_due(sessions->wheel, 299, &due) == PUNCTUAL_IDLE);
  CHECK(punctual_raw_wheel_pop_due(sessions->wheel, 300, &due) == PUNCTUAL_OK && due.index == 2);
  fired(sessions, &due);
  CHECK(punctual_raw_wheel_pop_due(sessions->wheel, 300, &due) == PUNCTUAL_OK && due.index == 3);
  fired(sessions, &due);
  CHECK(punctual_raw_wheel_pop_due(sessions->wheel, 300, &due) == PUNCTUAL_OK && due.index == 0);
  fired(sessions, &due);
  CHECK(punctual_raw_wheel_pop_due(sessions->wheel, 300, &due) == PUNCTUAL_IDLE);
  CHECK(punctual_raw_wheel_len(sessions->wheel) == 0);
  CHECK(punctual_raw_wheel_next_deadline(sessions->wheel, &tick) == PUNCTUAL_IDLE);
  close_sessions(sessions);
}

static void random_sessions_fire_in_order_and_once(bool ordered) {
  struct sessions *sessions = open_sessions(ordered);
  uint64_t seed = 7, now = 0, last = 0;
  uint32_t last_order = 0;
  size_t armed = 0, n;
  int step;
  for (step = 0; step < 100000; ++step) {
    uint32_t index, delay;
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    index = (uint32_t)(seed >> 33) % SESSIONS;
    delay = (uint32_t)(seed >> 40) % 10000;
    if (step % 3 == 0)
      cancel(sessions, index);
    else
      arm(sessions, index, now + delay);
    if (step % 100 == 99) {
      punctual_raw_due due;
      size_t budget = 100;
      now += 100;
      last = 0;
      while (punctual_raw_wheel_poll(sessions->wheel, now, &budget, &due) == PUNCTUAL_OK) {
        uint32_t number = sessions->all[due.index].order;
        CHECK(due.deadline <= now && due.deadline >= last);
        CHECK(!ordered || due.deadline > last || number > last_order);
        last = due.deadline;
        last_order = number;
        fired(sessions, &due);
      }
    }
  }
  for (n = 0; n < SESSIONS; ++n) armed += sessions->all[n].armed;
  CHECK(punctual_raw_wheel_len(sessions->wheel) == armed);
  while (armed > 0) {
    punctual_raw_due due;
    CHECK(punctual_raw_wheel_pop_due(sessions->wheel, UINT64_MAX, &due) == PUNCTUAL_OK);
    fired(sessions, &due);
    --armed;
  }
  CHECK(punctual_raw_wheel_pop_due(sessions->wheel, UINT64_MAX, NULL) == PUNCTUAL_IDLE);
  CHECK(punctual_raw_wheel_memory(sessions->wheel) < 1024 * 1024);
  close_sessions(sessions);
}

static void random_sessions_with_an_order(void) { random_sessions_fire_in_order_and_once(true); }
static void random_sessions_without_an_order(void) { random_sessions_fire_in_order_and_once(false); }

static void a_callback_that_uses_its_wheel_is_refused(void) {
  struct sessions *sessions = open_sessions(false);
  punctual_raw_due due;
  arm(sessions, 0, 10);
  sessions->use_wheel = true;
  CHECK(punctual_raw_wheel_pop_due(sessions->wheel, 10, &due) == PUNCTUAL_OK && due.index == 0);
  CHECK(sessions->refused == PUNCTUAL_REENTERED);
  sessions->use_wheel = false;
  CHECK(punctual_raw_wheel_len(sessions->wheel) == 0);
  CHECK(punctual_raw_wheel_clear(sessions->wheel) == PUNCTUAL_OK);
  close_sessions(sessions);
}

static void null_is_an_error(void) {
  punctual_raw_timers table = {NULL, NULL, NULL};
  size_t budget = 1;
  CHECK(punctual_raw_wheel_new(NULL) == NULL);
  CHECK(punctual_raw_wheel_new(&table) == NULL);
  CHECK(punctual_raw_wheel_insert(NULL, 1, 1, 1) == PUNCTUAL_NULL);
  CHECK(punctual_raw_wheel_forget(NULL) == PUNCTUAL_NULL);
  CHECK(punctual_raw_wheel_pop_due(NULL, 1, NULL) == PUNCTUAL_NULL);
  CHECK(punctual_raw_wheel_poll(NULL, 1, &budget, NULL) == PUNCTUAL_NULL);
  CHECK(punctual_raw_wheel_next_deadline(NULL, NULL) == PUNCTUAL_NULL);
  CHECK(punctual_raw_wheel_next_wakeup(NULL, NULL) == PUNCTUAL_NULL);
  CHECK(punctual_raw_wheel_len(NULL) == 0 && punctual_raw_wheel_memory(NULL) == 0);
  CHECK(punctual_raw_wheel_clear(NULL) == PUNCTUAL_NULL);
  punctual_raw_wheel_free(NULL);
}

int main(void) {
  RUN(sessions_are_cancelled_rearmed_and_fire);
  RUN(random_sessions_with_an_order);
  RUN(random_sessions_without_an_order);
  RUN(a_callback_that_uses_its_wheel_is_refused);
  RUN(null_is_an_error);
  return 0;
}
