/* Tests of the child of a fork: it has the parent's objects, but not the server's threads. So calls
 * are refused at once, and nothing is freed. */

#define _POSIX_C_SOURCE 200809L

#include "server.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void the_child_is_refused(punctual_server *server, punctual_server_client *client) {
  const char *const ping[] = {"PING"};
  punctual_server_reply *reply;
  punctual_server_client *other;
  CHECK(punctual_server_call(server, 1, ping, NULL, &reply) == PUNCTUAL_SERVER_FORKED);
  CHECK(reply == NULL && strstr(punctual_server_error(), "fork") != NULL);
  CHECK(punctual_server_client_call(client, 1, ping, NULL, &reply) == PUNCTUAL_SERVER_FORKED);
  CHECK(punctual_server_client_message(client, -1, &reply) == PUNCTUAL_SERVER_FORKED);
  CHECK(punctual_server_client_new(server, &other) == PUNCTUAL_SERVER_FORKED);
  CHECK(punctual_server_advance(server, 1) == PUNCTUAL_SERVER_FORKED);
  punctual_server_client_free(client);
  punctual_server_stop(server);
}

int main(void) {
  punctual_server *server;
  punctual_server_client *client;
  punctual_server_reply *reply;
  int status = -1;
  pid_t child;
  CHECK(punctual_server_start(PUNCTUAL_SERVER_NO_PORT, NULL, &server) == PUNCTUAL_SERVER_OK);
  CHECK(punctual_server_client_new(server, &client) == PUNCTUAL_SERVER_OK);
  child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(60); /* ends the child if it hangs */
    the_child_is_refused(server, client);
    /* A leak check at a normal end would report the copies of the parent's objects. */
    raise(SIGKILL);
  }
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  reply = ASK(client, "PING");
  CHECK(says(reply, "PONG"));
  punctual_server_reply_free(reply);
  punctual_server_client_free(client);
  punctual_server_stop(server);
  printf("ok the_child_of_a_fork_is_refused\n");
  return 0;
}
