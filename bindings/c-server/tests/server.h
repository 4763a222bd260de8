/* Calls with strings, for the tests. */
#ifndef SERVER_H
#define SERVER_H

#include "check.h"

#include <punctual_server.h>
#include <stddef.h>
#include <string.h>

#define COUNT(...) (sizeof((const char *[]){__VA_ARGS__}) / sizeof(const char *))

/* Return the reply to a command; the caller frees it. */
#define CALL(server, ...) \
  call_server(server, COUNT(__VA_ARGS__), (const char *[]){__VA_ARGS__})
#define ASK(client, ...) call_client(client, COUNT(__VA_ARGS__), (const char *[]){__VA_ARGS__})

static inline punctual_server_reply *call_server(const punctual_server *server, size_t count,
                                                 const char *const *args) {
  punctual_server_reply *reply;
  CHECK(punctual_server_call(server, count, args, NULL, &reply) == PUNCTUAL_SERVER_OK);
  return reply;
}

static inline punctual_server_reply *call_client(punctual_server_client *client, size_t count,
                                                 const char *const *args) {
  punctual_server_reply *reply;
  CHECK(punctual_server_client_call(client, count, args, NULL, &reply) == PUNCTUAL_SERVER_OK);
  return reply;
}

static inline int says(const punctual_server_reply *reply, const char *text) {
  const char *bytes = punctual_server_reply_text(reply, NULL);
  return bytes != NULL && strcmp(bytes, text) == 0;
}

#endif
