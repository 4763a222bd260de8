/* Tests of calls, replies, clients, errors, the virtual clock and the stop of a server. */

#define _POSIX_C_SOURCE 200809L

#include "server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

static punctual_server *start(const char *const *options) {
  punctual_server *server;
  CHECK(punctual_server_start(PUNCTUAL_SERVER_NO_PORT, options, &server) == PUNCTUAL_SERVER_OK);
  return server;
}

static punctual_server_client *connect_client(const punctual_server *server) {
  punctual_server_client *client;
  CHECK(punctual_server_client_new(server, &client) == PUNCTUAL_SERVER_OK);
  return client;
}

static const char *const virtual_clock[] = {"clock", "virtual", "threads", "2", NULL};

static void calls_and_replies(void) {
  punctual_server *server = start(NULL);
  const char *args[] = {"SET", "k\0y", "a\0b"};
  const size_t lengths[] = {3, 3, 3};
  punctual_server_reply *reply;
  const punctual_server_reply *element;
  size_t length;
  CHECK(punctual_server_version() == PUNCTUAL_SERVER_VERSION);
  CHECK(punctual_server_port(server) == 0);

  CHECK(punctual_server_call(server, 3, args, lengths, &reply) == PUNCTUAL_SERVER_OK);
  CHECK(punctual_server_reply_kind(reply) == PUNCTUAL_SERVER_KIND_STATUS && says(reply, "OK"));
  punctual_server_reply_free(reply);
  args[0] = "GET";
  CHECK(punctual_server_call(server, 2, args, lengths, &reply) == PUNCTUAL_SERVER_OK);
  CHECK(punctual_server_reply_kind(reply) == PUNCTUAL_SERVER_KIND_STRING);
  CHECK(memcmp(punctual_server_reply_text(reply, &length), "a\0b", 4) == 0 && length == 3);
  punctual_server_reply_free(reply);

  reply = CALL(server, "GET", "missing");
  CHECK(punctual_server_reply_kind(reply) == PUNCTUAL_SERVER_KIND_NIL);
  CHECK(punctual_server_reply_text(reply, &length) == NULL && length == 0);
  punctual_server_reply_free(reply);
  reply = CALL(server, "GET");
  CHECK(punctual_server_reply_kind(reply) == PUNCTUAL_SERVER_KIND_ERROR);
  CHECK(says(reply, "ERR wrong number of arguments for 'get' command"));
  punctual_server_reply_free(reply);

  reply = CALL(server, "ZADD", "scores", "1.5", "ann", "2", "bob");
  CHECK(punctual_server_reply_kind(reply) == PUNCTUAL_SERVER_KIND_INTEGER);
  CHECK(punctual_server_reply_integer(reply) == 2);
  punctual_server_reply_free(reply);
  reply = CALL(server, "ZRANGE", "scores", "0", "-1", "WITHSCORES");
  CHECK(punctual_server_reply_kind(reply) == PUNCTUAL_SERVER_KIND_ARRAY);
  CHECK(punctual_server_reply_length(reply) == 2);
  element = punctual_server_reply_at(reply, 0);
  CHECK(says(punctual_server_reply_at(element, 0), "ann"));
  element = punctual_server_reply_at(element, 1);
  CHECK(punctual_server_reply_kind(element) == PUNCTUAL_SERVER_KIND_DOUBLE);
  CHECK(punctual_server_reply_double(element) == 1.5);
  CHECK(punctual_server_reply_at(reply, 2) == NULL);
  punctual_server_reply_free(reply);

  reply = CALL(server, "CONFIG", "GET", "databases");
  CHECK(punctual_server_reply_kind(reply) == PUNCTUAL_SERVER_KIND_MAP);
  CHECK(punctual_server_reply_length(reply) == 2);
  CHECK(says(punctual_server_reply_at(reply, 0), "databases"));
  CHECK(says(punctual_server_reply_at(reply, 1), "16"));
  punctual_server_stop(server);
  CHECK(says(punctual_server_reply_at(reply, 1), "16")); /* the reply does not need the server */
  punctual_server_reply_free(reply);
}

static void errors_have_a_status_and_a_message(void) {
  const char *const unknown[] = {"no-such-option", "1", NULL};
  const char *const without_value[] = {"databases", NULL};
  const char *const hello[] = {"HELLO", "3"};
  const char *const hole[] = {"GET", NULL};
  punctual_server *server = start(NULL);
  punctual_server *other = server;
  punctual_server_client *client = connect_client(server);
  punctual_server_reply *reply = NULL;

  CHECK(punctual_server_start(-1, unknown, &other) == PUNCTUAL_SERVER_OPTION && other == NULL);
  CHECK(strstr(punctual_server_error(), "no-such-option") != NULL);
  CHECK(punctual_server_start(-1, without_value, &other) == PUNCTUAL_SERVER_OPTION);
  CHECK(strcmp(punctual_server_error(), "`databases` has no value") == 0);
  CHECK(punctual_server_start(65536, NULL, &other) == PUNCTUAL_SERVER_OPTION);
  CHECK(punctual_server_start(-1, NULL, NULL) == PUNCTUAL_SERVER_NULL);

  CHECK(punctual_server_call(server, 2, hello, NULL, &reply) == PUNCTUAL_SERVER_COMMAND);
  CHECK(reply == NULL && strstr(punctual_server_error(), "HELLO") != NULL);
  CHECK(punctual_server_call(server, 0, NULL, NULL, &reply) == PUNCTUAL_SERVER_COMMAND);
  CHECK(punctual_server_call(server, 1, NULL, NULL, &reply) == PUNCTUAL_SERVER_NULL);
  CHECK(punctual_server_call(server, 2, hole, NULL, &reply) == PUNCTUAL_SERVER_NULL);
  CHECK(punctual_server_call(server, 2, hello, NULL, NULL) == PUNCTUAL_SERVER_NULL);
  CHECK(punctual_server_call(NULL, 2, hello, NULL, &reply) == PUNCTUAL_SERVER_NULL);
  CHECK(strcmp(punctual_server_error(), "`server` is NULL") == 0);
  CHECK(punctual_server_client_call(NULL, 2, hello, NULL, &reply) == PUNCTUAL_SERVER_NULL);
  CHECK(punctual_server_advance(NULL, 1) == PUNCTUAL_SERVER_NULL);
  CHECK(punctual_server_advance(server, 1) == PUNCTUAL_SERVER_CLOCK);

  punctual_server_reply_free(ASK(client, "QUIT"));
  CHECK(punctual_server_client_call(client, 1, hole, NULL, &reply) == PUNCTUAL_SERVER_CLOSED);
  punctual_server_client_free(client);
  punctual_server_client_free(NULL);
  punctual_server_reply_free(NULL);
  punctual_server_stop(NULL);
  punctual_server_stop(server);
}

static void clients_have_sessions(void) {
  punctual_server *server = start(virtual_clock);
  punctual_server_client *client = connect_client(server);
  punctual_server_reply *reply;
  const char *const visit[] = {"INCR", "visits"};
  const char *const ask[] = {"GET", "visits"};
  const size_t lengths[] = {4, 6};
  const char *const hello[] = {"HELLO", "3"};
  punctual_server_command commands[2] = {{2, visit, lengths}, {2, ask, NULL}};

  punctual_server_reply_free(ASK(client, "SELECT", "3"));
  punctual_server_reply_free(ASK(client, "MULTI"));
  reply = ASK(client, "INCR", "visits");
  CHECK(says(reply, "QUEUED"));
  punctual_server_reply_free(reply);
  reply = ASK(client, "EXEC");
  CHECK(punctual_server_reply_integer(punctual_server_reply_at(reply, 0)) == 1);
  punctual_server_reply_free(reply);
  reply = CALL(server, "EXISTS", "visits"); /* in database 0 */
  CHECK(punctual_server_reply_integer(reply) == 0);
  punctual_server_reply_free(reply);

  CHECK(punctual_server_client_pipeline(client, 2, commands, &reply) == PUNCTUAL_SERVER_OK);
  CHECK(punctual_server_reply_length(reply) == 2);
  CHECK(punctual_server_reply_integer(punctual_server_reply_at(reply, 0)) == 2);
  CHECK(says(punctual_server_reply_at(reply, 1), "2"));
  punctual_server_reply_free(reply);
  commands[1].args = hello;
  CHECK(punctual_server_client_pipeline(client, 2, commands, &reply) == PUNCTUAL_SERVER_COMMAND);
  CHECK(punctual_server_client_pipeline(client, 2, NULL, &reply) == PUNCTUAL_SERVER_NULL);
  CHECK(punctual_server_client_pipeline(client, 0, NULL, &reply) == PUNCTUAL_SERVER_OK);
  CHECK(punctual_server_reply_kind(reply) == PUNCTUAL_SERVER_KIND_ARRAY);
  punctual_server_reply_free(reply);
  reply = ASK(client, "GET", "visits"); /* the refused pipeline ran no command */
  CHECK(says(reply, "2"));
  punctual_server_reply_free(reply);

  reply = ASK(client, "SUBSCRIBE", "news");
  CHECK(punctual_server_reply_kind(reply) == PUNCTUAL_SERVER_KIND_PUSH);
  punctual_server_reply_free(reply);
  CHECK(punctual_server_client_message(client, 0, &reply) == PUNCTUAL_SERVER_IDLE && reply == NULL);
  punctual_server_reply_free(CALL(server, "PUBLISH", "news", "hello"));
  CHECK(punctual_server_client_message(client, -1, &reply) == PUNCTUAL_SERVER_OK);
  CHECK(says(punctual_server_reply_at(reply, 0), "message"));
  CHECK(says(punctual_server_reply_at(reply, 2), "hello"));
  punctual_server_reply_free(reply);
  punctual_server_client_free(client);
  punctual_server_stop(server);
}

/* Waits until a command of another thread waits. */
static void wait_for_blocked_client(const punctual_server *server) {
  int found = 0;
  while (!found) {
    punctual_server_reply *reply = CALL(server, "INFO", "clients");
    found = strstr(punctual_server_reply_text(reply, NULL), "blocked_clients:1\r") != NULL;
    punctual_server_reply_free(reply);
    sched_yield();
  }
}

/* A thread with a client that waits for an element of a list, and the result of the call. */
typedef struct {
  punctual_server_client *client;
  const char *seconds;
  punctual_server_status status;
  punctual_server_reply *reply;
} waiter;

static void *wait_for_element(void *argument) {
  waiter *this = argument;
  const char *args[] = {"BLPOP", "jobs", NULL};
  args[2] = this->seconds;
  this->status = punctual_server_client_call(this->client, 3, args, NULL, &this->reply);
  if (this->status != PUNCTUAL_SERVER_OK) {
    CHECK(strcmp(punctual_server_error(), "the server has stopped") == 0);
  }
  return NULL;
}

static void a_call_blocks_until_another_thread_answers(void) {
  punctual_server *server = start(NULL);
  waiter waiting = {connect_client(server), "0", PUNCTUAL_SERVER_IDLE, NULL};
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, wait_for_element, &waiting) == 0);
  wait_for_blocked_client(server);
  punctual_server_reply_free(CALL(server, "RPUSH", "jobs", "one"));
  CHECK(pthread_join(thread, NULL) == 0 && waiting.status == PUNCTUAL_SERVER_OK);
  CHECK(says(punctual_server_reply_at(waiting.reply, 1), "one"));
  punctual_server_reply_free(waiting.reply);
  punctual_server_client_free(waiting.client);
  punctual_server_stop(server);
}

static void advancing_expires_keys_and_ends_waits(void) {
  punctual_server *server = start(virtual_clock);
  waiter waiting = {connect_client(server), "30", PUNCTUAL_SERVER_IDLE, NULL};
  punctual_server_reply *reply;
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, wait_for_element, &waiting) == 0);
  wait_for_blocked_client(server);
  punctual_server_reply_free(CALL(server, "SET", "session", "s", "EX", "30"));
  CHECK(punctual_server_advance(server, 29999999) == PUNCTUAL_SERVER_OK);
  wait_for_blocked_client(server);
  reply = CALL(server, "DBSIZE");
  CHECK(punctual_server_reply_integer(reply) == 1);
  punctual_server_reply_free(reply);
  CHECK(punctual_server_advance(server, 1) == PUNCTUAL_SERVER_OK);
  reply = CALL(server, "DBSIZE");
  CHECK(punctual_server_reply_integer(reply) == 0);
  punctual_server_reply_free(reply);
  CHECK(pthread_join(thread, NULL) == 0 && waiting.status == PUNCTUAL_SERVER_OK);
  CHECK(punctual_server_reply_kind(waiting.reply) == PUNCTUAL_SERVER_KIND_NIL);
  punctual_server_reply_free(waiting.reply);
  punctual_server_client_free(waiting.client);
  CHECK(punctual_server_advance(server, UINT64_MAX) == PUNCTUAL_SERVER_CLOCK);
  punctual_server_stop(server);
}

static void a_stop_ends_calls_of_clients(void) {
  punctual_server *server = start(NULL);
  waiter waiting = {connect_client(server), "0", PUNCTUAL_SERVER_IDLE, NULL};
  pthread_t thread;
  const char *const ping[] = {"PING"};
  CHECK(pthread_create(&thread, NULL, wait_for_element, &waiting) == 0);
  wait_for_blocked_client(server);
  punctual_server_stop(server);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(waiting.status == PUNCTUAL_SERVER_STOPPED && waiting.reply == NULL);
  CHECK(punctual_server_client_call(waiting.client, 1, ping, NULL, &waiting.reply) ==
        PUNCTUAL_SERVER_STOPPED);
  punctual_server_client_free(waiting.client);
}

enum { threads = 4, calls = 250 };

static void *count_calls(void *server) {
  int i;
  for (i = 0; i < calls; i++) {
    punctual_server_reply *reply = CALL(server, "INCR", "calls");
    CHECK(punctual_server_reply_integer(reply) > i);
    punctual_server_reply_free(reply);
  }
  return NULL;
}

static void any_thread_may_call(void) {
  punctual_server *server = start(virtual_clock);
  punctual_server_reply *reply;
  pthread_t running[threads];
  int i;
  for (i = 0; i < threads; i++) {
    CHECK(pthread_create(&running[i], NULL, count_calls, server) == 0);
  }
  for (i = 0; i < threads; i++) {
    CHECK(pthread_join(running[i], NULL) == 0);
  }
  reply = CALL(server, "INCR", "calls");
  CHECK(punctual_server_reply_integer(reply) == threads * calls + 1);
  punctual_server_reply_free(reply);
  punctual_server_stop(server);
}

static void other_programs_connect_to_the_port(void) {
  punctual_server *server, *other;
  struct sockaddr_in address;
  char pong[7];
  int connection = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(punctual_server_start(0, NULL, &server) == PUNCTUAL_SERVER_OK);
  memset(&address, 0, sizeof address);
  address.sin_family = AF_INET;
  address.sin_port = htons(punctual_server_port(server));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(connect(connection, (struct sockaddr *)&address, sizeof address) == 0);
  CHECK(write(connection, "PING\r\n", 6) == 6);
  CHECK(recv(connection, pong, sizeof pong, MSG_WAITALL) == sizeof pong);
  CHECK(memcmp(pong, "+PONG\r\n", sizeof pong) == 0);
  CHECK(punctual_server_start(punctual_server_port(server), NULL, &other) == PUNCTUAL_SERVER_START);
  CHECK(other == NULL && punctual_server_error()[0] != '\0');
  close(connection);
  punctual_server_stop(server);
}

int main(void) {
  RUN(calls_and_replies);
  RUN(errors_have_a_status_and_a_message);
  RUN(clients_have_sessions);
  RUN(a_call_blocks_until_another_thread_answers);
  RUN(advancing_expires_keys_and_ends_waits);
  RUN(a_stop_ends_calls_of_clients);
  RUN(any_thread_may_call);
  RUN(other_programs_connect_to_the_port);
  return 0;
}
