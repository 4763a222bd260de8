/* Tests of the child of a fork: the library refuses timers on the real clock there, and does not
 * touch the parent's timers. Virtual clocks, sleeping and wheels work. */

#define _POSIX_C_SOURCE 200809L

#include "check.h"

#include <punctual.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static const int64_t second = 1000000000;

static void add(void *count) { ++*(int *)count; }

static void ignore(void *argument) { (void)argument; }

/* Returns whether `work` completes in a child process. The child then ends by a signal, because a
 * leak check at a normal end would report the memory of its parent's threads. */
static bool child_can(void (*work)(void)) {
  int status = -1;
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(60); /* ends the child if it hangs */
    work();
    raise(SIGKILL);
  }
  CHECK(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

static punctual_timer *timer;
static punctual_ticker *ticker;
static int freed;

static void real_timers_are_refused(void) {
  CHECK(punctual_time_is_forked());
  CHECK(!punctual_timer_stop(timer));
  CHECK(punctual_timer_reset(timer, second) == PUNCTUAL_FORKED);
  CHECK(!punctual_ticker_stop(ticker));
  punctual_timer_free(timer);
  punctual_ticker_free(ticker);
  CHECK(freed == 0); /* the argument belongs to the parent */
  CHECK(punctual_after_func(second, ignore, &freed, add) == NULL);
  CHECK(punctual_ticker_new(second, ignore, &freed, add) == NULL);
  CHECK(freed == 2);
}

static void everything_else_works(void) {
  int64_t before = punctual_now_ns();
  punctual_virtual_time *clock = punctual_virtual_time_new();
  punctual_wheel *wheel = punctual_wheel_new();
  punctual_timer *virtual_timer;
  int calls = 0;
  CHECK(punctual_sleep_ns(1000) == PUNCTUAL_OK);
  CHECK(punctual_now_ns() - before >= 1000);
  CHECK(punctual_virtual_time_enter(clock) == PUNCTUAL_OK);
  virtual_timer = punctual_after_func(second, add, &calls, NULL);
  CHECK(virtual_timer != NULL);
  CHECK(punctual_virtual_time_advance(clock, second) == PUNCTUAL_OK && calls == 1);
  CHECK(punctual_timer_reset(virtual_timer, second) == PUNCTUAL_OK && punctual_timer_stop(virtual_timer));
  punctual_timer_free(virtual_timer);
  CHECK(punctual_virtual_time_leave(clock) == PUNCTUAL_OK);
  punctual_virtual_time_free(clock);
  CHECK(punctual_wheel_insert(wheel, 1, NULL) != PUNCTUAL_NO_KEY && punctual_wheel_len(wheel) == 1);
  punctual_wheel_free(wheel);
}

static void a_child_refuses_real_timers(void) { CHECK(child_can(real_timers_are_refused)); }

static void a_child_has_virtual_clocks_and_wheels(void) { CHECK(child_can(everything_else_works)); }

static void first_timer_of_a_child(void) {
  punctual_timer *first;
  CHECK(!punctual_time_is_forked());
  first = punctual_after_func(3600 * second, ignore, NULL, NULL);
  CHECK(first != NULL && punctual_timer_stop(first));
  punctual_timer_free(first);
}

static void after_a_fork_before_the_first_timer_both_processes_have_timers(void) { CHECK(child_can(first_timer_of_a_child)); }

int main(void) {
  RUN(after_a_fork_before_the_first_timer_both_processes_have_timers);
  timer = punctual_after_func(3600 * second, ignore, &freed, add);
  ticker = punctual_ticker_new(1000, ignore, &freed, add); /* ticks often, so that a lock may be held during the fork */
  CHECK(timer != NULL && ticker != NULL);
  RUN(a_child_refuses_real_timers);
  RUN(a_child_has_virtual_clocks_and_wheels);
  CHECK(!punctual_time_is_forked());
  CHECK(punctual_timer_stop(timer));
  punctual_timer_free(timer);
  punctual_ticker_free(ticker);
  return 0;
}
