//! Files, and the calls that all descriptors share.

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};

use libc::{iovec, off_t, size_t, ssize_t, statx as Statx};

use super::poll::write_count;
use super::sockets::{gathered, receive, send_all};
use super::{answer, fail, is_ours, own_path, real};
use crate::baton;
use crate::kernel::descriptors::Object;
use crate::kernel::disk::{Disks, Found, OpenFile, node_of};
use crate::kernel::{Kernel, Lie};

/// Kinds of objects that a descriptor is read and written through.
enum Kind {
    Counter,
    Stream,
    File,
}

fn kind(fd: c_int) -> Result<Kind, c_int> {
    baton::enter(|kernel, _| match kernel.object(fd) {
        Some(Object::Counter(_)) => Ok(Kind::Counter),
        Some(Object::Stream(_)) => Ok(Kind::Stream),
        Some(Object::File(_)) => Ok(Kind::File),
        Some(_) => Err(libc::EINVAL),
        None => Err(libc::EBADF),
    })
}

/// Runs an operation on an open file, with the disks.
fn with_file<T>(
    fd: c_int,
    work: impl FnOnce(&mut Kernel, &mut OpenFile) -> Result<T, c_int>,
) -> Result<T, c_int> {
    baton::call(|kernel, _| {
        let Some(Object::File(file)) = kernel.object(fd) else {
            return Err(libc::EBADF);
        };
        let mut file = file.clone();
        let result = work(kernel, &mut file);
        if let Some(Object::File(kept)) = kernel.object(fd) {
            *kept = file;
        }
        result
    })
}

unsafe fn open_any(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    if baton::current().is_some() && CStr::from_ptr(path).to_bytes().starts_with(b"/proc/") {
        // Figures of the real process differ between runs.
        return fail(libc::ENOENT);
    }
    let Some(own) = own_path(path).filter(|_| baton::current().is_some()) else {
        let args = [
            libc::AT_FDCWD as usize,
            path as usize,
            flags as usize,
            mode as usize,
        ];
        return real::call(libc::SYS_openat, args) as c_int;
    };
    answer(baton::call(|kernel, me| {
        kernel.trace.tell(|| format!("{me} open {own} {flags:o}"));
        let file = kernel.disks.open(own, flags)?;
        let node = kernel.threads[me].node;
        Ok(kernel.descriptors.add(node, Object::File(file)).0)
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    open_any(path, flags, mode)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    open_any(path, flags, mode)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn close(fd: c_int) -> c_int {
    if !is_ours(fd) {
        return real::call(libc::SYS_close, [fd as usize]) as c_int;
    }
    match baton::call(|kernel, _| kernel.close(fd)) {
        true => 0,
        false => fail(libc::EBADF),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn read(fd: c_int, buf: *mut c_void, len: size_t) -> ssize_t {
    if !is_ours(fd) {
        return real::call(libc::SYS_read, [fd as usize, buf as usize, len]);
    }
    match kind(fd) {
        Ok(Kind::Stream) => receive(fd, buf, len),
        Ok(Kind::File) => {
            let buf = std::slice::from_raw_parts_mut(buf.cast::<u8>(), len);
            let count = with_file(fd, |kernel, file| kernel.disks.read(file, buf));
            answer::<i64>(count.map(|count| count as i64)) as ssize_t
        }
        Ok(Kind::Counter) => fail::<i64>(libc::EAGAIN) as ssize_t,
        Err(error) => fail::<i64>(error) as ssize_t,
    }
}

fn write_file(fd: c_int, bytes: &[u8]) -> ssize_t {
    let count = with_file(fd, |kernel, file| {
        let rate = kernel.weather.failed_writes;
        let is_full = kernel.is_full(file, bytes.len());
        if is_full || kernel.draws.chance(rate) {
            let node = node_of(&file.path).unwrap_or_default();
            kernel.nodes[node].has_failed = true;
            kernel
                .trace
                .tell(|| format!("write failed {} {}", file.path, bytes.len()));
            let errors = [libc::ENOSPC, libc::EIO];
            return Err(kernel
                .draws
                .one_of(if is_full { &errors[..1] } else { &errors }));
        }
        let mut len = bytes.len();
        if len > 1 && kernel.draws.chance(rate) {
            len = kernel.draws.between(1, len as u64) as usize;
        }
        kernel.trace.bytes(&bytes[..len]);
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace("\r\n", " ");
        kernel
            .trace
            .tell(|| format!("write {} {len}/{} {}", file.path, bytes.len(), shown(bytes)));
        if kernel.weather.lie == Some(Lie::File) && kernel.draws.chance(2_000) {
            let lost = kernel.draws.index(len.max(1));
            let mut bytes = bytes[..len].to_vec();
            bytes[lost..].fill(b'0');
            return kernel.disks.write(file, &bytes);
        }
        kernel.disks.write(file, &bytes[..len])
    });
    answer::<i64>(count.map(|count| count as i64)) as ssize_t
}

#[unsafe(no_mangle)]
unsafe extern "C" fn write(fd: c_int, buf: *const c_void, len: size_t) -> ssize_t {
    if !is_ours(fd) {
        return real::call(libc::SYS_write, [fd as usize, buf as usize, len]);
    }
    match kind(fd) {
        Ok(Kind::Counter) => write_count(fd, buf),
        Ok(Kind::Stream) => send_all(fd, std::slice::from_raw_parts(buf.cast(), len)),
        Ok(Kind::File) => write_file(fd, std::slice::from_raw_parts(buf.cast(), len)),
        Err(error) => fail::<i64>(error) as ssize_t,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn writev(fd: c_int, buffers: *const iovec, count: c_int) -> ssize_t {
    if !is_ours(fd) {
        let args = [fd as usize, buffers as usize, count as usize];
        return real::call(libc::SYS_writev, args);
    }
    let bytes = gathered(buffers, count as usize);
    write(fd, bytes.as_ptr().cast(), bytes.len())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn lseek64(fd: c_int, offset: off_t, whence: c_int) -> off_t {
    if !is_ours(fd) {
        let args = [fd as usize, offset as usize, whence as usize];
        return real::call(libc::SYS_lseek, args) as off_t;
    }
    answer(with_file(fd, |kernel, file| {
        let from = match whence {
            libc::SEEK_SET => 0,
            libc::SEEK_CUR => file.position as i64,
            _ => kernel.disks.length(file) as i64,
        };
        file.position = usize::try_from(from + offset).map_err(|_| libc::EINVAL)?;
        Ok(file.position as i64)
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t {
    lseek64(fd, offset, whence)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ftruncate64(fd: c_int, length: off_t) -> c_int {
    if !is_ours(fd) {
        let args = [fd as usize, length as usize];
        return real::call(libc::SYS_ftruncate, args) as c_int;
    }
    answer(with_file(fd, |kernel, file| {
        kernel
            .trace
            .tell(|| format!("truncate {} {length}", file.path));
        kernel.disks.truncate(file, length as usize);
        Ok(0)
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fdatasync(fd: c_int) -> c_int {
    if !is_ours(fd) {
        return real::call(libc::SYS_fdatasync, [fd as usize]) as c_int;
    }
    let begun = with_file(fd, |kernel, file| {
        let covered = kernel.disks.begin_sync(file);
        let jitter = kernel.weather.sync_jitter;
        let time = kernel.weather.sync_time + kernel.draws.between(0, jitter);
        Ok((covered, time))
    });
    let (covered, time) = match begun {
        Ok(begun) => begun,
        Err(error) => return fail(error),
    };
    super::time::sleep(time);
    answer(baton::call(|kernel, me| {
        if kernel.draws.chance(kernel.weather.failed_syncs) {
            kernel
                .trace
                .tell(|| format!("{me} sync failed {covered:?}"));
            kernel.disks.fail_sync(&covered);
            let node = kernel.threads[me].node;
            kernel.nodes[node].has_failed = true;
            return Err(libc::EIO);
        }
        kernel.trace.tell(|| format!("{me} synced {covered:?}"));
        if kernel.weather.lie != Some(Lie::Sync) {
            kernel.disks.end_sync(covered);
        }
        Ok(0)
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fsync(fd: c_int) -> c_int {
    match is_ours(fd) {
        true => fdatasync(fd),
        false => real::call(libc::SYS_fsync, [fd as usize]) as c_int,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn statx(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    to: *mut Statx,
) -> c_int {
    let own = own_path(path).filter(|_| baton::current().is_some());
    if own.is_none() && !is_ours(folder) {
        let args = [
            folder as usize,
            path as usize,
            flags as usize,
            mask as usize,
            to as usize,
        ];
        return real::call(libc::SYS_statx, args) as c_int;
    }
    let found = match own {
        Some(path) => baton::call(|kernel, _| kernel.disks.find(path).ok_or(libc::ENOENT)),
        None => with_file(folder, |kernel, file| {
            let bytes = kernel.disks.length(file);
            Ok(file.inode.map_or(Found::Folder, |_| Found::File { bytes }))
        }),
    };
    answer(found.map(|found| {
        *to = std::mem::zeroed();
        (*to).stx_mask = libc::STATX_BASIC_STATS;
        (*to).stx_nlink = 1;
        match found {
            Found::Folder => (*to).stx_mode = (libc::S_IFDIR | 0o755) as u16,
            Found::File { bytes } => {
                (*to).stx_mode = (libc::S_IFREG | 0o644) as u16;
                (*to).stx_size = bytes as u64;
            }
        }
        0
    }))
}

/// A change of two names of the simulated disk. Returns false if it cannot be.
type Change = fn(&mut Disks, &str, &str) -> bool;

/// Changes names of the simulated disk, or calls the system with the arguments.
unsafe fn change_names<const N: usize>(
    from: *const c_char,
    to: *const c_char,
    change: (&str, Change),
    error: c_int,
    system: (c_long, [usize; N]),
) -> c_int {
    match (own_path(from), own_path(to)) {
        (Some(from), Some(to)) if baton::current().is_some() => {
            let done = baton::call(|kernel, _| {
                kernel.trace.tell(|| format!("{} {from} {to}", change.0));
                change.1(&mut kernel.disks, from, to)
            });
            answer(done.then_some(0).ok_or(error))
        }
        _ => real::call(system.0, system.1) as c_int,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    let system = (libc::SYS_rename, [from as usize, to as usize]);
    change_names(from, to, ("rename", Disks::rename), libc::ENOENT, system)
}

/// The paths with their folders, and the flags, as arguments of a system call.
type At = (c_int, *const c_char, c_int, *const c_char, usize);

/// Changes names that calls with folders give. The server gives only whole paths.
unsafe fn change_names_at(
    number: c_long,
    (from_folder, from, to_folder, to, flags): At,
    change: (&str, Change),
    error: c_int,
) -> c_int {
    let (first, second) = (from as usize, to as usize);
    let args = [
        from_folder as usize,
        first,
        to_folder as usize,
        second,
        flags,
    ];
    change_names(from, to, change, error, (number, args))
}

/// The server gives this only the flag that exchanges names.
#[unsafe(no_mangle)]
unsafe extern "C" fn renameat2(
    from_folder: c_int,
    from: *const c_char,
    to_folder: c_int,
    to: *const c_char,
    flags: c_uint,
) -> c_int {
    let at = (from_folder, from, to_folder, to, flags as usize);
    let exchange: (_, Change) = ("exchange", Disks::exchange);
    change_names_at(libc::SYS_renameat2, at, exchange, libc::ENOENT)
}

/// A second name of a file.
#[unsafe(no_mangle)]
unsafe extern "C" fn linkat(
    from_folder: c_int,
    from: *const c_char,
    to_folder: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    let at = (from_folder, from, to_folder, to, flags as usize);
    change_names_at(libc::SYS_linkat, at, ("link", Disks::link), libc::EEXIST)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    match own_path(path) {
        Some(own) if baton::current().is_some() => {
            let done = baton::call(|kernel, _| {
                kernel.trace.tell(|| format!("remove {own}"));
                kernel.disks.remove(own)
            });
            answer(done.then_some(0).ok_or(libc::ENOENT))
        }
        _ => real::call(libc::SYS_unlink, [path as usize]) as c_int,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mkdir(path: *const c_char, mode: libc::mode_t) -> c_int {
    match own_path(path) {
        Some(own) if baton::current().is_some() => {
            let done = baton::call(|kernel, _| kernel.disks.create_folder(own));
            answer(done.then_some(0).ok_or(libc::EEXIST))
        }
        _ => real::call(libc::SYS_mkdir, [path as usize, mode as usize]) as c_int,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn realpath(path: *const c_char, into: *mut c_char) -> *mut c_char {
    type Real = unsafe extern "C" fn(*const c_char, *mut c_char) -> *mut c_char;
    static REAL: real::Hidden = real::Hidden::new(c"realpath");
    match own_path(path) {
        Some(_) if into.is_null() => libc::strdup(path),
        Some(_) => libc::strcpy(into, path),
        None => {
            let real: Real = std::mem::transmute(REAL.get());
            real(path, into)
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn flock(fd: c_int, operation: c_int) -> c_int {
    match is_ours(fd) {
        // One server at a time uses a node's folder.
        true => 0,
        false => real::call(libc::SYS_flock, [fd as usize, operation as usize]) as c_int,
    }
}

unsafe fn control(fd: c_int, command: c_int, argument: usize) -> c_int {
    if !is_ours(fd) {
        let args = [fd as usize, command as usize, argument];
        return real::call(libc::SYS_fcntl, args) as c_int;
    }
    answer(baton::call(|kernel, _| {
        let object = kernel.descriptors.find(fd).ok_or(libc::EBADF)?;
        match command {
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => Ok(kernel.descriptors.duplicate(object)),
            libc::F_GETFL => Ok(libc::O_RDWR | libc::O_NONBLOCK),
            _ => Ok(0),
        }
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    control(fd, command, argument)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
    control(fd, command, argument)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ioctl(fd: c_int, request: c_long, argument: usize) -> c_int {
    match is_ours(fd) {
        true => 0,
        false => {
            let args = [fd as usize, request as usize, argument];
            real::call(libc::SYS_ioctl, args) as c_int
        }
    }
}
