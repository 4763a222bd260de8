//! The edits to the sources of Lua 5.1.5, each with its reason. An edit that does not apply exactly as often as stated
//! fails the build, so a new version of the sources cannot lose one silently.

/// One edit: in `file`, replace each of `times` occurrences of `from` by `to`.
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

const EDITS: &[Edit] = &[
    // Read-only tables: scripts share the globals and the libraries, so no script may change them.
    edit(
        "lobject.h",
        "  lu_byte lsizenode;  /* log2 of size of `node' array */",
        "  lu_byte lsizenode;  /* log2 of size of `node' array */\n  lu_byte readonly;",
    ),
    edit(
        "ltable.c",
        "  t->flags = cast_byte(~0);",
        "  t->flags = cast_byte(~0);\n  t->readonly = 0;",
    ),
    edit(
        "lvm.c",
        "      TValue *oldval = luaH_set(L, h, key); /* do a primitive set */",
        "      TValue *oldval;\n      if (h->readonly) luaG_runerror(L, \"Attempt to modify a readonly table\");\n      oldval = luaH_set(L, h, key);",
    ),
    edit(
        "lapi.c",
        "  setobj2t(L, luaH_set(L, hvalue(t), L->top-2), L->top-1);",
        "  if (hvalue(t)->readonly) luaG_runerror(L, \"Attempt to modify a readonly table\");\n  setobj2t(L, luaH_set(L, hvalue(t), L->top-2), L->top-1);",
    ),
    edit(
        "lapi.c",
        "  setobj2t(L, luaH_setnum(L, hvalue(o), n), L->top-1);",
        "  if (hvalue(o)->readonly) luaG_runerror(L, \"Attempt to modify a readonly table\");\n  setobj2t(L, luaH_setnum(L, hvalue(o), n), L->top-1);",
    ),
    edit(
        "lapi.c",
        "      hvalue(obj)->metatable = mt;",
        "      if (hvalue(obj)->readonly) luaG_runerror(L, \"Attempt to modify a readonly table\");\n      hvalue(obj)->metatable = mt;",
    ),
    edit(
        "lapi.c",
        "LUA_API int lua_setfenv (lua_State *L, int idx) {",
        "LUA_API void punctual_setreadonly (lua_State *L, int idx, int on) {\n  StkId t = index2adr(L, idx);\n  if (ttistable(t)) hvalue(t)->readonly = cast_byte(on != 0);\n}\n\n\nLUA_API int lua_setfenv (lua_State *L, int idx) {",
    ),
    // Bytecode is not verified, so a made-up chunk can read and write any memory.
    edit(
        "ldo.c",
        "((c == LUA_SIGNATURE[0]) ? luaU_undump : luaY_parser)(L, p->z,",
        "luaY_parser(L, p->z,",
    ),
    // CVE-2025-49844: the chunk's name is on no stack while the parser allocates, so the collector could free it.
    edit(
        "lparser.c",
        "  luaX_setinput(L, &lexstate, z, luaS_new(L, name));",
        "  TString *source = luaS_new(L, name);\n  setsvalue2s(L, L->top, source);\n  incr_top(L);\n  luaX_setinput(L, &lexstate, z, source);",
    ),
    edit(
        "lparser.c",
        "  lua_assert(lexstate.fs == NULL);\n  return funcstate.f;",
        "  lua_assert(lexstate.fs == NULL);\n  L->top--;\n  return funcstate.f;",
    ),
    // Redis hashes all bytes of a string, and the order of `next` depends on it. That takes some cycles a byte, so a long
    // string gets this hash when it is first a key, and is found again by a faster one.
    edit(
        "lstring.c",
        "  unsigned int h = cast(unsigned int, l);  /* seed */\n  size_t step = (l>>5)+1;  /* if string is too long, don't hash all its chars */\n  size_t l1;\n  for (l1=l; l1>=step; l1-=step)  /* compute hash */\n    h = h ^ ((h<<5)+(h>>2)+cast(unsigned char, str[l1-1]));",
        "  unsigned int h = islong(l) ? punctual_longhash(str, l) : punctual_keyhash(str, l);",
    ),
    edit(
        "lstring.c",
        "luaM_malloc(L, (l+1)*sizeof(char)+sizeof(TString)));",
        "luaM_malloc(L, sizechars(l)+sizeof(TString)));",
    ),
    edit(
        "lstring.h",
        "#define sizestring(s)\t(sizeof(union TString)+((s)->len+1)*sizeof(char))",
        "#define islong(l)\t((l) > 40)\n#define sizechars(l)\t(((l)+1)*sizeof(char)+(islong(l) ? sizeof(unsigned int) : 0))\n#define sizestring(s)\t(sizeof(union TString)+sizechars((s)->len))\n\nLUAI_FUNC unsigned int punctual_keyhash (const char *str, size_t l);\nLUAI_FUNC unsigned int punctual_longhash (const char *str, size_t l);\nLUAI_FUNC unsigned int punctual_longkeyhash (TString *ts);",
    ),
    edit(
        "ltable.c",
        "#define hashstr(t,str)  hashpow2(t, (str)->tsv.hash)",
        "#include \"lstring.h\"\n#define hashstr(t,str) \\\n  hashpow2(t, islong((str)->tsv.len) ? punctual_longkeyhash(str) : (str)->tsv.hash)",
    ),
    // A table that grows has each of its keys once: no need to look a string up before it is inserted again.
    edit(
        "ltable.c",
        "static void resize (lua_State *L, Table *t, int nasize, int nhsize) {",
        "static TValue *newkey (lua_State *L, Table *t, const TValue *key);\n\nstatic void resize (lua_State *L, Table *t, int nasize, int nhsize) {",
    ),
    edit(
        "ltable.c",
        "      setobjt2t(L, luaH_set(L, t, key2tval(old)), gval(old));",
        "      setobjt2t(L, ttisstring(gkey(old)) ? newkey(L, t, key2tval(old)) : luaH_set(L, t, key2tval(old)), gval(old));",
    ),
    // A match calls itself once for some items of the pattern; a long pattern must not exhaust the thread's stack.
    edit(
        "lstrlib.c",
        "  int level;  /* total number of captures (finished or unfinished) */",
        "  int depth;  /* calls of `match' that have not returned */\n  int level;  /* total number of captures (finished or unfinished) */",
    ),
    edit(
        "lstrlib.c",
        "static const char *match (MatchState *ms, const char *s, const char *p) {\n  init:",
        "static const char *do_match (MatchState *ms, const char *s, const char *p);\n\nstatic const char *match (MatchState *ms, const char *s, const char *p) {\n  const char *end;\n  if (++ms->depth > 2000) luaL_error(ms->L, \"pattern too complex\");\n  end = do_match(ms, s, p);\n  ms->depth--;\n  return end;\n}\n\nstatic const char *do_match (MatchState *ms, const char *s, const char *p) {\n  init:",
    ),
    Edit {
        file: "lstrlib.c",
        from: "  ms.L = L;",
        to: "  ms.L = L;\n  ms.depth = 0;",
        times: 3,
    },
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
