//! The edits to the sources of Lua 5.1.5, each with its reason. The build fails if the text of an
//! edit does not occur exactly [`Edit::times`] times, so a new version of the sources cannot drop
//! an edit silently.

/// One edit: in `file`, replaces each of the `times` occurrences of `from` with `to`.
struct Edit {
    file: &'static str,
    from: &'static str,
    to: &'static str,
    times: usize,
}

const fn edit(file: &'static str, from: &'static str, to: &'static str) -> Edit {
    Edit {
        file,
        from,
        to,
        times: 1,
    }
}

#[rustfmt::skip]
const EDITS: &[Edit] = &[
    // Read-only tables: scripts share the globals and the libraries, so no script may change them.
    edit("lobject.h",
        "  lu_byte lsizenode;  /* log2 of size of `node' array */",
        "  lu_byte lsizenode;  /* log2 of size of `node' array */\n  lu_byte readonly;"),
    edit("ltable.c",
        "  t->flags = cast_byte(~0);",
        "  t->flags = cast_byte(~0);\n  t->readonly = 0;"),
    edit("lvm.c",
        "      TValue *oldval = luaH_set(L, h, key); /* do a primitive set */",
        "      TValue *oldval;\n      if (h->readonly) luaG_runerror(L, \"Attempt to modify a readonly table\");\n      oldval = luaH_set(L, h, key);"),
    edit("lapi.c",
        "  setobj2t(L, luaH_set(L, hvalue(t), L->top-2), L->top-1);",
        "  if (hvalue(t)->readonly) luaG_runerror(L, \"Attempt to modify a readonly table\");\n  setobj2t(L, luaH_set(L, hvalue(t), L->top-2), L->top-1);"),
    edit("lapi.c",
        "  setobj2t(L, luaH_setnum(L, hvalue(o), n), L->top-1);",
        "  if (hvalue(o)->readonly) luaG_runerror(L, \"Attempt to modify a readonly table\");\n  setobj2t(L, luaH_setnum(L, hvalue(o), n), L->top-1);"),
    edit("lapi.c",
        "      hvalue(obj)->metatable = mt;",
        "      if (hvalue(obj)->readonly) luaG_runerror(L, \"Attempt to modify a readonly table\");\n      hvalue(obj)->metatable = mt;"),
    edit("lapi.c",
        "LUA_API int lua_setfenv (lua_State *L, int idx) {",
        "LUA_API int punctual_isreadonly (lua_State *L, int idx) {\n  StkId t = index2adr(L, idx);\n  return ttistable(t) && hvalue(t)->readonly;\n}\n\n\nLUA_API void punctual_setreadonly (lua_State *L, int idx, int on) {\n  StkId t = index2adr(L, idx);\n  if (ttistable(t)) hvalue(t)->readonly = cast_byte(on != 0);\n}\n\n\nLUA_API int lua_setfenv (lua_State *L, int idx) {"),
    // Lua does not verify bytecode, so crafted bytecode can read and write any memory. Only source
    // text is loaded.
    edit("ldo.c",
        "((c == LUA_SIGNATURE[0]) ? luaU_undump : luaY_parser)(L, p->z,",
        "luaY_parser(L, p->z,"),
    // CVE-2025-49844: while the parser allocates, the chunk's name is not on the stack, so the
    // collector could free it. The edit puts the name on the stack.
    edit("lparser.c",
        "  luaX_setinput(L, &lexstate, z, luaS_new(L, name));",
        "  TString *source = luaS_new(L, name);\n  setsvalue2s(L, L->top, source);\n  incr_top(L);\n  luaX_setinput(L, &lexstate, z, source);"),
    edit("lparser.c",
        "  lua_assert(lexstate.fs == NULL);\n  return funcstate.f;",
        "  lua_assert(lexstate.fs == NULL);\n  L->top--;\n  return funcstate.f;"),
    // Redis's Lua hashes all bytes of each string, which takes some cycles per byte. The order of
    // `next` depends on this hash. Here a long string gets the hash only when it is first used as a
    // key. Lua's table of all strings uses a faster hash for long strings.
    edit("lstring.c",
        "  unsigned int h = cast(unsigned int, l);  /* seed */\n  size_t step = (l>>5)+1;  /* if string is too long, don't hash all its chars */\n  size_t l1;\n  for (l1=l; l1>=step; l1-=step)  /* compute hash */\n    h = h ^ ((h<<5)+(h>>2)+cast(unsigned char, str[l1-1]));",
        "  unsigned int h = islong(l) ? punctual_longhash(str, l) : punctual_keyhash(str, l);"),
    edit("lstring.c",
        "luaM_malloc(L, (l+1)*sizeof(char)+sizeof(TString)));",
        "luaM_malloc(L, sizechars(l)+sizeof(TString)));"),
    edit("lstring.h",
        "#define sizestring(s)\t(sizeof(union TString)+((s)->len+1)*sizeof(char))",
        "#define islong(l)\t((l) > 40)\n#define sizechars(l)\t(((l)+1)*sizeof(char)+(islong(l) ? sizeof(unsigned int) : 0))\n#define sizestring(s)\t(sizeof(union TString)+sizechars((s)->len))\n\nLUAI_FUNC unsigned int punctual_keyhash (const char *str, size_t l);\nLUAI_FUNC unsigned int punctual_longhash (const char *str, size_t l);\nLUAI_FUNC unsigned int punctual_longkeyhash (TString *ts);"),
    edit("ltable.c",
        "#define hashstr(t,str)  hashpow2(t, (str)->tsv.hash)",
        "#include \"lstring.h\"\n#define hashstr(t,str) \\\n  hashpow2(t, islong((str)->tsv.len) ? punctual_longkeyhash(str) : (str)->tsv.hash)"),
    // The keys of a table are distinct, so a table that grows inserts its strings again without
    // looking each of them up.
    edit("ltable.c",
        "static void resize (lua_State *L, Table *t, int nasize, int nhsize) {",
        "static TValue *newkey (lua_State *L, Table *t, const TValue *key);\n\nstatic void resize (lua_State *L, Table *t, int nasize, int nhsize) {"),
    edit("ltable.c",
        "      setobjt2t(L, luaH_set(L, t, key2tval(old)), gval(old));",
        "      setobjt2t(L, ttisstring(gkey(old)) ? newkey(L, t, key2tval(old)) : luaH_set(L, t, key2tval(old)), gval(old));"),
    // Scripts always run with a hook that counts instructions. A hook for lines is set only
    // together with a count of 1 (see `interrupts` in `raw/state.rs`). So checking the count is
    // enough.
    edit("lvm.c",
        "    if ((L->hookmask & (LUA_MASKLINE | LUA_MASKCOUNT)) &&\n        (--L->hookcount == 0 || L->hookmask & LUA_MASKLINE)) {",
        "    if (__builtin_expect(--L->hookcount == 0, 0)) {"),
    // CVE-2025-46819: the number of equals signs in a long bracket could overflow an int.
    edit("llex.c",
        "    save_and_next(ls);\n    count++;\n",
        "    save_and_next(ls);\n    if (++count >= MAX_INT/4) luaX_lexerror(ls, \"lexical element too long\", 0);\n"),
    // `match` calls itself for some items of a pattern, so the depth is limited: a long pattern
    // must not exhaust the thread's stack.
    edit("lstrlib.c",
        "  int level;  /* total number of captures (finished or unfinished) */",
        "  int depth;  /* calls of `match' that have not returned */\n  int level;  /* total number of captures (finished or unfinished) */"),
    edit("lstrlib.c",
        "static const char *match (MatchState *ms, const char *s, const char *p) {\n  init:",
        "static const char *do_match (MatchState *ms, const char *s, const char *p);\n\nstatic const char *match (MatchState *ms, const char *s, const char *p) {\n  const char *end;\n  if (++ms->depth > 2000) luaL_error(ms->L, \"pattern too complex\");\n  end = do_match(ms, s, p);\n  ms->depth--;\n  return end;\n}\n\nstatic const char *do_match (MatchState *ms, const char *s, const char *p) {\n  init:"),
    Edit {
        file: "lstrlib.c",
        from: "  ms.L = L;",
        to: "  ms.L = L;\n  ms.depth = 0;",
        times: 3,
    },
    // `os` has only `clock`. Its other functions access the process, its files and its environment.
    edit("loslib.c",
        "  {\"date\",      os_date},\n  {\"difftime\",  os_difftime},\n  {\"execute\",   os_execute},\n  {\"exit\",      os_exit},\n  {\"getenv\",    os_getenv},\n  {\"remove\",    os_remove},\n  {\"rename\",    os_rename},\n  {\"setlocale\", os_setlocale},\n  {\"time\",      os_time},\n  {\"tmpname\",   os_tmpname},\n",
        ""),
    // As in Redis, `pcall` returns the text of an error table, because scripts for older versions
    // expect a string. `pcall` without arguments returns the error that Redis returns.
    edit("lbaselib.c",
        "  luaL_checkany(L, 1);\n  status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);\n",
        "  if (lua_gettop(L) == 0) {\n    lua_pushboolean(L, 0);\n    lua_pushliteral(L, \"attempt to call a boolean value\");\n    return 2;\n  }\n  status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);\n  if (status != 0 && lua_istable(L, -1)) {\n    lua_getfield(L, -1, \"err\");\n    if (lua_isstring(L, -1)) lua_replace(L, -2);\n  }\n"),
    // All scripts share the collector, so a script may not stop or tune it. `collectgarbage`
    // returns the values of a collector with default settings.
    edit("lbaselib.c",
        "  int res = lua_gc(L, optsnum[o], ex);\n",
        "  int res = 0;\n  switch (optsnum[o]) {\n    case LUA_GCSTOP: case LUA_GCRESTART: break;\n    case LUA_GCSETPAUSE: res = LUAI_GCPAUSE; break;\n    case LUA_GCSETSTEPMUL: res = LUAI_GCMUL; break;\n    default: res = lua_gc(L, optsnum[o], ex); punctual_worked(L, (size_t)lua_gc(L, LUA_GCCOUNT, 0));\n  }\n"),
    // Work of C code counts as instructions, so that the hook runs in time. `punctual_worked` only
    // counts, and the hook runs at the next instruction: it is for work with a bounded time.
    // `punctual_work` counts and runs the hook at once if it is due: it is for loops that may take
    // forever.
    edit("lua.h",
        "LUA_API lua_State *(lua_newstate) (lua_Alloc f, void *ud);",
        "LUA_API lua_State *(lua_newstate) (lua_Alloc f, void *ud);\nLUA_API void punctual_worked (lua_State *L, size_t steps);\nLUA_API void punctual_work (lua_State *L, size_t steps);"),
    edit("ldebug.c",
        "LUA_API lua_Hook lua_gethook (lua_State *L) {",
        "LUA_API void punctual_worked (lua_State *L, size_t steps) {\n  if (L->hookcount > 0)\n    L->hookcount = (steps < (size_t)L->hookcount) ? L->hookcount - (int)steps : 1;\n}\n\n\nLUA_API void punctual_work (lua_State *L, size_t steps) {\n  punctual_worked(L, steps);\n  if (L->hookcount == 1 && L->hook && L->allowhook) {\n    resethookcount(L);\n    (*L->hook)(L, NULL);\n  }\n}\n\n\nLUA_API lua_Hook lua_gethook (lua_State *L) {"),
    edit("lstring.c",
        "  for (o = G(L)->strt.hash[lmod(h, G(L)->strt.size)];",
        "  if (l >= 64) punctual_worked(L, l>>6);\n  for (o = G(L)->strt.hash[lmod(h, G(L)->strt.size)];"),
    edit("lvm.c",
        "  size_t lr = rs->tsv.len;\n  for (;;) {",
        "  size_t lr = rs->tsv.len;\n  if (ll >= 64 && lr >= 64) punctual_worked(L, ((ll < lr) ? ll : lr)>>6);\n  for (;;) {"),
    edit("lvm.c",
        "static int l_strcmp (const TString *ls, const TString *rs) {",
        "static int l_strcmp (lua_State *L, const TString *ls, const TString *rs) {"),
    Edit {
        file: "lvm.c",
        from: "l_strcmp(rawtsvalue(l), rawtsvalue(r))",
        to: "l_strcmp(L, rawtsvalue(l), rawtsvalue(r))",
        times: 2,
    },
    edit("ltable.c",
        "  int i = findindex(L, t, key);  /* find original element */\n  for (i++; i < t->sizearray; i++) {  /* try first array part */\n    if (!ttisnil(&t->array[i])) {  /* a non-nil value? */\n",
        "  int i = findindex(L, t, key);  /* find original element */\n  int from = i;\n  for (i++; i < t->sizearray; i++) {  /* try first array part */\n    if (!ttisnil(&t->array[i])) {  /* a non-nil value? */\n      if (i - from >= 8) punctual_worked(L, (size_t)(i - from)>>3);\n"),
    edit("ltable.c",
        "  for (i -= t->sizearray; i < sizenode(t); i++) {  /* then hash part */\n",
        "  if (i - from >= 8) punctual_worked(L, (size_t)(i - from)>>3);\n  from = i -= t->sizearray;\n  for (; i < sizenode(t); i++) {  /* then hash part */\n"),
    edit("ltable.c",
        "      setobj2s(L, key+1, gval(gnode(t, i)));\n      return 1;\n    }\n  }\n  return 0;  /* no more elements */",
        "      setobj2s(L, key+1, gval(gnode(t, i)));\n      if (i - from >= 8) punctual_worked(L, (size_t)(i - from)>>3);\n      return 1;\n    }\n  }\n  if (i - from >= 8) punctual_worked(L, (size_t)(i - from)>>3);\n  return 0;  /* no more elements */"),
    edit("ltablib.c",
        "      for (i = e; i > pos; i--) {  /* move up elements */\n",
        "      for (i = e; i > pos; i--) {  /* move up elements */\n        punctual_work(L, 1);\n"),
    edit("ltablib.c",
        "  for ( ;pos<e; pos++) {\n",
        "  for ( ;pos<e; pos++) {\n    punctual_work(L, 1);\n"),
    edit("ltablib.c",
        "  else  /* a < b? */\n    return lua_lessthan(L, a, b);",
        "  else {  /* a < b? */\n    punctual_work(L, 1);\n    return lua_lessthan(L, a, b);\n  }"),
    edit("ltablib.c",
        "    lua_pop(L, 1);  /* remove value */\n    if (lua_type(L, -1) == LUA_TNUMBER) {",
        "    lua_pop(L, 1);  /* remove value */\n    punctual_work(L, 1);\n    if (lua_type(L, -1) == LUA_TNUMBER) {"),
    edit("lstrlib.c",
        "  while (n-- > 0)\n    luaL_addlstring(&b, s, l);",
        "  while (n-- > 0) {\n    punctual_work(L, 1);\n    luaL_addlstring(&b, s, l);\n  }"),
    edit("lstrlib.c",
        "static const char *lmemfind (const char *s1, size_t l1,",
        "static const char *lmemfind (lua_State *L, const char *s1, size_t l1,"),
    edit("lstrlib.c",
        "      init++;   /* 1st char is already checked */\n",
        "      init++;   /* 1st char is already checked */\n      punctual_work(L, 1 + (l2>>6));\n"),
    edit("lstrlib.c",
        "lmemfind(s+init, l1-init, p, l2)",
        "lmemfind(L, s+init, l1-init, p, l2)"),
    // Matching an item of a pattern counts the length of the item and of the text that it matches.
    edit("lstrlib.c",
        "  init: /* using goto's to optimize tail recursion */\n",
        "  init: /* using goto's to optimize tail recursion */\n  punctual_work(ms->L, 1);\n"),
    edit("lstrlib.c",
        "      const char *ep = classend(ms, p);  /* points to what is next */\n      int m =",
        "      const char *ep = classend(ms, p);  /* points to what is next */\n      punctual_work(ms->L, (size_t)(ep-p)>>3);\n      int m ="),
    edit("lstrlib.c",
        "    else if (s<ms->src_end && singlematch(uchar(*s), p, ep))\n      s++;  /* try with one more repetition */",
        "    else if (s<ms->src_end && singlematch(uchar(*s), p, ep)) {\n      punctual_work(ms->L, (size_t)(ep-p)>>3);\n      s++;  /* try with one more repetition */\n    }"),
    edit("lstrlib.c",
        "  while ((s+i)<ms->src_end && singlematch(uchar(*(s+i)), p, ep))\n    i++;\n",
        "  while ((s+i)<ms->src_end && singlematch(uchar(*(s+i)), p, ep)) {\n    if ((++i & 63) == 0) punctual_work(ms->L, 8 * (1 + (size_t)(ep-p)));\n  }\n"),
    edit("lstrlib.c",
        "    while (++s < ms->src_end) {\n      if (*s == e) {",
        "    while (++s < ms->src_end) {\n      if (((ms->src_end - s) & 63) == 0) punctual_work(ms->L, 8);\n      if (*s == e) {"),
    edit("lstrlib.c",
        "  len = ms->capture[l].len;\n  if ((size_t)",
        "  len = ms->capture[l].len;\n  punctual_work(ms->L, len>>6);\n  if ((size_t)"),
    edit("lstrlib.c",
        "          ep = classend(ms, p);  /* points to what is next */\n          previous",
        "          ep = classend(ms, p);  /* points to what is next */\n          punctual_work(ms->L, (size_t)(ep-p)>>3);\n          previous"),
];

/// Applies the edits of one file.
pub fn apply(file: &str, mut text: String) -> String {
    for edit in EDITS.iter().filter(|edit| edit.file == file) {
        let found = text.matches(edit.from).count();
        assert_eq!(found, edit.times, "{file}: {}", edit.from);
        text = text.replace(edit.from, edit.to);
    }
    text
}
