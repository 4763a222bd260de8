/* hiredis (C): replies, pipelines, binary values, errors, EVAL, EVALSHA, FCALL, pub/sub, timeouts.
 * Packages: libhiredis-dev
 */
#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *current = "start";
static redisContext *context;

static void step(const char *name) {
    current = name;
    printf("- %s\n", name);
}

static void fail(const char *what) {
    printf("fails: %s: %s\n", current, what);
    exit(1);
}

/* Writes a reply as text; an array as (2|"a"|nil). */
static void write_reply(const redisReply *reply, char *text, size_t room) {
    size_t used;
    switch (reply->type) {
    case REDIS_REPLY_INTEGER: snprintf(text, room, "%lld", reply->integer); break;
    case REDIS_REPLY_NIL: snprintf(text, room, "nil"); break;
    case REDIS_REPLY_STRING: snprintf(text, room, "\"%s\"", reply->str); break;
    case REDIS_REPLY_ARRAY:
        snprintf(text, room, "(");
        for (size_t i = 0; i < reply->elements; i++) {
            used = strlen(text);
            if (i) used += snprintf(text + used, room - used, "|");
            write_reply(reply->element[i], text + used, room - used);
        }
        used = strlen(text);
        snprintf(text + used, room - used, ")");
        break;
    default: snprintf(text, room, "%s", reply->str);
    }
}

static void expect(redisReply *reply, const char *expected) {
    char text[1000], message[2100];
    if (!reply) fail(context->errstr);
    write_reply(reply, text, sizeof text);
    freeReplyObject(reply);
    if (strcmp(text, expected) == 0) return;
    snprintf(message, sizeof message, "%s, not %s", text, expected);
    fail(message);
}

static void command(const char *expected, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    expect(redisvCommand(context, format, arguments), expected);
    va_end(arguments);
}

static void next(const char *expected) {
    redisReply *reply = NULL;
    if (redisGetReply(context, (void **)&reply) != REDIS_OK) fail(context->errstr);
    expect(reply, expected);
}

int main(void) {
    context = redisConnect(getenv("REDIS_HOST"), atoi(getenv("REDIS_PORT")));
    if (!context || context->err) fail("no connection");
    step("replies");
    command("OK", "SET %s %d PX 60000", "s", 1);
    command("5", "INCRBY s 4");
    command("nil", "GET none");
    command("2", "HSET h a 1 b two");
    command("(\"a\"|\"1\"|\"b\"|\"two\")", "HGETALL h");
    command("WRONGTYPE Operation against a key holding the wrong kind of value", "INCR h");
    step("binary values");
    command("OK", "SET %b %b", "a\0b", (size_t)3, "c\0d\r\n", (size_t)5);
    command("5", "STRLEN %b", "a\0b", (size_t)3);
    step("pipelines");
    for (int i = 0; i < 1000; i++) redisAppendCommand(context, "INCR many");
    for (int i = 1; i <= 1000; i++) {
        char expected[10];
        snprintf(expected, sizeof expected, "%d", i);
        next(expected);
    }
    step("transactions");
    command("OK", "MULTI");
    command("QUEUED", "INCR s");
    command("QUEUED", "GET s");
    command("(6|\"6\")", "EXEC");
    step("EVAL and EVALSHA");
    command("(\"k\"|\"v\"|3|nil|(\"x\"))", "EVAL %s 1 k v", "return {KEYS[1], ARGV[1], 3, false, {'x'}}");
    command("\"d3c21d0c2b9ca22f82737626a27bcaf5d288f99f\"", "SCRIPT LOAD %s", "return redis.call('GET', KEYS[1])");
    command("\"6\"", "EVALSHA d3c21d0c2b9ca22f82737626a27bcaf5d288f99f 1 s");
    command("(1|0)", "SCRIPT EXISTS d3c21d0c2b9ca22f82737626a27bcaf5d288f99f 0");
    command("NOSCRIPT No matching script. Please use EVAL.", "EVALSHA %s 0", "0000000000000000000000000000000000000000");
    command("MINE said no", "EVAL %s 0", "return redis.error_reply('MINE said no')");
    step("FCALL");
    command("\"ours\"", "FUNCTION LOAD %s",
            "#!lua name=ours\nredis.register_function('put', function(k, a) return redis.call('SET', k[1], a[1]) end)");
    command("OK", "FCALL put 1 f v");
    step("timeouts");
    struct timeval short_time = {0, 200000};
    redisSetTimeout(context, short_time);
    if (redisCommand(context, "BLPOP none 5")) fail("a reply");
    redisFree(context);
    context = redisConnect(getenv("REDIS_HOST"), atoi(getenv("REDIS_PORT")));
    step("pub/sub");
    command("(\"subscribe\"|\"news\"|1)", "SUBSCRIBE news");
    redisContext *subscriber = context;
    context = redisConnect(getenv("REDIS_HOST"), atoi(getenv("REDIS_PORT")));
    command("1", "PUBLISH news hello");
    context = subscriber;
    next("(\"message\"|\"news\"|\"hello\")");
    printf("works\n");
    return 0;
}
