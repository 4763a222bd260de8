/*
** Additions to Lua. Rust calls the functions for tables, and nothing else uses the stack
** meanwhile. The functions check the values on the stack and return 0 (punctual_next: -1) for
** values of the wrong type, so that wrong arguments cannot corrupt memory.
*/

#include <limits.h>
#include <math.h>
#include <string.h>

#define lstring_c
#define LUA_CORE

#include "lua.h"

#include "lgc.h"
#include "lobject.h"
#include "lstate.h"
#include "lstring.h"
#include "ltable.h"


/* The hash that decides the order of `next': all bytes, as in Redis. */
unsigned int punctual_keyhash (const char *str, size_t l) {
  unsigned int h = cast(unsigned int, l);
  for (; l > 0; l--)
    h = h ^ ((h<<5)+(h>>2)+cast(unsigned char, str[l-1]));
  return h;
}


/* The same hash of a long string. It is computed once and stored after the string's bytes. */
unsigned int punctual_longkeyhash (TString *ts) {
  const int hashedbit = 7;
  char *place = cast(char *, ts + 1) + ts->tsv.len + 1;
  unsigned int h;
  if (testbit(ts->tsv.marked, hashedbit)) {
    memcpy(&h, place, sizeof(h));
    return h;
  }
  h = punctual_keyhash(getstr(ts), ts->tsv.len);
  memcpy(place, &h, sizeof(h));
  l_setbit(ts->tsv.marked, hashedbit);
  return h;
}


/* The hash of a long string in the table of all strings: processes 16 bytes a step. */
unsigned int punctual_longhash (const char *str, size_t l) {
  const unsigned long long odd = 0x9e3779b97f4a7c15ull;
  unsigned long long a = l, b = odd, words[2];
  size_t at = 0;
  while (at < l) {
    /* The last step may overlap the step before it. */
    size_t from = (at + sizeof(words) <= l) ? at : l - sizeof(words);
    memcpy(words, str + from, sizeof(words));
    a = (a ^ words[0]) * odd;
    b = (b ^ words[1]) * odd;
    a ^= a >> 32;
    b ^= b >> 32;
    at += sizeof(words);
  }
  a = (a ^ (b << 1)) * odd;
  return cast(unsigned int, a >> 32);
}


/* Pops a value and a key, which must be a string, and sets them in the table below them. */
LUA_API int punctual_setelement (lua_State *L) {
  StkId t = L->top - 3;
  if (t < L->base || !ttistable(t) || hvalue(t)->readonly || !ttisstring(t + 1))
    return 0;
  hvalue(t)->flags = 0;
  setobj2t(L, luaH_setstr(L, hvalue(t), rawtsvalue(t + 1)), t + 2);
  luaC_barriert(L, hvalue(t), t + 2);
  L->top -= 2;
  return 1;
}


/* Pops a value and sets it as element n of the table below it, which has the elements 1 to n - 1. */
LUA_API int punctual_append (lua_State *L, int n) {
  const int largest = 1 << 25;
  StkId t = L->top - 2;
  if (t < L->base || !ttistable(t) || hvalue(t)->readonly)
    return 0;
  /* `luaH_setnum' would compute the same size by counting all elements. */
  if (n > 0 && n - 1 == hvalue(t)->sizearray && n - 1 <= largest)
    luaH_resizearray(L, hvalue(t), n == 1 ? 1 : 2 * (n - 1));
  setobj2t(L, luaH_setnum(L, hvalue(t), n), t + 1);
  luaC_barriert(L, hvalue(t), t + 1);
  L->top--;
  return 1;
}


/*
** Does the same as `lua_next' without searching for the key: replaces the key at the top by the
** next key of the table below it, and pushes the value. `i' is 0 for the first call, then the
** result of the call before. After the last pair, pops the key and returns 0.
*/
LUA_API int punctual_next (lua_State *L, int i) {
  StkId key = L->top - 1;
  Table *t;
  if (key - 1 < L->base || !ttistable(key - 1) || i < 0)
    return -1;
  t = hvalue(key - 1);
  for (; i < t->sizearray; i++) {
    if (!ttisnil(&t->array[i])) {
      setnvalue(key, cast_num(i + 1));
      setobj2s(L, key + 1, &t->array[i]);
      L->top++;
      return i + 1;
    }
  }
  for (i -= t->sizearray; i < sizenode(t); i++) {
    if (!ttisnil(gval(gnode(t, i)))) {
      setobj2s(L, key, key2tval(gnode(t, i)));
      setobj2s(L, key + 1, gval(gnode(t, i)));
      L->top++;
      return i + t->sizearray + 1;
    }
  }
  L->top--;
  return 0;
}


/*
** Returns 1 if all keys of the table at the top are integers above 0, otherwise 0. Stores their
** number and the greatest key. A key above INT_MAX sets the greatest key so far to INT_MIN.
*/
LUA_API int punctual_arraykeys (lua_State *L, int *max, int *items) {
  StkId o = L->top - 1;
  Table *t;
  int i;
  *max = *items = 0;
  if (o < L->base || !ttistable(o))
    return 0;
  t = hvalue(o);
  for (i = 0; i < t->sizearray; i++) {
    if (!ttisnil(&t->array[i])) {
      *max = i + 1;
      *items += 1;
    }
  }
  for (i = 0; i < sizenode(t); i++) {
    Node *n = gnode(t, i);
    lua_Number k;
    if (ttisnil(gval(n)))
      continue;
    if (!ttisnumber(key2tval(n)))
      return 0;
    k = nvalue(key2tval(n));
    if (k < 1 || floor(k) != k)
      return 0;
    if (k > *max)
      *max = (k <= INT_MAX) ? cast_int(k) : INT_MIN;
    *items += 1;
  }
  return 1;
}


/* Returns whether the running function may push n more values. Unlike lua_checkstack, does not
** make room. */
LUA_API int punctual_hasroom (lua_State *L, int n) {
  return L->ci->top - L->top >= n;
}
