/* Tests of timers with callbacks on a virtual clock, without sleeping. Threads synchronize with
 * punctual_virtual_time_wait_for_pending. */

#define _POSIX_C_SOURCE 200809L

#include "check.h"

#include <limits.h>
#include <pthread.h>
#include <punctual.h>
#include <stdint.h>

static const int64_t second = 1000000000;

/* Data that a callback records or uses. */
struct log {
  int calls;
  int destroyed;
  int64_t called_at[64];
  punctual_timer *timer; /* the timer that the callback uses */
  punctual_ticker *ticker;
  punctual_virtual_time *time;
  punctual_status status;
};

static struct log *fresh_log(punctual_virtual_time *time) {
  struct log *log = calloc(1, sizeof *log);
  log->time = time;
  return log;
}

static void note(void *argument) {
  struct log *log = argument;
  if (log->calls < 64) log->called_at[log->calls] = punctual_now_ns();
  ++log->calls;
}

static void destroyed(void *argument) { ++((struct log *)argument)->destroyed; }

static punctual_virtual_time *enter(void) {
  punctual_virtual_time *time = punctual_virtual_time_new();
  CHECK(time != NULL);
  CHECK(punctual_virtual_time_enter(time) == PUNCTUAL_OK);
  CHECK(punctual_time_is_virtual());
  return time;
}

static void leave(punctual_virtual_time *time) {
  CHECK(punctual_virtual_time_leave(time) == PUNCTUAL_OK);
  CHECK(!punctual_time_is_virtual());
  punctual_virtual_time_free(time);
}

static void a_function_is_called_in_time_and_once(void) {
  punctual_virtual_time *time = enter();
  struct log *log = fresh_log(time);
  int64_t start = punctual_now_ns();
  punctual_timer *timer = punctual_after_func(2 * second, note, log, destroyed);
  CHECK(timer != NULL);
  CHECK(punctual_virtual_time_pending(time) == 1);
  CHECK(punctual_virtual_time_advance(time, 2 * second - 1) == PUNCTUAL_OK);
  CHECK(log->calls == 0);
  CHECK(punctual_virtual_time_advance(time, 10 * second) == PUNCTUAL_OK);
  CHECK(log->calls == 1 && log->called_at[0] == start + 2 * second);
  CHECK(punctual_now_ns() == start + 12 * second - 1);
  CHECK(punctual_virtual_time_now_ns(time) == punctual_now_ns());
  CHECK(!punctual_timer_stop(timer));
  CHECK(log->destroyed == 0);
  punctual_timer_free(timer);
  CHECK(log->destroyed == 1);
  free(log);
  leave(time);
}

static void a_timer_is_stopped_and_reset(void) {
  punctual_virtual_time *time = enter();
  struct log *log = fresh_log(time);
  int64_t start = punctual_now_ns();
  punctual_timer *timer = punctual_after_func(second, note, log, NULL);
  CHECK(punctual_timer_reset(timer, second) == PUNCTUAL_ARMED);
  CHECK(punctual_timer_stop(timer));
  CHECK(!punctual_timer_stop(timer));
  CHECK(punctual_virtual_time_advance(time, 5 * second) == PUNCTUAL_OK);
  CHECK(log->calls == 0);
  CHECK(punctual_timer_reset(timer, second) == PUNCTUAL_OK);
  CHECK(punctual_virtual_time_advance_to_next(time) == PUNCTUAL_OK);
  CHECK(log->calls == 1 && log->called_at[0] == start + 6 * second);
  CHECK(punctual_timer_reset(timer, -second) == PUNCTUAL_OK); /* due at once */
  CHECK(punctual_virtual_time_advance(time, 0) == PUNCTUAL_OK);
  CHECK(log->calls == 2);
  CHECK(punctual_virtual_time_advance_to_next(time) == PUNCTUAL_IDLE);
  punctual_timer_free(timer);
  free(log);
  leave(time);
}

static void note_and_reset(void *argument) {
  struct log *log = argument;
  note(log);
  if (log->calls < 4) log->status = punctual_timer_reset(log->timer, second);
}

static void a_function_resets_its_own_timer(void) {
  punctual_virtual_time *time = enter();
  struct log *log = fresh_log(time);
  int64_t start = punctual_now_ns();
  log->timer = punctual_after_func(second, note_and_reset, log, destroyed);
  CHECK(punctual_virtual_time_advance(time, 60 * second) == PUNCTUAL_OK);
  CHECK(log->status == PUNCTUAL_OK && log->calls == 4 && log->called_at[3] == start + 4 * second);
  punctual_timer_free(log->timer);
  CHECK(log->destroyed == 1);
  free(log);
  leave(time);
}

static void note_and_free(void *argument) {
  struct log *log = argument;
  note(log);
  punctual_timer_free(log->timer);
  CHECK(log->destroyed == 0); /* the callback still uses the argument */
}

static void a_function_frees_its_own_timer(void) {
  punctual_virtual_time *time = enter();
  struct log *log = fresh_log(time);
  log->timer = punctual_after_func(second, note_and_free, log, destroyed);
  CHECK(punctual_virtual_time_advance(time, second) == PUNCTUAL_OK);
  CHECK(log->calls == 1 && log->destroyed == 1);
  free(log);
  leave(time);
}

static void freeing_an_armed_timer_disarms_it_and_detaching_does_not(void) {
  punctual_virtual_time *time = enter();
  struct log *freed = fresh_log(time), *detached = fresh_log(time);
  punctual_timer_free(punctual_after_func(second, note, freed, destroyed));
  CHECK(freed->destroyed == 1);
  punctual_timer_detach(punctual_after_func(second, note, detached, destroyed));
  CHECK(detached->destroyed == 0);
  CHECK(punctual_virtual_time_advance(time, second) == PUNCTUAL_OK);
  CHECK(freed->calls == 0 && detached->calls == 1 && detached->destroyed == 1);
  free(freed);
  free(detached);
  leave(time);
}

static void a_ticker_keeps_to_multiples_and_can_be_stopped(void) {
  punctual_virtual_time *time = enter();
  struct log *log = fresh_log(time);
  int64_t start = punctual_now_ns();
  int n;
  punctual_ticker *ticker = punctual_ticker_new(second / 4, note, log, destroyed);
  CHECK(punctual_virtual_time_advance(time, 10 * second) == PUNCTUAL_OK);
  CHECK(log->calls == 40);
  for (n = 0; n < 40; ++n) CHECK(log->called_at[n] == start + (n + 1) * (second / 4));
  CHECK(punctual_ticker_stop(ticker));
  CHECK(!punctual_ticker_stop(ticker));
  CHECK(punctual_virtual_time_advance(time, 10 * second) == PUNCTUAL_OK);
  CHECK(log->calls == 40 && log->destroyed == 0);
  punctual_ticker_free(ticker);
  CHECK(log->destroyed == 1);
  free(log);
  leave(time);
}

static void free_after_three(void *argument) {
  struct log *log = argument;
  note(log);
  if (log->calls == 3) punctual_ticker_free(log->ticker);
}

static void a_function_frees_its_own_ticker(void) {
  punctual_virtual_time *time = enter();
  struct log *log = fresh_log(time);
  log->ticker = punctual_ticker_new(second, free_after_three, log, destroyed);
  CHECK(punctual_virtual_time_advance(time, 60 * second) == PUNCTUAL_OK);
  CHECK(log->calls == 3 && log->destroyed == 1);
  free(log);
  leave(time);
}

static void try_to_wait(void *argument) {
  struct log *log = argument;
  note(log);
  CHECK(punctual_time_is_virtual());
  CHECK(punctual_virtual_time_advance(log->time, second) == PUNCTUAL_REENTERED);
  CHECK(punctual_virtual_time_advance_to_next(log->time) == PUNCTUAL_REENTERED);
  CHECK(punctual_sleep_ns(second) == PUNCTUAL_REENTERED);
  CHECK(punctual_sleep_ns(0) == PUNCTUAL_OK);
}

static void a_callback_cannot_wait_for_itself(void) {
  punctual_virtual_time *time = enter();
  struct log *log = fresh_log(time);
  punctual_timer *timer = punctual_after_func(second, try_to_wait, log, NULL);
  CHECK(punctual_virtual_time_advance(time, second) == PUNCTUAL_OK);
  CHECK(log->calls == 1);
  punctual_timer_free(timer);
  free(log);
  leave(time);
}

struct sleeper {
  punctual_virtual_time *time;
  int64_t woke;
};

static void *sleep_for_an_hour(void *argument) {
  struct sleeper *sleeper = argument;
  CHECK(punctual_virtual_time_enter(sleeper->time) == PUNCTUAL_OK);
  CHECK(punctual_sleep_ns(3600 * second) == PUNCTUAL_OK);
  sleeper->woke = punctual_now_ns();
  return NULL; /* a thread may end without leaving */
}

static void a_thread_sleeps_on_a_virtual_clock(void) {
  struct sleeper sleeper = {NULL, 0};
  pthread_t thread;
  int64_t start;
  sleeper.time = punctual_virtual_time_new();
  start = punctual_virtual_time_now_ns(sleeper.time);
  CHECK(pthread_create(&thread, NULL, sleep_for_an_hour, &sleeper) == 0);
  CHECK(punctual_virtual_time_wait_for_pending(sleeper.time, 1) == PUNCTUAL_OK);
  CHECK(punctual_virtual_time_advance(sleeper.time, 3600 * second) == PUNCTUAL_OK);
  pthread_join(thread, NULL);
  CHECK(sleeper.woke == start + 3600 * second);
  CHECK(punctual_virtual_time_enter(sleeper.time) == PUNCTUAL_OK);
  CHECK(punctual_sleep_ns(-1) == PUNCTUAL_OK && punctual_sleep_ns(0) == PUNCTUAL_OK);
  CHECK(punctual_virtual_time_leave(sleeper.time) == PUNCTUAL_OK);
  punctual_virtual_time_free(sleeper.time);
}

static void clocks_can_be_nested(void) {
  punctual_virtual_time *outer = enter(), *inner = enter();
  punctual_virtual_time_advance(inner, second);
  CHECK(punctual_now_ns() == punctual_virtual_time_now_ns(inner));
  CHECK(punctual_virtual_time_leave(inner) == PUNCTUAL_OK);
  CHECK(punctual_virtual_time_leave(inner) == PUNCTUAL_STALE);
  CHECK(punctual_now_ns() == punctual_virtual_time_now_ns(outer));
  punctual_virtual_time_free(inner);
  /* A clock that is freed while it is in effect is destroyed when this thread leaves it. */
  {
    struct log *log = fresh_log(outer);
    punctual_timer_detach(punctual_after_func(second, note, log, destroyed));
    punctual_virtual_time_free(outer);
    CHECK(log->destroyed == 0);
    CHECK(punctual_virtual_time_leave(outer) == PUNCTUAL_OK);
    CHECK(log->calls == 0 && log->destroyed == 1);
    free(log);
  }
  CHECK(!punctual_time_is_virtual());
}

static void extreme_delays_are_accepted(void) {
  punctual_virtual_time *time = enter();
  struct log *log = fresh_log(time);
  punctual_timer *never = punctual_after_func(INT64_MAX, note, log, NULL);
  punctual_timer *at_once = punctual_after_func(INT64_MIN, note, log, NULL);
  punctual_ticker *rare = punctual_ticker_new(INT64_MAX, note, log, NULL);
  CHECK(never && at_once && rare);
  CHECK(punctual_virtual_time_advance(time, 1000000 * second) == PUNCTUAL_OK);
  CHECK(log->calls == 1);
  CHECK(punctual_timer_stop(never));
  punctual_timer_free(never);
  punctual_timer_free(at_once);
  punctual_ticker_free(rare);
  free(log);
  leave(time);
}

static void null_and_invalid_periods_are_errors(void) {
  struct log *log = fresh_log(NULL);
  CHECK(punctual_after_func(second, NULL, log, destroyed) == NULL && log->destroyed == 1);
  CHECK(punctual_after_func(second, NULL, log, NULL) == NULL);
  CHECK(punctual_ticker_new(second, NULL, log, destroyed) == NULL && log->destroyed == 2);
  CHECK(punctual_ticker_new(0, note, log, destroyed) == NULL && log->destroyed == 3);
  CHECK(punctual_ticker_new(-second, note, log, destroyed) == NULL && log->destroyed == 4);
  CHECK(!punctual_timer_stop(NULL) && !punctual_ticker_stop(NULL));
  CHECK(punctual_timer_reset(NULL, second) == PUNCTUAL_NULL);
  punctual_timer_free(NULL);
  punctual_timer_detach(NULL);
  punctual_ticker_free(NULL);
  CHECK(punctual_virtual_time_enter(NULL) == PUNCTUAL_NULL);
  CHECK(punctual_virtual_time_leave(NULL) == PUNCTUAL_NULL);
  CHECK(punctual_virtual_time_advance(NULL, 1) == PUNCTUAL_NULL);
  CHECK(punctual_virtual_time_advance_to_next(NULL) == PUNCTUAL_NULL);
  CHECK(punctual_virtual_time_wait_for_pending(NULL, 1) == PUNCTUAL_NULL);
  CHECK(punctual_virtual_time_pending(NULL) == 0 && punctual_virtual_time_now_ns(NULL) == 0);
  punctual_virtual_time_free(NULL);
  free(log);
}

int main(void) {
  RUN(a_function_is_called_in_time_and_once);
  RUN(a_timer_is_stopped_and_reset);
  RUN(a_function_resets_its_own_timer);
  RUN(a_function_frees_its_own_timer);
  RUN(freeing_an_armed_timer_disarms_it_and_detaching_does_not);
  RUN(a_ticker_keeps_to_multiples_and_can_be_stopped);
  RUN(a_function_frees_its_own_ticker);
  RUN(a_callback_cannot_wait_for_itself);
  RUN(a_thread_sleeps_on_a_virtual_clock);
  RUN(clocks_can_be_nested);
  RUN(extreme_delays_are_accepted);
  RUN(null_and_invalid_periods_are_errors);
  return 0;
}
