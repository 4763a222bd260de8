/* A connection that is closed after 50 ms without a heartbeat. Five heartbeats arrive, one every
 * 10 ms. The program runs on the real clock and takes a tenth of a second. */

#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <punctual.h>
#include <stdio.h>

static const int64_t ms = 1000000;

struct connection {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  punctual_timer *timeout;
  punctual_ticker *heartbeat;
  int heartbeats;
  int closed;
};

/* Runs on a thread of the library, like every callback. */
static void close_connection(void *argument) {
  struct connection *connection = argument;
  pthread_mutex_lock(&connection->lock);
  connection->closed = 1;
  pthread_cond_signal(&connection->changed);
  pthread_mutex_unlock(&connection->lock);
}

static void receive_heartbeat(void *argument) {
  struct connection *connection = argument;
  pthread_mutex_lock(&connection->lock);
  /* If the timer has not fired yet, re-arm it: the connection stays open. */
  if (punctual_timer_stop(connection->timeout)) punctual_timer_reset(connection->timeout, 50 * ms);
  if (++connection->heartbeats == 5) punctual_ticker_stop(connection->heartbeat);
  pthread_mutex_unlock(&connection->lock);
}

int main(void) {
  struct connection connection = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, NULL, 0, 0};
  int64_t start = punctual_now_ns(), lasted;

  pthread_mutex_lock(&connection.lock);
  connection.timeout = punctual_after_func(50 * ms, close_connection, &connection, NULL);
  connection.heartbeat = punctual_ticker_new(10 * ms, receive_heartbeat, &connection, NULL);
  while (!connection.closed) pthread_cond_wait(&connection.changed, &connection.lock);
  lasted = punctual_now_ns() - start;
  pthread_mutex_unlock(&connection.lock);

  punctual_ticker_free(connection.heartbeat);
  punctual_timer_free(connection.timeout);
  printf("closed after %d heartbeats\n", connection.heartbeats);
  return lasted >= 50 * ms ? 0 : 1;
}
