/* Punctual: deadlines, exact and nearly free.
 *
 * Written by cbindgen from bindings/c/src; do not edit. The guide is bindings/c/README.md.
 *
 * Two queues, which read no clock, and time by callback:
 *
 *   punctual_wheel        a timing wheel that keeps its timers; a timer carries a void * and is named by a key.
 *                         Take this one.
 *   punctual_raw_wheel    the same for timers that already live in records of yours, with an index each.
 *   punctual_after_func   calls a function later, punctual_ticker_new calls one at every period. One thread sleeps until
 *                         exactly the next deadline; functions run on others. punctual_virtual_time is a clock for tests.
 *
 * Threads, as each function says:
 *
 *   any                   call it from any thread at any time.
 *   one at a time         calls for the same object must not overlap; which thread calls does not matter.
 *   readers may overlap   calls for the same object may overlap with each other, not with those that must
 *                         come one at a time.
 *
 * A pointer to an object that is NULL is answered with PUNCTUAL_NULL, 0 or NULL, never followed. Any other pointer
 * must be what its type says, and live. When memory runs out, the process is aborted, as in Rust.
 */

#ifndef PUNCTUAL_H
#define PUNCTUAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* This header's version as one number; compare with punctual_version(). */
#define PUNCTUAL_VERSION \
  (PUNCTUAL_VERSION_MAJOR * 1000000 + PUNCTUAL_VERSION_MINOR * 1000 + PUNCTUAL_VERSION_PATCH)

/* A number that no other armed timer of the key's wheel has, for arrays beside the wheel. Those of timers that went are used
 * again before a new one is: with at most n timers armed at a time they stay below n, plus 1 for each 268 million armings. */
#define PUNCTUAL_KEY_INDEX(key) (((key) - 1u) & 0xffffffffu)

/**
 * The version of this header: major.
 */
#define PUNCTUAL_VERSION_MAJOR 0

/**
 * The version of this header: minor. Before 1.0 it counts for the ABI as major does.
 */
#define PUNCTUAL_VERSION_MINOR 1

/**
 * The version of this header: patch.
 */
#define PUNCTUAL_VERSION_PATCH 0

/**
 * The key of no timer.
 */
#define PUNCTUAL_NO_KEY 0

/**
 * What a call came to. 0 is success; the others say why not, and some are everyday answers.
 */
typedef enum {
  /**
   * Done.
   */
  PUNCTUAL_OK = 0,
  /**
   * Nothing is due, or there is nothing of the kind that was asked for.
   */
  PUNCTUAL_IDLE = 1,
  /**
   * The budget is used up; there may be more to do now.
   */
  PUNCTUAL_BUSY = 2,
  /**
   * The key's timer has fired or was removed, or the key was never one.
   */
  PUNCTUAL_STALE = 3,
  /**
   * A pointer that must not be NULL was.
   */
  PUNCTUAL_NULL = 4,
  /**
   * The timer is armed; it must be stopped or expired.
   */
  PUNCTUAL_ARMED = 5,
  /**
   * The object was used by one of its own callbacks, which must not.
   */
  PUNCTUAL_REENTERED = 6,
  /**
   * A defect of the library, whose message went to stderr. Free the object and do nothing else with it.
   */
  PUNCTUAL_PANICKED = 7,
  /**
   * The timer is that of the process that this one is a fork of.
   */
  PUNCTUAL_FORKED = 8,
} punctual_status;

/**
 * A function that is called at every period: what punctual_ticker_new gives.
 */
typedef struct punctual_ticker punctual_ticker;

/**
 * A function that is called once, when its time has come: what punctual_after_func gives.
 */
typedef struct punctual_timer punctual_timer;

/**
 * A hierarchical timing wheel that leaves the timers where they are: in an array of sessions, in the slots of
 * a cache. It files 12 bytes for each (part of the deadline, index, generation) and asks the owner whether an
 * entry still stands, and for when.
 *
 * - To arm: set the deadline in your record, then punctual_raw_wheel_insert.
 * - To cancel: change the generation in your record, then punctual_raw_wheel_forget.
 * - To put off: set the later deadline in your record. The wheel need not be told.
 * - To re-arm earlier: a new deadline and a new generation, insert, forget; or see punctual_raw_wheel_reuse.
 *
 * Take punctual_wheel unless records with an index exist anyway and memory or cache misses
 * count: it does the book-keeping, and reuses the entries of timers that were cancelled.
 */
typedef struct punctual_raw_wheel punctual_raw_wheel;

/**
 * A hierarchical timing wheel: timers are armed, cancelled and re-armed in O(1) and popped in exact
 * order, equal deadlines in the order in which they were armed. A deadline is a number of ticks of any
 * length, over all of uint64_t; the wheel reads no clock.
 *
 * A timer takes 40 bytes. An empty wheel takes three quarters of a kilobyte; memory is given back when timers
 * go.
 */
typedef struct punctual_wheel punctual_wheel;

/**
 * A clock for tests: it stands still until punctual_virtual_time_advance moves it, and what falls due
 * meanwhile goes off at its own time, in order. Nothing sleeps. It is in force for the threads that have
 * entered it; a timer belongs to the clock that was in force when it was made.
 */
typedef struct punctual_virtual_time punctual_virtual_time;

/**
 * A timer of a wheel, for as long as it is armed. Once it has fired or was removed its key is refused
 * for good, even when another timer has taken its place. Give it to its own wheel only: others may have a timer by the
 * same key. PUNCTUAL_NO_KEY is no timer's. PUNCTUAL_KEY_INDEX makes a small number of it.
 */
typedef uint64_t punctual_key;

/**
 * A timer of a punctual_wheel.
 */
typedef struct {
  /**
   * Its key; of a timer that was popped, the one it had.
   */
  punctual_key key;
  /**
   * The tick it is due at, or was: it may lie well before the tick it was popped at.
   */
  uint64_t deadline;
  /**
   * The value it was armed with.
   */
  void *value;
} punctual_wheel_timer;

/**
 * What a punctual_raw_wheel asks the owner of the timers. The functions should be a few instructions: they are
 * called once or twice in a timer's life. They must not use the wheel that calls them (it answers
 * PUNCTUAL_REENTERED), throw, or jump out.
 */
typedef struct {
  /**
   * Handed to the functions; may be NULL.
   */
  void *owner;
  /**
   * Required. If an entry of this generation still stands for the timer `index`: sets `*deadline` to the
   * deadline the timer has now and returns true. False if that entry is dead. Indices are those that were
   * given to punctual_raw_wheel_insert.
   *
   * Between two calls of the wheel's functions a deadline may only grow while the generation stays the same.
   * To re-arm a timer earlier, give it a new generation, insert that one and forget the old one. With
   * `order`, the same goes for re-arming it to the same tick.
   */
  bool (*deadline)(void *owner, uint32_t index, uint32_t generation, uint64_t *deadline);
  /**
   * The place of the timer's last arming among all armings, compared modulo 2^32: equal deadlines
   * are then popped in that order. NULL: in no particular order, and the wheel never sorts them.
   */
  uint32_t (*order)(void *owner, uint32_t index);
} punctual_raw_timers;

/**
 * Told where an entry of the timer `index` lies now. Keep `place`, a number below 1024, in the timer's record. The rules for
 * the functions of punctual_raw_timers hold.
 */
typedef void (*punctual_raw_moved)(void *owner, uint32_t index, uint32_t generation, uint16_t place);

/**
 * An entry that fell due and is out of the wheel.
 */
typedef struct {
  /**
   * The timer's deadline.
   */
  uint64_t deadline;
  /**
   * The timer's index.
   */
  uint32_t index;
  /**
   * The generation of the entry.
   */
  uint32_t generation;
} punctual_raw_due;

/**
 * A function that gets the argument it was given with.
 */
typedef void (*punctual_function)(void *argument);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the library that is loaded, as major * 1000000 + minor * 1000 + patch, like
 * PUNCTUAL_VERSION.
 *
 * Threads: any.
 */
uint32_t punctual_version(void);

/**
 * The version of the library that is loaded, such as "0.1.0": a static string, not to be freed.
 *
 * Threads: any.
 */
const char *punctual_version_string(void);

/**
 * A status in words: a static string, never NULL, not to be freed. Any number may be asked for.
 *
 * Threads: any.
 */
const char *punctual_strerror(int status);

/**
 * A new empty wheel; give it back with punctual_wheel_free. Never NULL. O(1).
 *
 * Threads: any.
 */
punctual_wheel *punctual_wheel_new(void);

/**
 * Frees a wheel and forgets its timers. What their values point to is the caller's: pop or list them
 * before. NULL is allowed. O(memory).
 *
 * Threads: one at a time, and nobody uses the wheel afterwards.
 */
void punctual_wheel_free(punctual_wheel *wheel);

/**
 * Arms a timer that falls due at `deadline` and carries `value`, which may be anything, NULL too. O(1).
 *
 * Returns its key; PUNCTUAL_NO_KEY if `wheel` is NULL or would hold more than 2^32 - 1 timers.
 *
 * Threads: one at a time.
 */
punctual_key punctual_wheel_insert(punctual_wheel *wheel,
                                   uint64_t deadline,
                                   void *value);

/**
 * Cancels a timer. `*value` becomes its value; `value` may be NULL. O(1).
 *
 * Returns PUNCTUAL_OK, or PUNCTUAL_STALE (then `*value` stays), PUNCTUAL_NULL.
 *
 * Threads: one at a time.
 */
punctual_status punctual_wheel_remove(punctual_wheel *wheel, punctual_key key, void **value);

/**
 * Arms a timer anew, earlier or later; its key stays good. O(1).
 *
 * Returns PUNCTUAL_OK, or PUNCTUAL_STALE, PUNCTUAL_NULL.
 *
 * Threads: one at a time.
 */
punctual_status punctual_wheel_reset(punctual_wheel *wheel, punctual_key key, uint64_t deadline);

/**
 * `*value` becomes the value of a timer; `value` may be NULL, to ask only whether it is armed. O(1).
 *
 * Returns PUNCTUAL_OK, or PUNCTUAL_STALE (then `*value` stays), PUNCTUAL_NULL.
 *
 * Threads: readers may overlap.
 */
punctual_status punctual_wheel_get(const punctual_wheel *wheel,
                                   punctual_key key,
                                   void **value);

/**
 * Gives a timer another value. O(1).
 *
 * Returns PUNCTUAL_OK, or PUNCTUAL_STALE, PUNCTUAL_NULL.
 *
 * Threads: one at a time.
 */
punctual_status punctual_wheel_set(punctual_wheel *wheel, punctual_key key, void *value);

/**
 * Where a timer's value is, to be read or changed in place until the next call that changes the wheel; NULL
 * if the key is stale or `wheel` is NULL. O(1).
 *
 * Threads: one at a time.
 */
void **punctual_wheel_at(punctual_wheel *wheel,
                         punctual_key key);

/**
 * `*deadline` becomes the tick a timer is due at; `deadline` may be NULL. O(1).
 *
 * Returns PUNCTUAL_OK, or PUNCTUAL_STALE (then `*deadline` stays), PUNCTUAL_NULL.
 *
 * Threads: readers may overlap.
 */
punctual_status punctual_wheel_deadline(const punctual_wheel *wheel,
                                        punctual_key key,
                                        uint64_t *deadline);

/**
 * Takes out the first timer that is due at `now`, which is one with a deadline at or before it. `now` may
 * stand still or step back. `*expired` becomes the timer; `expired` may be NULL. O(1) amortised.
 *
 * Returns PUNCTUAL_OK, or PUNCTUAL_IDLE if nothing is due (then `*expired` stays), PUNCTUAL_NULL.
 *
 * Threads: one at a time.
 */
punctual_status punctual_wheel_pop_due(punctual_wheel *wheel,
                                       uint64_t now,
                                       punctual_wheel_timer *expired);

/**
 * Takes out up to `capacity` timers that are due at `now`, in order, into the array `expired`: one call
 * for many. Fewer than `capacity` means that no more are due. O(1) amortised for each.
 *
 * Returns how many; 0 if `wheel` or `expired` is NULL.
 *
 * Threads: one at a time.
 *
 * `expired` is NULL or has room for `capacity` timers.
 */
size_t punctual_wheel_pop_due_many(punctual_wheel *wheel,
                                   uint64_t now,
                                   punctual_wheel_timer *expired,
                                   size_t capacity);

/**
 * punctual_wheel_pop_due with bounded work: every timer popped takes 1 from `*budget`, and so does every entry
 * that the wheel moves or drops meanwhile. A million timers due in one tick are popped over as many
 * calls as the caller has other things to do in between. O(*budget).
 *
 * Returns PUNCTUAL_OK (a timer: `*expired`, if not NULL), PUNCTUAL_IDLE (nothing is due),
 * PUNCTUAL_BUSY (the budget is used up; there may be more), or PUNCTUAL_NULL if `wheel` or `budget` is.
 *
 * Threads: one at a time.
 */
punctual_status punctual_wheel_poll(punctual_wheel *wheel,
                                    uint64_t now,
                                    size_t *budget,
                                    punctual_wheel_timer *expired);

/**
 * `*deadline` becomes the earliest deadline; it may be NULL. It may put timers in order, which is work
 * done early, not work added. O(1) amortised.
 *
 * Returns PUNCTUAL_OK, or PUNCTUAL_IDLE if no timer is armed (then `*deadline` stays), PUNCTUAL_NULL.
 *
 * Threads: one at a time.
 */
punctual_status punctual_wheel_next_deadline(punctual_wheel *wheel,
                                             uint64_t *deadline);

/**
 * `*tick` becomes a lower bound of all deadlines; it may be NULL. After punctual_wheel_pop_due(wheel, now) has
 * answered PUNCTUAL_IDLE it lies after `now`, so a loop that sleeps until then and pops makes progress. O(1).
 *
 * Returns PUNCTUAL_OK, or PUNCTUAL_IDLE if no timer is armed (then `*tick` stays), PUNCTUAL_NULL.
 *
 * Threads: readers may overlap.
 */
punctual_status punctual_wheel_next_wakeup(const punctual_wheel *wheel,
                                           uint64_t *tick);

/**
 * How many timers are armed; 0 if `wheel` is NULL. O(1).
 *
 * Threads: readers may overlap.
 */
size_t punctual_wheel_len(const punctual_wheel *wheel);

/**
 * Copies armed timers, in no particular order, to the array `timers`: all of them if `capacity` is at
 * least punctual_wheel_len(wheel). O(n).
 *
 * Returns how many were copied; 0 if `wheel` or `timers` is NULL.
 *
 * Threads: readers may overlap.
 *
 * `timers` is NULL or has room for `capacity` timers.
 */
size_t punctual_wheel_list(const punctual_wheel *wheel,
                           punctual_wheel_timer *timers,
                           size_t capacity);

/**
 * Cancels all timers; their keys are stale from now on. O(n).
 *
 * Returns PUNCTUAL_OK, or PUNCTUAL_NULL.
 *
 * Threads: one at a time.
 */
punctual_status punctual_wheel_clear(punctual_wheel *wheel);

/**
 * Gives back what memory can be given back without touching armed timers. The wheel does this by itself
 * when it empties after being large. O(n).
 *
 * Returns PUNCTUAL_OK, or PUNCTUAL_NULL.
 *
 * Threads: one at a time.
 */
punctual_status punctual_wheel_shrink(punctual_wheel *wheel);

/**
 * Bytes that the wheel and its timers take; 0 if `wheel` is NULL. O(1), or nearly so.
 *
 * Threads: readers may overlap.
 */
size_t punctual_wheel_memory(const punctual_wheel *wheel);

/**
 * A new empty wheel for the timers that `timers` tells of; give it back with punctual_raw_wheel_free. The
 * table is copied; what its `owner` points to must live as long as the wheel. O(1).
 *
 * Returns NULL if `timers` or its `deadline` is NULL.
 *
 * Threads: any.
 */
punctual_raw_wheel *punctual_raw_wheel_new(const punctual_raw_timers *timers);

/**
 * Frees a wheel. The timers are not asked. NULL is allowed. O(memory).
 *
 * Threads: one at a time, not from a callback of the wheel, and nobody uses it afterwards.
 */
void punctual_raw_wheel_free(punctual_raw_wheel *wheel);

/**
 * Files an entry for the timer `index`, whose deadline the caller has just set in its record. O(1).
 *
 * Returns PUNCTUAL_OK, or PUNCTUAL_NULL, PUNCTUAL_REENTERED.
 *
 * Threads: one at a time.
 */
punctual_status punctual_raw_wheel_insert(punctual_raw_wheel *wheel,
                                          uint64_t deadline,
                                          uint32_t index,
                                          uint32_t generation);

/**
 * Has the wheel tell `moved` where entries lie: each when it is inserted, and again when it is filed elsewhere. That is what
 * punctual_raw_wheel_reuse wants to know. Of entries that were inserted before nothing is told until they move, so call
 * this first. NULL: nobody is told, as at first.
 *
 * Returns PUNCTUAL_OK, or PUNCTUAL_NULL if `wheel` is.
 *
 * Threads: one at a time.
 *
 * `moved` can be called with the wheel's owner, from within the wheel's functions.
 */
punctual_status punctual_raw_wheel_watch(punctual_raw_wheel *wheel,
                                         punctual_raw_moved moved);

/**
 * Re-arms a timer for an earlier deadline, which the caller has just set in its record, without filing anything, if its
 * entry can stand for that too: it lies at `place`, as was told last, and in a slot that holds the new deadline as well.
 * The generation stays. (To re-arm later nothing need be asked.) O(1).
 *
 * Returns PUNCTUAL_OK, or PUNCTUAL_IDLE if the entry cannot: then take a new generation, insert that and forget the old one.
 * PUNCTUAL_NULL if `wheel` is, or nobody is told of places (punctual_raw_wheel_watch); PUNCTUAL_REENTERED.
 *
 * Threads: one at a time.
 */
punctual_status punctual_raw_wheel_reuse(punctual_raw_wheel *wheel,
                                         uint16_t place,
                                         uint64_t deadline,
                                         uint32_t index,
                                         uint32_t generation);

/**
 * Tells the wheel that one filed entry has died: its owner now answers false for it. Now and
 * then the wheel looks at a few entries, so that dead ones stay fewer than the live ones and some 256. O(1).
 *
 * Returns PUNCTUAL_OK, or PUNCTUAL_NULL, PUNCTUAL_REENTERED.
 *
 * Threads: one at a time.
 */
punctual_status punctual_raw_wheel_forget(punctual_raw_wheel *wheel);

/**
 * Takes out the first entry that is due at `now`. `*due` becomes the entry; it may be NULL. O(1) amortised.
 *
 * Returns PUNCTUAL_OK, or PUNCTUAL_IDLE if nothing is due (then `*due` stays), PUNCTUAL_NULL,
 * PUNCTUAL_REENTERED.
 *
 * Threads: one at a time.
 */
punctual_status punctual_raw_wheel_pop_due(punctual_raw_wheel *wheel,
                                           uint64_t now,
                                           punctual_raw_due *due);

/**
 * punctual_raw_wheel_pop_due with bounded work: every entry moved, dropped or looked at takes 1 from
 * `*budget`; the last piece of work may overdraw it by less than 512 entries. O(*budget).
 *
 * Returns PUNCTUAL_OK (an entry: `*due`, if not NULL), PUNCTUAL_IDLE (nothing is due), PUNCTUAL_BUSY (the
 * budget is used up; there may be more), or PUNCTUAL_NULL if `wheel` or `budget` is, PUNCTUAL_REENTERED.
 *
 * Threads: one at a time.
 */
punctual_status punctual_raw_wheel_poll(punctual_raw_wheel *wheel,
                                        uint64_t now,
                                        size_t *budget,
                                        punctual_raw_due *due);

/**
 * `*deadline` becomes the earliest deadline of all timers; it may be NULL. O(1) amortised.
 *
 * Returns PUNCTUAL_OK, or PUNCTUAL_IDLE if there are none (then `*deadline` stays), PUNCTUAL_NULL,
 * PUNCTUAL_REENTERED.
 *
 * Threads: one at a time.
 */
punctual_status punctual_raw_wheel_next_deadline(punctual_raw_wheel *wheel, uint64_t *deadline);

/**
 * `*tick` becomes a tick before which nothing is due and at which something may be; it may be NULL. A
 * loop that sleeps until then and pops may wake up to find nothing due; that costs it one look. O(1).
 *
 * Returns PUNCTUAL_OK, or PUNCTUAL_IDLE if there are no entries (then `*tick` stays), PUNCTUAL_NULL,
 * PUNCTUAL_REENTERED.
 *
 * Threads: one at a time.
 */
punctual_status punctual_raw_wheel_next_wakeup(punctual_raw_wheel *wheel,
                                               uint64_t *tick);

/**
 * Entries filed and not forgotten: as many as there are timers armed. 0 if `wheel` is NULL or is
 * just calling. O(1).
 *
 * Threads: one at a time.
 */
size_t punctual_raw_wheel_len(punctual_raw_wheel *wheel);

/**
 * Drops all entries and gives all memory back. The timers are not asked. O(memory).
 *
 * Returns PUNCTUAL_OK, or PUNCTUAL_NULL, PUNCTUAL_REENTERED.
 *
 * Threads: one at a time.
 */
punctual_status punctual_raw_wheel_clear(punctual_raw_wheel *wheel);

/**
 * Bytes that the wheel takes; 0 if `wheel` is NULL or is just calling. O(memory / 64 KiB).
 *
 * Threads: one at a time.
 */
size_t punctual_raw_wheel_memory(punctual_raw_wheel *wheel);

/**
 * The time, in nanoseconds since some moment early in the life of the process: of the monotonic clock, or of
 * the virtual one that the calling thread has entered (punctual_virtual_time_enter).
 *
 * Threads: any.
 */
int64_t punctual_now_ns(void);

/**
 * Sleeps for so many nanoseconds, never less; not at all if `ns` is not positive. On a virtual clock it waits
 * until another thread has advanced that.
 *
 * Returns PUNCTUAL_OK, or PUNCTUAL_REENTERED in a callback of a virtual clock, which would wait for itself.
 *
 * Threads: any.
 */
punctual_status punctual_sleep_ns(int64_t ns);

/**
 * Arms a timer that calls `function(argument)` in `delay_ns` nanoseconds, never earlier, on a thread of the
 * library, so that a function that takes long delays no other timer. (On a virtual clock: within
 * punctual_virtual_time_advance.) The function may use the timer: reset it, stop it, free it. It must not
 * throw or jump out.
 *
 * `argument` is the library's from now on, whatever is returned: `destroy`, if not NULL, is called with it, by
 * any thread, when the timer is freed and no call is going on or to come.
 *
 * Returns the timer, to be given back with punctual_timer_free or punctual_timer_detach. NULL if `function`
 * is NULL, the library's thread cannot be started, or this process is a fork (punctual_time_is_forked).
 *
 * Threads: any.
 *
 * `function` and `destroy` can be called by any thread with `argument`. If the timer is reset before the
 * function has returned, two calls may overlap.
 */
punctual_timer *punctual_after_func(int64_t delay_ns,
                                    punctual_function function,
                                    void *argument,
                                    punctual_function destroy);

/**
 * Stops a timer. Afterwards it is not armed and can be reset.
 *
 * Returns true if this disarmed it: the function will not be called. False if it was not armed: the function
 * was called, is just being called, or will be in a moment. False if `timer` is NULL.
 *
 * Threads: any.
 */
bool punctual_timer_stop(const punctual_timer *timer);

/**
 * Arms a timer again that has fired or was stopped; its own function may do that.
 *
 * Returns PUNCTUAL_OK, PUNCTUAL_NULL, PUNCTUAL_FORKED, or PUNCTUAL_ARMED if it is armed: then it stays as it is. Stop it
 * first.
 *
 * Threads: any.
 */
punctual_status punctual_timer_reset(const punctual_timer *timer,
                                     int64_t delay_ns);

/**
 * Disarms a timer and frees it. A call that has begun goes on, and the argument is destroyed after it. NULL is
 * allowed.
 *
 * Threads: any, the function included; nobody uses the timer afterwards.
 */
void punctual_timer_free(punctual_timer *timer);

/**
 * Frees a timer but leaves it armed: it will call, and then destroy the argument. NULL is allowed.
 *
 * Threads: any, the function included; nobody uses the timer afterwards.
 */
void punctual_timer_detach(punctual_timer *timer);

/**
 * Calls `function(argument)` at every period from now, on a thread of the library. Calls never overlap: what
 * comes while one is going on is skipped, not made up for, and the ticks stay at multiples of the period. (On
 * a virtual clock: within punctual_virtual_time_advance.) The function may stop and free the ticker. It must
 * not throw or jump out.
 *
 * `argument` is the library's from now on, whatever is returned: `destroy`, if not NULL, is called with it, by
 * any thread, when the ticker was freed and no call is going on.
 *
 * Returns the ticker, to be given back with punctual_ticker_free. NULL if `period_ns` is not positive,
 * `function` is NULL, the library's thread cannot be started, or this process is a fork (punctual_time_is_forked).
 *
 * Threads: any.
 *
 * `function` and `destroy` can be called by any thread with `argument`.
 */
punctual_ticker *punctual_ticker_new(int64_t period_ns,
                                     punctual_function function,
                                     void *argument,
                                     punctual_function destroy);

/**
 * Stops a ticker for good. A call that has begun, or is just beginning on another thread, goes on; no other comes.
 *
 * Returns true if this stopped it, false if it was stopped before or `ticker` is NULL.
 *
 * Threads: any.
 */
bool punctual_ticker_stop(const punctual_ticker *ticker);

/**
 * Stops a ticker and frees it. A call that has begun goes on, and the argument is destroyed after it. NULL is
 * allowed.
 *
 * Threads: any, the function included; nobody uses the ticker afterwards.
 */
void punctual_ticker_free(punctual_ticker *ticker);

/**
 * A new virtual clock, which shows the time that the real one shows now; give it back with
 * punctual_virtual_time_free. NULL if it cannot be made, which is a defect.
 *
 * Threads: any.
 */
punctual_virtual_time *punctual_virtual_time_new(void);

/**
 * Frees a virtual clock. Threads that have entered it keep to it until they leave, or end; it is gone when
 * they and the timers on it are. NULL is allowed.
 *
 * Threads: any; nobody uses it afterwards, but to leave it.
 */
void punctual_virtual_time_free(punctual_virtual_time *clock);

/**
 * From now on this thread keeps to the virtual clock: what it asks for, sleeps and arms is told and done by
 * that. What it entered before is in force again when it leaves this one.
 *
 * Returns PUNCTUAL_OK, or PUNCTUAL_NULL.
 *
 * Threads: any.
 */
punctual_status punctual_virtual_time_enter(const punctual_virtual_time *clock);

/**
 * Ends what this thread's latest punctual_virtual_time_enter of the clock began. `clock` may have been freed
 * since.
 *
 * Returns PUNCTUAL_OK, or PUNCTUAL_STALE if the thread has not entered it, PUNCTUAL_NULL.
 *
 * Threads: any.
 */
punctual_status punctual_virtual_time_leave(const punctual_virtual_time *clock);

/**
 * Whether the calling thread keeps to a virtual clock, as it does in a callback of one.
 *
 * Threads: any.
 */
bool punctual_time_is_virtual(void);

/**
 * Whether the calling thread runs a callback of a virtual clock: it must not wait for that clock, which stands until the
 * callback has returned.
 *
 * Threads: any.
 */
bool punctual_time_is_advancing(void);

/**
 * The time a virtual clock shows, as punctual_now_ns tells it; 0 if `clock` is NULL.
 *
 * Threads: any.
 */
int64_t punctual_virtual_time_now_ns(const punctual_virtual_time *clock);

/**
 * Moves a virtual clock forward by `ns` nanoseconds, 0 if that is negative. It goes from one deadline to the
 * next: each timer fires at its own time, on the calling thread, and what its function arms is among them.
 *
 * Returns PUNCTUAL_OK, PUNCTUAL_NULL, or PUNCTUAL_REENTERED if a callback of a virtual clock asks for it.
 *
 * Threads: any; if two do it at once, one does it after the other.
 */
punctual_status punctual_virtual_time_advance(const punctual_virtual_time *clock,
                                              int64_t ns);

/**
 * Moves a virtual clock forward to the earliest deadline on it, and fires what is due then.
 *
 * Returns PUNCTUAL_OK, PUNCTUAL_IDLE if nothing is armed, PUNCTUAL_NULL, or PUNCTUAL_REENTERED if a callback
 * of a virtual clock asks for it.
 *
 * Threads: any; if two do it at once, one does it after the other.
 */
punctual_status punctual_virtual_time_advance_to_next(const punctual_virtual_time *clock);

/**
 * How many timers and sleepers wait for a virtual clock; 0 if `clock` is NULL.
 *
 * Threads: any.
 */
size_t punctual_virtual_time_pending(const punctual_virtual_time *clock);

/**
 * Waits until at least `count` timers and sleepers wait for a virtual clock: before advancing it, until
 * another thread has gone to sleep.
 *
 * Returns PUNCTUAL_OK, or PUNCTUAL_NULL.
 *
 * Threads: any.
 */
punctual_status punctual_virtual_time_wait_for_pending(const punctual_virtual_time *clock,
                                                       size_t count);

/**
 * Whether this process is the child of a fork whose parent has had timers on the real clock. It has none, and cannot make
 * any: punctual_after_func and punctual_ticker_new answer NULL, the parent's timers are not armed and freeing them does
 * nothing. Virtual clocks, sleeping and the wheels work as ever.
 *
 * Threads: any.
 */
bool punctual_time_is_forked(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PUNCTUAL_H */
