/* Tests of punctual_wheel in C. */

#include "check.h"

#include <punctual.h>
#include <string.h>

static void *number(uintptr_t n) { return (void *)n; }

static void the_version_equals_the_version_of_the_header(void) {
  char text[32];
  CHECK(punctual_version() == PUNCTUAL_VERSION);
  snprintf(text, sizeof text, "%d.%d.%d", PUNCTUAL_VERSION_MAJOR, PUNCTUAL_VERSION_MINOR, PUNCTUAL_VERSION_PATCH);
  CHECK(strcmp(punctual_version_string(), text) == 0);
}

static void every_status_has_a_description(void) {
  int status;
  for (status = PUNCTUAL_OK; status <= PUNCTUAL_PANICKED; ++status)
    CHECK(strcmp(punctual_strerror(status), punctual_strerror(-1)) != 0);
  CHECK(strcmp(punctual_strerror(12345), punctual_strerror(-1)) == 0);
}

static void timers_fire_in_the_order_of_their_deadlines(void) {
  punctual_wheel *wheel = punctual_wheel_new();
  punctual_wheel_timer due;
  uint64_t tick = 0;
  punctual_key slow = punctual_wheel_insert(wheel, 1000, "slow");
  punctual_key idle = punctual_wheel_insert(wheel, 5000, "idle");
  punctual_key tied = punctual_wheel_insert(wheel, 1000, "tied");
  CHECK(slow != PUNCTUAL_NO_KEY && idle != PUNCTUAL_NO_KEY && slow != idle);
  CHECK(punctual_wheel_len(wheel) == 3);
  CHECK(punctual_wheel_next_deadline(wheel, &tick) == PUNCTUAL_OK && tick == 1000);
  CHECK(punctual_wheel_next_wakeup(wheel, &tick) == PUNCTUAL_OK && tick <= 1000);

  CHECK(punctual_wheel_pop_due(wheel, 999, &due) == PUNCTUAL_IDLE);
  CHECK(punctual_wheel_pop_due(wheel, 6000, &due) == PUNCTUAL_OK);
  CHECK(due.key == slow && due.deadline == 1000 && strcmp(due.value, "slow") == 0);
  CHECK(punctual_wheel_pop_due(wheel, 6000, &due) == PUNCTUAL_OK && due.key == tied);
  CHECK(punctual_wheel_pop_due(wheel, 6000, NULL) == PUNCTUAL_OK);
  CHECK(punctual_wheel_pop_due(wheel, 6000, &due) == PUNCTUAL_IDLE);
  CHECK(punctual_wheel_next_deadline(wheel, &tick) == PUNCTUAL_IDLE);
  CHECK(punctual_wheel_next_wakeup(wheel, &tick) == PUNCTUAL_IDLE);
  punctual_wheel_free(wheel);
}

static void a_key_finds_changes_rearms_and_cancels_its_timer(void) {
  punctual_wheel *wheel = punctual_wheel_new();
  void *value = NULL;
  uint64_t tick = 0;
  punctual_key key = punctual_wheel_insert(wheel, 10, number(1));
  CHECK(PUNCTUAL_KEY_INDEX(key) == 0);
  CHECK(punctual_wheel_get(wheel, key, &value) == PUNCTUAL_OK && value == number(1));
  CHECK(punctual_wheel_set(wheel, key, number(2)) == PUNCTUAL_OK);
  CHECK(*punctual_wheel_at(wheel, key) == number(2));
  *punctual_wheel_at(wheel, key) = number(3);
  CHECK(punctual_wheel_reset(wheel, key, 20) == PUNCTUAL_OK);
  CHECK(punctual_wheel_deadline(wheel, key, &tick) == PUNCTUAL_OK && tick == 20);
  CHECK(punctual_wheel_pop_due(wheel, 19, NULL) == PUNCTUAL_IDLE);
  CHECK(punctual_wheel_remove(wheel, key, &value) == PUNCTUAL_OK && value == number(3));

  /* Stale, even after its record is reused. */
  CHECK(PUNCTUAL_KEY_INDEX(punctual_wheel_insert(wheel, 10, number(4))) == PUNCTUAL_KEY_INDEX(key));
  value = number(77);
  tick = 77;
  CHECK(punctual_wheel_remove(wheel, key, &value) == PUNCTUAL_STALE && value == number(77));
  CHECK(punctual_wheel_get(wheel, key, &value) == PUNCTUAL_STALE && value == number(77));
  CHECK(punctual_wheel_deadline(wheel, key, &tick) == PUNCTUAL_STALE && tick == 77);
  CHECK(punctual_wheel_reset(wheel, key, 20) == PUNCTUAL_STALE);
  CHECK(punctual_wheel_set(wheel, key, NULL) == PUNCTUAL_STALE);
  CHECK(punctual_wheel_at(wheel, key) == NULL);
  CHECK(punctual_wheel_get(wheel, PUNCTUAL_NO_KEY, NULL) == PUNCTUAL_STALE);
  CHECK(punctual_wheel_len(wheel) == 1);
  punctual_wheel_free(wheel);
}

static void a_budget_bounds_the_work(void) {
  punctual_wheel *wheel = punctual_wheel_new();
  int fired = 0, turns = 0, n;
  for (n = 0; n < 100000; ++n) punctual_wheel_insert(wheel, 70000, number(1));
  for (;;) {
    size_t budget = 1000;
    punctual_wheel_timer due;
    punctual_status status;
    while ((status = punctual_wheel_poll(wheel, 70000, &budget, &due)) == PUNCTUAL_OK) ++fired;
    ++turns;
    if (status == PUNCTUAL_IDLE) break;
    CHECK(status == PUNCTUAL_BUSY && budget == 0);
  }
  CHECK(fired == 100000 && turns >= 100);
  punctual_wheel_free(wheel);
}

static void many_are_popped_and_listed_in_one_call(void) {
  punctual_wheel *wheel = punctual_wheel_new();
  punctual_wheel_timer timers[64];
  uintptr_t sum = 0;
  size_t n;
  for (n = 0; n < 100; ++n) punctual_wheel_insert(wheel, 1000 - n, number(n));
  CHECK(punctual_wheel_list(wheel, timers, 64) == 64);
  CHECK(punctual_wheel_pop_due_many(wheel, 1000, timers, 64) == 64);
  for (n = 0; n < 64; ++n) CHECK(timers[n].deadline == 901 + n && timers[n].value == number(99 - n));
  CHECK(punctual_wheel_list(wheel, timers, 64) == 36);
  for (n = 0; n < 36; ++n) sum += (uintptr_t)timers[n].value;
  CHECK(sum == 35 * 36 / 2);
  CHECK(punctual_wheel_clear(wheel) == PUNCTUAL_OK);
  CHECK(punctual_wheel_len(wheel) == 0 && punctual_wheel_get(wheel, timers[0].key, NULL) == PUNCTUAL_STALE);
  punctual_wheel_free(wheel);
}

static void memory_is_counted_and_freed(void) {
  punctual_wheel *wheel = punctual_wheel_new();
  size_t empty = punctual_wheel_memory(wheel);
  int n;
  for (n = 0; n < 100000; ++n) punctual_wheel_insert(wheel, (uint64_t)n, NULL);
  CHECK(punctual_wheel_memory(wheel) > 100000 * 20 && punctual_wheel_memory(wheel) < 100000 * 64);
  CHECK(punctual_wheel_pop_due_many(wheel, 99999, NULL, 100000) == 0);
  while (punctual_wheel_pop_due(wheel, 99999, NULL) == PUNCTUAL_OK) {
  }
  CHECK(punctual_wheel_shrink(wheel) == PUNCTUAL_OK);
  CHECK(punctual_wheel_memory(wheel) < empty + 128 * 1024);
  punctual_wheel_free(wheel);
}

static void null_is_an_error(void) {
  punctual_wheel_timer due;
  size_t budget = 1;
  CHECK(punctual_wheel_insert(NULL, 1, NULL) == PUNCTUAL_NO_KEY);
  CHECK(punctual_wheel_remove(NULL, 1, NULL) == PUNCTUAL_NULL);
  CHECK(punctual_wheel_reset(NULL, 1, 1) == PUNCTUAL_NULL);
  CHECK(punctual_wheel_get(NULL, 1, NULL) == PUNCTUAL_NULL);
  CHECK(punctual_wheel_set(NULL, 1, NULL) == PUNCTUAL_NULL);
  CHECK(punctual_wheel_at(NULL, 1) == NULL);
  CHECK(punctual_wheel_deadline(NULL, 1, NULL) == PUNCTUAL_NULL);
  CHECK(punctual_wheel_pop_due(NULL, 1, &due) == PUNCTUAL_NULL);
  CHECK(punctual_wheel_pop_due_many(NULL, 1, &due, 1) == 0);
  CHECK(punctual_wheel_poll(NULL, 1, &budget, &due) == PUNCTUAL_NULL);
  CHECK(punctual_wheel_next_deadline(NULL, NULL) == PUNCTUAL_NULL);
  CHECK(punctual_wheel_next_wakeup(NULL, NULL) == PUNCTUAL_NULL);
  CHECK(punctual_wheel_len(NULL) == 0 && punctual_wheel_memory(NULL) == 0);
  CHECK(punctual_wheel_list(NULL, &due, 1) == 0);
  CHECK(punctual_wheel_clear(NULL) == PUNCTUAL_NULL && punctual_wheel_shrink(NULL) == PUNCTUAL_NULL);
  punctual_wheel_free(NULL);
}

/* Compares random operations with a model: an array that is searched linearly. */
enum { MODEL = 200 };

struct armed {
  punctual_key key;
  uint64_t deadline;
  unsigned sequence; /* number of the last arming */
};

static struct armed model[MODEL];

static uint64_t chance(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

static void random_operations_agree_with_a_model(void) {
  uint64_t seed = 20240501, now = 0;
  unsigned sequence = 0, step;
  punctual_wheel *wheel = punctual_wheel_new();
  memset(model, 0, sizeof model);
  for (step = 0; step < 30000; ++step) {
    size_t at = chance(&seed) % MODEL;
    uint64_t deadline = now + (chance(&seed) >> chance(&seed) % 31);
    struct armed *timer = &model[at];
    switch (chance(&seed) % 4) {
      case 0: /* arm or re-arm */
        if (timer->key == PUNCTUAL_NO_KEY) {
          timer->key = punctual_wheel_insert(wheel, deadline, number(at));
          CHECK(timer->key != PUNCTUAL_NO_KEY);
        } else {
          CHECK(punctual_wheel_reset(wheel, timer->key, deadline) == PUNCTUAL_OK);
        }
        timer->deadline = deadline;
        timer->sequence = ++sequence;
        break;
      case 1: { /* cancel */
        void *value = NULL;
        punctual_status expected = timer->key == PUNCTUAL_NO_KEY ? PUNCTUAL_STALE : PUNCTUAL_OK;
        CHECK(punctual_wheel_remove(wheel, timer->key, &value) == expected);
        CHECK(expected == PUNCTUAL_STALE || value == number(at));
        timer->key = PUNCTUAL_NO_KEY;
        break;
      }
      case 2: { /* query */
        uint64_t found = 0;
        if (timer->key != PUNCTUAL_NO_KEY)
          CHECK(punctual_wheel_deadline(wheel, timer->key, &found) == PUNCTUAL_OK && found == timer->deadline);
        break;
      }
      default: { /* advance the clock; at most three timers fire */
        int fires;
        if (chance(&seed) % 8 == 0) now += chance(&seed) >> chance(&seed) % 31;
        for (fires = 0; fires < 3; ++fires) {
          struct armed *first = NULL;
          punctual_wheel_timer due;
          size_t n;
          for (n = 0; n < MODEL; ++n) {
            struct armed *other = &model[n];
            if (other->key == PUNCTUAL_NO_KEY || other->deadline > now) continue;
            if (!first || other->deadline < first->deadline ||
                (other->deadline == first->deadline && other->sequence < first->sequence))
              first = other;
          }
          if (!first) {
            CHECK(punctual_wheel_pop_due(wheel, now, &due) == PUNCTUAL_IDLE);
            break;
          }
          CHECK(punctual_wheel_pop_due(wheel, now, &due) == PUNCTUAL_OK);
          CHECK(due.key == first->key && due.deadline == first->deadline);
          CHECK(due.value == number((uintptr_t)(first - model)));
          first->key = PUNCTUAL_NO_KEY;
        }
      }
    }
  }
  punctual_wheel_free(wheel);
}

int main(void) {
  RUN(the_version_equals_the_version_of_the_header);
  RUN(every_status_has_a_description);
  RUN(timers_fire_in_the_order_of_their_deadlines);
  RUN(a_key_finds_changes_rearms_and_cancels_its_timer);
  RUN(a_budget_bounds_the_work);
  RUN(many_are_popped_and_listed_in_one_call);
  RUN(memory_is_counted_and_freed);
  RUN(null_is_an_error);
  RUN(random_operations_agree_with_a_model);
  return 0;
}
