/* Measures commands through the C library: the processor time of one command, on the thread that
 * calls it and usually also runs it. The median of nine rounds, the lowest and the highest.
 *
 *   cc -O2 call.c $(pkg-config --cflags --libs punctual-server) -o call && ./call
 *
 * `cargo run --release -p punctual-server --example call` measures the same in Rust. */

#define _POSIX_C_SOURCE 200809L

#include <punctual_server.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 9, CALLS = 200000, BATCH = 64 };

static const char *const get[] = {"GET", "key"};
static const size_t lengths[] = {3, 3};
static punctual_server *server;
static punctual_server_client *client;

static double cpu_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void must(punctual_server_status status) {
  if (status == PUNCTUAL_SERVER_OK) return;
  fprintf(stderr, "%s\n", punctual_server_error());
  exit(1);
}

static void by_client(void) {
  punctual_server_reply *reply;
  must(punctual_server_client_call(client, 2, get, lengths, &reply));
  punctual_server_reply_free(reply);
}

static void by_server(void) {
  punctual_server_reply *reply;
  must(punctual_server_call(server, 2, get, lengths, &reply));
  punctual_server_reply_free(reply);
}

static void by_pipeline(void) {
  static punctual_server_command batch[BATCH];
  punctual_server_reply *replies;
  size_t n;
  for (n = 0; n < BATCH; ++n) {
    batch[n].count = 2;
    batch[n].args = get;
    batch[n].lengths = lengths;
  }
  must(punctual_server_client_pipeline(client, BATCH, batch, &replies));
  punctual_server_reply_free(replies);
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Prints the median time of one of the `each` commands that `act` runs. */
static void measure(const char *name, void (*act)(void), int each) {
  double took[ROUNDS];
  int round, n, calls = CALLS / each;
  for (round = 0; round < ROUNDS; ++round) {
    double begun = cpu_ns();
    for (n = 0; n < calls; ++n) act();
    took[round] = (cpu_ns() - begun) / calls / each;
  }
  qsort(took, ROUNDS, sizeof *took, ascending);
  printf("%-45s %6.0f ns (%.0f-%.0f)\n", name, took[ROUNDS / 2], took[0], took[ROUNDS - 1]);
}

int main(void) {
  const char *const set[] = {"SET", "key", "a value of 24 bytes ..."};
  punctual_server_reply *reply;
  must(punctual_server_start(PUNCTUAL_SERVER_NO_PORT, NULL, &server));
  must(punctual_server_client_new(server, &client));
  must(punctual_server_client_call(client, 3, set, NULL, &reply));
  punctual_server_reply_free(reply);
  measure("punctual_server_client_call, GET", by_client, 1);
  measure("punctual_server_call, GET", by_server, 1);
  measure("punctual_server_client_pipeline, 64 GET, each", by_pipeline, BATCH);
  punctual_server_client_free(client);
  punctual_server_stop(server);
  return 0;
}
