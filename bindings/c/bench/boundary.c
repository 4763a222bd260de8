/* Measures the C library: arming and cancelling a timer while `live` other timers are armed,
 * creating and freeing a timer with a function, and stopping and resetting such a timer.
 *
 *   cc -O2 boundary.c $(pkg-config --cflags --libs punctual) -o boundary && ./boundary
 *
 * `make bench-timers ARGS="--contender wheel --workload steady"` measures arming and cancelling in
 * Rust ("arm + cancel"). */

#define _POSIX_C_SOURCE 199309L

#include <punctual.h>
#include <stdio.h>
#include <time.h>

enum { ROUNDS = 9, OPERATIONS = 2000000 };

static double cpu_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double arm_and_cancel(int live) {
  punctual_wheel *wheel = punctual_wheel_new();
  double best = 1e18;
  int round, n;
  for (n = 0; n < live; ++n) punctual_wheel_insert(wheel, 1000000 + (uint64_t)n * 977, NULL);
  for (round = 0; round < ROUNDS; ++round) {
    double begun = cpu_ns(), took;
    for (n = 0; n < OPERATIONS; ++n) {
      punctual_key key = punctual_wheel_insert(wheel, 30000 + (uint64_t)n % 1000, NULL);
      punctual_wheel_remove(wheel, key, NULL);
    }
    took = (cpu_ns() - begun) / OPERATIONS;
    if (took < best) best = took;
  }
  punctual_wheel_free(wheel);
  return best;
}

static void nothing(void *argument) { (void)argument; }

static double create_and_free(void) {
  double best = 1e18;
  int round, n;
  for (round = 0; round < ROUNDS; ++round) {
    double begun = cpu_ns(), took;
    for (n = 0; n < OPERATIONS / 10; ++n) punctual_timer_free(punctual_after_func(10000000000, nothing, NULL, NULL));
    took = (cpu_ns() - begun) / (OPERATIONS / 10);
    if (took < best) best = took;
  }
  return best;
}

static double stop_and_reset(void) {
  punctual_timer *timer = punctual_after_func(10000000000, nothing, NULL, NULL);
  double best = 1e18;
  int round, n;
  for (round = 0; round < ROUNDS; ++round) {
    double begun = cpu_ns(), took;
    for (n = 0; n < OPERATIONS / 10; ++n) {
      punctual_timer_stop(timer);
      punctual_timer_reset(timer, 10000000000);
    }
    took = (cpu_ns() - begun) / (OPERATIONS / 10);
    if (took < best) best = took;
  }
  punctual_timer_free(timer);
  return best;
}

int main(void) {
  static const int live[] = {0, 10, 1000, 1000000};
  size_t n;
  for (n = 0; n < sizeof live / sizeof *live; ++n)
    printf("C: arm and cancel with %7d live: %5.1f ns\n", live[n], arm_and_cancel(live[n]));
  printf("C: punctual_after_func and free:      %5.1f ns\n", create_and_free());
  printf("C: punctual_timer_stop and reset:     %5.1f ns\n", stop_and_reset());
  return 0;
}
