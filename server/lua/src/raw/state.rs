//! A Lua state: its allocator with a limit, its interrupts, and protected calls.
//!
//! The flag [`Context::native`] is true while Rust code runs. While it is true, the allocator
//! ignores the limit, because an error for lack of memory would jump over Rust frames.

use std::alloc::{Layout, alloc, dealloc, realloc};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr::{self, NonNull};

use mlua_sys as ffi;

use super::Stack;
use super::function::Raise;
use crate::host::Host;

/// Number of Lua instructions between two calls of [`Host::interrupt`].
const INSTRUCTIONS: c_int = 10_000;
/// Alignment in bytes of memory for Lua; C's `malloc` has the same.
const ALIGN: usize = 16;

/// Data of a state that native functions, the allocator and the hook use. Lua stores its address as
/// the argument of the allocator.
pub(crate) struct Context {
    /// Number of allocated bytes.
    memory: Cell<usize>,
    /// Maximum number of allocated bytes for Lua's own code.
    limit: Cell<usize>,
    /// True while Rust code runs: the allocator ignores the limit.
    native: Cell<bool>,
    /// The server; `None` if no script runs or the server is in use.
    host: Cell<Option<NonNull<dyn Host>>>,
    /// The first panic of a native function, which continues after the protected call.
    panic: RefCell<Option<Box<dyn Any + Send>>>,
    /// True from an interrupt until the script has ended.
    interrupted: Cell<bool>,
    /// State of the functions for scripts, whose type this folder does not depend on.
    pub(crate) state: Box<dyn Any>,
}

/// Sets [`Context::native`] to true until it is dropped.
pub(crate) struct NativeGuard<'c> {
    context: &'c Context,
    /// The value to restore.
    before: bool,
}

impl Drop for NativeGuard<'_> {
    fn drop(&mut self) {
        self.context.native.set(self.before);
    }
}

impl Context {
    /// # Safety
    /// `state` was made by [`State::new`] and lives.
    pub(super) unsafe fn of<'c>(state: *mut ffi::lua_State) -> &'c Self {
        let mut context: *mut c_void = ptr::null_mut();
        // SAFETY: the allocator's argument is the context, which outlives the state; it is only
        // used by reference.
        unsafe {
            ffi::lua_getallocf(state, &raw mut context);
            &*context.cast::<Self>()
        }
    }

    pub(super) fn enter_native(&self) -> NativeGuard<'_> {
        NativeGuard {
            context: self,
            before: self.native.replace(true),
        }
    }

    pub(super) fn keep_panic(&self, panic: Box<dyn Any + Send>) {
        self.panic.borrow_mut().get_or_insert(panic);
    }

    /// Returns whether the allocated bytes and `more` together exceed the limit.
    pub(crate) fn is_out_of_memory(&self, more: usize) -> bool {
        self.memory.get().saturating_add(more) > self.limit.get()
    }

    /// Calls `f` with the server. Returns `None` if no script runs or the server is in use.
    pub(crate) fn with_host<R>(&self, f: impl FnOnce(&mut dyn Host) -> R) -> Option<R> {
        let mut host = self.host.take()?;
        // SAFETY: `State::call` set the pointer from a `&mut` that lives until the call returns,
        // and the cell is empty while it is in use.
        let result = f(unsafe { host.as_mut() });
        self.host.set(Some(host));
        Some(result)
    }
}

/// How a protected call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The results are on the stack.
    Done,
    /// The error is at the top of the stack.
    Failed,
}

/// A reference to a Lua value that the collector does not free, until [`Stack::release`].
#[derive(Debug)]
pub(crate) struct Kept(c_int);

/// One Lua state.
pub(crate) struct State {
    state: NonNull<ffi::lua_State>,
    context: Box<Context>,
}

impl State {
    /// Creates a state whose scripts may allocate `limit` bytes. Native functions find `state` in
    /// the context.
    pub(crate) fn new(limit: usize, state: Box<dyn Any>) -> Self {
        let context = Box::new(Context {
            memory: Cell::new(0),
            limit: Cell::new(limit),
            native: Cell::new(true),
            host: Cell::new(None),
            panic: RefCell::new(None),
            interrupted: Cell::new(false),
            state,
        });
        let argument = ptr::from_ref::<Context>(&context).cast_mut().cast();
        // SAFETY: the allocator keeps to Lua's contract; the box gives the context a stable
        // address.
        let state = unsafe { ffi::lua_newstate(allocate, argument) };
        let state = NonNull::new(state).expect("the allocator does not fail while Rust code runs");
        // SAFETY: the state is valid, and so is the hook.
        unsafe {
            ffi::lua_sethook(state.as_ptr(), Some(hook), ffi::LUA_MASKCOUNT, INSTRUCTIONS);
        }
        Self { state, context }
    }

    /// Returns the bytes that the state has allocated.
    pub(crate) fn memory(&self) -> usize {
        self.context.memory.get()
    }

    /// Returns whether more than half of the limit is allocated, including garbage.
    pub(crate) fn is_half_full(&self) -> bool {
        self.memory() > self.context.limit.get() / 2
    }

    /// Sets the maximum number of bytes that scripts may allocate.
    pub(crate) fn set_limit(&mut self, bytes: usize) {
        self.context.limit.set(bytes);
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// Returns the stack, for use outside of a script.
    pub(crate) fn stack(&mut self) -> Stack<'_> {
        // SAFETY: `self` is borrowed; outside of `call` the flag `native` is set.
        unsafe { Stack::new(self.state.as_ptr()) }
    }

    /// Loads a part of Lua's own library.
    pub(crate) fn open(&mut self, library: Library) {
        let (name, open): (&CStr, ffi::lua_CFunction) = match library {
            Library::Base => (c"", ffi::luaopen_base),
            Library::Table => (c"table", ffi::luaopen_table),
            Library::String => (c"string", ffi::luaopen_string),
            Library::Math => (c"math", ffi::luaopen_math),
            Library::Os => (c"os", ffi::luaopen_os),
        };
        let state = self.state.as_ptr();
        // SAFETY: the functions take their name as argument, for which an empty stack has room.
        // They raise no error in a state without a limit.
        unsafe {
            ffi::lua_pushcclosure(state, open, 0);
            ffi::lua_pushstring_(state, name.as_ptr());
            ffi::lua_call(state, 1, 0);
        }
    }

    /// Compiles code and pushes its function, or the error. `name` is the code's name in messages.
    pub(crate) fn load(&mut self, name: &str, code: &[u8]) -> Outcome {
        let name = CString::new(name).unwrap_or_default();
        self.context.native.set(false);
        // SAFETY: Lua reads the code during the call only, in protected mode.
        let status = unsafe {
            let state = self.state.as_ptr();
            ffi::luaL_loadbuffer(state, code.as_ptr().cast(), code.len(), name.as_ptr())
        };
        self.context.native.set(true);
        if status == ffi::LUA_OK {
            Outcome::Done
        } else {
            Outcome::Failed
        }
    }

    /// Calls the function that is on the stack below its `arguments` values, and pushes one result,
    /// or the error. The error handler is at index 1. Native functions can use `host` during the
    /// call.
    pub(crate) fn call(&mut self, host: &mut dyn Host, arguments: i32) -> Outcome {
        let host: NonNull<dyn Host + '_> = NonNull::from(host);
        // SAFETY: only the lifetime changes, and the context drops the pointer before this function
        // returns.
        let host: NonNull<dyn Host> = unsafe { std::mem::transmute(host) };
        self.context.host.set(Some(host));
        self.context.native.set(false);
        // SAFETY: the call is protected, so errors end here and jump over no Rust frame.
        let status = unsafe { ffi::lua_pcall(self.state.as_ptr(), arguments, 1, 1) };
        self.context.native.set(true);
        self.context.host.set(None);
        // After an interrupt, the hook runs for each instruction; here it is set back to counting.
        if self.context.interrupted.take() {
            // SAFETY: the state and the hook are valid.
            unsafe {
                let state = self.state.as_ptr();
                ffi::lua_sethook(state, Some(hook), ffi::LUA_MASKCOUNT, INSTRUCTIONS);
            }
        }
        if let Some(panic) = self.context.panic.take() {
            std::panic::resume_unwind(panic);
        }
        if status == ffi::LUA_OK {
            Outcome::Done
        } else {
            Outcome::Failed
        }
    }

    /// Frees all garbage. **O(n)** in the allocated memory.
    pub(crate) fn collect(&mut self) {
        // SAFETY: as in `collect_step`.
        unsafe {
            ffi::lua_gc(self.state.as_ptr(), ffi::LUA_GCCOLLECT, 0);
        }
    }

    /// Runs one step of the collector.
    pub(crate) fn collect_step(&mut self) {
        // SAFETY: no userdata has a finalizer, so the collector runs no code.
        unsafe {
            ffi::lua_gc(self.state.as_ptr(), ffi::LUA_GCSTEP, 1);
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // SAFETY: the state is valid and not used again; no finalizers run.
        unsafe { ffi::lua_close(self.state.as_ptr()) }
    }
}

/// A part of Lua's own library.
#[derive(Clone, Copy)]
pub(crate) enum Library {
    Base,
    Table,
    String,
    Math,
    /// `os` with `os.clock` only.
    Os,
}

impl Stack<'_> {
    /// Pops a value and returns a reference to it, which is valid until it is released.
    pub(crate) fn keep(&mut self) -> Kept {
        // SAFETY: the value is at the top; the allocator does not fail.
        Kept(unsafe { ffi::luaL_ref(self.state, ffi::LUA_REGISTRYINDEX) })
    }

    /// Pushes the value that `kept` refers to.
    pub(crate) fn push_kept(&self, kept: &Kept) {
        self.raw_get_index(ffi::LUA_REGISTRYINDEX, kept.0);
    }

    /// Releases a reference, so that the collector can free the value.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the reference is invalid afterwards"
    )]
    pub(crate) fn release(&mut self, kept: Kept) {
        // SAFETY: the reference was made by `keep`.
        unsafe { ffi::luaL_unref(self.state, ffi::LUA_REGISTRYINDEX, kept.0) }
    }

    /// Pushes the table of global variables.
    pub(crate) fn push_globals(&self) {
        self.push_value(ffi::LUA_GLOBALSINDEX);
    }

    /// Returns the name by which the script has called the running native function, and whether it
    /// was called as a method.
    pub(crate) fn running_name(&self) -> (String, bool) {
        // SAFETY: as in `place`.
        unsafe {
            let mut debug: ffi::lua_Debug = std::mem::zeroed();
            if ffi::lua_getstack(self.state, 0, &raw mut debug) == 0
                || ffi::lua_getinfo(self.state, c"n".as_ptr(), &raw mut debug) == 0
                || debug.name.is_null()
            {
                return ("?".to_owned(), false);
            }
            let name = CStr::from_ptr(debug.name).to_string_lossy();
            let method = CStr::from_ptr(debug.namewhat) == c"method";
            (name.into_owned(), method)
        }
    }

    /// Returns the source and the line of the function that runs at a level of the call stack, and
    /// whether it is native.
    pub(crate) fn place(&self, level: i32) -> Option<Place> {
        // SAFETY: `lua_getstack` has found the call, and `lua_getinfo` fills the fields for the
        // letters `nSl`.
        unsafe {
            let mut debug: ffi::lua_Debug = std::mem::zeroed();
            if ffi::lua_getstack(self.state, level, &raw mut debug) == 0
                || ffi::lua_getinfo(self.state, c"nSl".as_ptr(), &raw mut debug) == 0
            {
                return None;
            }
            Some(Place {
                source: CStr::from_ptr(debug.source).to_bytes().to_vec(),
                line: debug.currentline,
                native: CStr::from_ptr(debug.what).to_bytes() == b"C",
            })
        }
    }
}

/// Counts the steps of a native function that can take long, and ends the function with an error if
/// the script must end.
#[derive(Default)]
pub(crate) struct Work {
    /// Number of steps since the last check.
    steps: u32,
}

impl Work {
    /// Counts a step. `held` is the number of bytes that the function has allocated outside of Lua.
    ///
    /// # Errors
    /// If the script must end ([`Host::interrupt`]), if more memory is in use than scripts may
    /// allocate, or if the stack has no room for an error. Every 10,000th step checks all three.
    /// The other steps check only the memory, and only if `held` is at least 1 MiB.
    pub(crate) fn step(&mut self, stack: &Stack<'_>, held: usize) -> Result<(), Raise> {
        const STEPS: u32 = 10_000;
        const LARGE: usize = 1 << 20;
        self.steps += 1;
        if self.steps < STEPS && held < LARGE {
            return Ok(());
        }
        let context = stack.context();
        if context.is_out_of_memory(held) {
            return Err(Raise::Plain("not enough memory"));
        }
        if self.steps < STEPS {
            return Ok(());
        }
        self.steps = 0;
        stack.ensure(ROOM)?;
        // SAFETY: the state is valid and has room.
        if unsafe { interrupts(stack.state) } {
            return Err(Raise::Top);
        }
        Ok(())
    }
}

/// Number of values for which [`interrupts`] needs room on the stack.
const ROOM: i32 = 6;

/// The place of a call in a script.
pub(crate) struct Place {
    /// Name of the code.
    pub(crate) source: Vec<u8>,
    pub(crate) line: i32,
    /// Whether the function is a native function.
    pub(crate) native: bool,
}

/// Lua's hook, called every [`INSTRUCTIONS`] instructions. Once the script must end, it is called
/// for each instruction, so that a script cannot continue after a `pcall` that catches the error.
unsafe extern "C-unwind" fn hook(state: *mut ffi::lua_State, _: *mut ffi::lua_Debug) {
    // SAFETY: the state is valid.
    if unsafe { interrupts(state) } {
        // SAFETY: nothing in this frame has a destructor; the error is at the top of the stack.
        unsafe { ffi::lua_error(state) };
    }
}

/// Calls [`Host::interrupt`]. If the script must end, pushes the error and returns true.
///
/// # Safety
/// `state` is valid, and no other [`Stack`] of it is in use.
unsafe fn interrupts(state: *mut ffi::lua_State) -> bool {
    // SAFETY: the state is valid, and nothing else uses its stack while the hook runs.
    let (context, mut stack) = unsafe { (Context::of(state), Stack::new(state)) };
    let _running = context.enter_native();
    let asked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        context.with_host(|host| host.interrupt()).flatten()
    }));
    // The hook may run within a C function that has little room left on the stack.
    stack.has_room(ROOM);
    let text = match asked {
        Ok(None) => {
            // A coroutine in a library of functions can outlive the call in which it was
            // interrupted. Its hook still runs for each instruction; here it is set back to
            // counting.
            // SAFETY: the state and the hook are valid.
            unsafe {
                if ffi::lua_gethookmask(state) & ffi::LUA_MASKLINE != 0 {
                    ffi::lua_sethook(state, Some(hook), ffi::LUA_MASKCOUNT, INSTRUCTIONS);
                }
            }
            return false;
        }
        Ok(Some(text)) => text,
        Err(panic) => {
            context.keep_panic(panic);
            "internal error"
        }
    };
    context.interrupted.set(true);
    // SAFETY: the state and the hook are valid.
    unsafe {
        ffi::lua_sethook(state, Some(hook), ffi::LUA_MASKLINE | ffi::LUA_MASKCOUNT, 1);
    }
    stack.push_error(text.as_bytes());
    true
}

/// Lua's allocator: counts bytes, and fails at the limit unless Rust code runs.
unsafe extern "C" fn allocate(
    context: *mut c_void,
    block: *mut c_void,
    old: usize,
    new: usize,
) -> *mut c_void {
    // SAFETY: Lua passes the argument of `lua_newstate`, and blocks that this function returned,
    // with their size.
    unsafe {
        let context = &*context.cast::<Context>();
        let used = context.memory.get();
        if new == 0 {
            if !block.is_null() && old > 0 {
                dealloc(block.cast(), layout(old));
                context.memory.set(used - old);
            }
            return ptr::null_mut();
        }
        let old = if block.is_null() { 0 } else { old };
        let after = used - old + new;
        if new > old && after > context.limit.get() && !context.native.get() {
            return ptr::null_mut();
        }
        if Layout::from_size_align(new, ALIGN).is_err() {
            return ptr::null_mut();
        }
        let got = if old == 0 {
            alloc(layout(new))
        } else {
            realloc(block.cast(), layout(old), new)
        };
        if got.is_null() {
            if context.native.get() {
                std::alloc::handle_alloc_error(layout(new));
            }
            return ptr::null_mut();
        }
        context.memory.set(after);
        got.cast()
    }
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, ALIGN).expect("Lua's sizes are below isize::MAX")
}

// SAFETY: Lua does not bind a state to a thread. The context has a pointer to the host only during
// a call of a script, and its `state` is the session, which is `Send`.
unsafe impl Send for State {}
