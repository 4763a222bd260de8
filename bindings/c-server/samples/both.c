/* Both libraries in one program: a timer of libpunctual adds a job to a list of the server. The
 * timer's clock is virtual, so the program does not wait. */

#include <punctual.h>
#include <punctual_server.h>
#include <stdio.h>
#include <stdlib.h>

static void require(int holds, const char *message) {
  if (!holds) {
    fprintf(stderr, "%s\n", message);
    exit(1);
  }
}

static punctual_server_reply *run(const punctual_server *server, size_t count,
                                  const char *const *args) {
  punctual_server_reply *reply;
  punctual_server_status status = punctual_server_call(server, count, args, NULL, &reply);
  require(status == PUNCTUAL_SERVER_OK, punctual_server_error());
  return reply;
}

static void add_job(void *server) {
  const char *const args[] = {"RPUSH", "jobs", "send the report"};
  punctual_server_reply_free(run(server, 3, args));
}

int main(void) {
  const char *const args[] = {"LPOP", "jobs"};
  punctual_virtual_time *clock = punctual_virtual_time_new();
  punctual_server *server;
  punctual_server_reply *reply;
  punctual_timer *timer;
  punctual_server_status status = punctual_server_start(PUNCTUAL_SERVER_NO_PORT, NULL, &server);
  require(status == PUNCTUAL_SERVER_OK, punctual_server_error());
  require(punctual_virtual_time_enter(clock) == PUNCTUAL_OK, "cannot enter the clock");

  timer = punctual_after_func(INT64_C(3600000000000), add_job, server, NULL);
  reply = run(server, 2, args);
  require(punctual_server_reply_kind(reply) == PUNCTUAL_SERVER_KIND_NIL, "a job is early");
  punctual_server_reply_free(reply);

  require(punctual_virtual_time_advance(clock, INT64_C(3600000000000)) == PUNCTUAL_OK,
          "cannot advance the clock");
  reply = run(server, 2, args);
  require(punctual_server_reply_kind(reply) == PUNCTUAL_SERVER_KIND_STRING, "a job is late");
  puts(punctual_server_reply_text(reply, NULL));
  punctual_server_reply_free(reply);

  punctual_timer_free(timer);
  punctual_virtual_time_leave(clock);
  punctual_virtual_time_free(clock);
  punctual_server_stop(server);
  return 0;
}
