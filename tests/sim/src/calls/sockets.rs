//! TCP sockets.

use std::ffi::{c_int, c_void};

use libc::{iovec, msghdr, size_t, sockaddr, sockaddr_in, socklen_t, ssize_t};

use super::{answer, fail, is_ours, real};
use crate::baton;
use crate::kernel::descriptors::Object;
use crate::kernel::network::Address;
use crate::kernel::streams::EndId;
use crate::kernel::{Kernel, NodeId};

/// First two bytes of the address of a node, 10.0.x.y.
const NETWORK: u32 = 10 << 24;

fn put(address: Address, to: *mut sockaddr, len: *mut socklen_t) {
    if to.is_null() || len.is_null() {
        return;
    }
    // SAFETY: `sockaddr_in` is a plain structure of numbers.
    let mut found: sockaddr_in = unsafe { std::mem::zeroed() };
    found.sin_family = libc::AF_INET as u16;
    found.sin_port = address.port.to_be();
    found.sin_addr.s_addr = (NETWORK | address.node as u32).to_be();
    let size = size_of::<sockaddr_in>();
    // SAFETY: The caller gives the size of its buffer.
    unsafe {
        let room = (*len as usize).min(size);
        std::ptr::copy_nonoverlapping((&raw const found).cast::<u8>(), to.cast::<u8>(), room);
        *len = size as socklen_t;
    }
}

unsafe fn address_of(from: *const sockaddr) -> Option<Address> {
    if c_int::from((*from).sa_family) != libc::AF_INET {
        return None;
    }
    let from = from.cast::<sockaddr_in>().read_unaligned();
    let ip = u32::from_be(from.sin_addr.s_addr);
    (ip & 0xffff_0000 == NETWORK).then(|| Address {
        node: (ip & 0xffff) as NodeId,
        port: u16::from_be(from.sin_port),
    })
}

/// Returns the end of a connected socket.
fn stream(kernel: &mut Kernel, fd: c_int) -> Result<EndId, c_int> {
    match kernel.object(fd) {
        Some(Object::Stream(end)) => Ok(*end),
        Some(_) => Err(libc::ENOTCONN),
        None => Err(libc::EBADF),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    if baton::current().is_none() {
        let args = [domain as usize, kind as usize, protocol as usize];
        return real::call(libc::SYS_socket, args) as c_int;
    }
    if domain != libc::AF_INET {
        return fail(libc::EAFNOSUPPORT);
    }
    baton::call(|kernel, me| {
        let node = kernel.threads[me].node;
        kernel.descriptors.add(node, Object::Unbound).0
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    if !is_ours(fd) {
        let args = [fd as usize, address as usize, len as usize];
        return real::call(libc::SYS_bind, args) as c_int;
    }
    let Some(address) = address_of(address) else {
        return fail(libc::EADDRNOTAVAIL);
    };
    answer(baton::call(|kernel, _| {
        let listener = kernel.bind(address)?;
        if let Some(object) = kernel.object(fd) {
            *object = Object::Bound(listener);
        }
        Ok(0)
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn listen(fd: c_int, backlog: c_int) -> c_int {
    if !is_ours(fd) {
        let args = [fd as usize, backlog as usize];
        return real::call(libc::SYS_listen, args) as c_int;
    }
    answer(baton::call(|kernel, _| {
        let id = kernel.descriptors.find(fd).ok_or(libc::EBADF)?;
        let object = kernel.descriptors.get_mut(id).ok_or(libc::EBADF)?;
        let Object::Bound(listener) = *object else {
            return Err(libc::EINVAL);
        };
        *object = Object::Listener(listener);
        kernel.listen(listener, id);
        Ok(0)
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn accept4(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    if !is_ours(fd) {
        let args = [fd as usize, address as usize, len as usize, flags as usize];
        return real::call(libc::SYS_accept4, args) as c_int;
    }
    let accepted = baton::call(|kernel, me| {
        let Some(Object::Listener(listener)) = kernel.object(fd) else {
            return Err(libc::EINVAL);
        };
        let listener = *listener;
        let end = kernel.accept(listener).ok_or(libc::EAGAIN)?;
        let node = kernel.threads[me].node;
        let (fd, object) = kernel.descriptors.add(node, Object::Stream(end));
        kernel.attach(end, object);
        Ok((fd, kernel.end_ref(end.peer()).address))
    });
    match accepted {
        Ok((fd, peer)) => {
            put(peer, address, len);
            fd
        }
        Err(error) => fail(error),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    if !is_ours(fd) {
        let args = [fd as usize, address as usize, len as usize];
        return real::call(libc::SYS_connect, args) as c_int;
    }
    let Some(to) = address_of(address) else {
        return fail(libc::ENETUNREACH);
    };
    baton::call(|kernel, me| {
        let node = kernel.threads[me].node;
        let Some(id) = kernel.descriptors.find(fd) else {
            return fail(libc::EBADF);
        };
        if to.node >= kernel.nodes.len() {
            return fail(libc::ENETUNREACH);
        }
        let end = kernel.connect(node, to);
        if let Some(object) = kernel.object(fd) {
            *object = Object::Stream(end);
        }
        kernel.attach(end, id);
        fail(libc::EINPROGRESS)
    })
}

/// Receives bytes of a simulated socket.
pub unsafe fn receive(fd: c_int, buf: *mut c_void, len: size_t) -> ssize_t {
    let received = baton::call(|kernel, _| {
        let end = stream(kernel, fd)?;
        kernel.receive(end, len)
    });
    match received {
        Ok(bytes) => {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), buf.cast(), bytes.len());
            bytes.len() as ssize_t
        }
        Err(error) => fail::<i64>(error) as ssize_t,
    }
}

/// Sends bytes through a simulated socket.
pub unsafe fn send_all(fd: c_int, bytes: &[u8]) -> ssize_t {
    let sent = baton::call(|kernel, _| {
        let end = stream(kernel, fd)?;
        kernel.send(end, bytes)
    });
    answer::<i64>(sent.map(|count| count as i64)) as ssize_t
}

#[unsafe(no_mangle)]
unsafe extern "C" fn recv(fd: c_int, buf: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    match is_ours(fd) {
        true => receive(fd, buf, len),
        false => {
            let args = [fd as usize, buf as usize, len, flags as usize];
            real::call(libc::SYS_recvfrom, args)
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn send(fd: c_int, buf: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    match is_ours(fd) {
        true => send_all(fd, std::slice::from_raw_parts(buf.cast(), len)),
        false => {
            let args = [fd as usize, buf as usize, len, flags as usize];
            real::call(libc::SYS_sendto, args)
        }
    }
}

/// Returns the bytes of several buffers.
pub unsafe fn gathered(buffers: *const iovec, count: usize) -> Vec<u8> {
    let mut all = Vec::new();
    for buffer in std::slice::from_raw_parts(buffers, count) {
        if buffer.iov_len > 0 {
            let bytes = std::slice::from_raw_parts(buffer.iov_base.cast::<u8>(), buffer.iov_len);
            all.extend_from_slice(bytes);
        }
    }
    all
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    if !is_ours(fd) {
        let args = [fd as usize, message as usize, flags as usize];
        return real::call(libc::SYS_sendmsg, args);
    }
    send_all(fd, &gathered((*message).msg_iov, (*message).msg_iovlen))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn shutdown(fd: c_int, how: c_int) -> c_int {
    if !is_ours(fd) {
        return real::call(libc::SYS_shutdown, [fd as usize, how as usize]) as c_int;
    }
    answer(baton::call(|kernel, _| {
        if let Some(Object::Listener(listener)) = kernel.object(fd) {
            let listener = *listener;
            kernel.close_listener(listener);
            return Ok(0);
        }
        let end = stream(kernel, fd)?;
        kernel.shut_down(end, how != libc::SHUT_WR);
        Ok(0)
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    if !is_ours(fd) {
        let args = [
            fd as usize,
            level as usize,
            name as usize,
            value as usize,
            len as usize,
        ];
        return real::call(libc::SYS_getsockopt, args) as c_int;
    }
    let found = match (level, name) {
        (libc::SOL_SOCKET, libc::SO_ERROR) => baton::call(|kernel, _| {
            let end = stream(kernel, fd).ok();
            end.and_then(|end| kernel.end(end).error.take())
                .unwrap_or(0)
        }),
        (libc::SOL_SOCKET, libc::SO_TYPE) => libc::SOCK_STREAM,
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => libc::AF_INET,
        _ => 1,
    };
    value.cast::<c_int>().write_unaligned(found);
    *len = size_of::<c_int>() as socklen_t;
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    if is_ours(fd) {
        return 0;
    }
    let (value, len) = (value as usize, len as usize);
    let args = [fd as usize, level as usize, name as usize, value, len];
    real::call(libc::SYS_setsockopt, args) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getsockname(fd: c_int, to: *mut sockaddr, len: *mut socklen_t) -> c_int {
    if !is_ours(fd) {
        let args = [fd as usize, to as usize, len as usize];
        return real::call(libc::SYS_getsockname, args) as c_int;
    }
    let address = baton::call(|kernel, _| match kernel.object(fd) {
        Some(Object::Bound(listener) | Object::Listener(listener)) => {
            let listener = *listener;
            Ok(kernel.listener_address(listener))
        }
        Some(Object::Stream(end)) => {
            let end = *end;
            Ok(kernel.end_ref(end).address)
        }
        _ => Err(libc::EBADF),
    });
    answer(address.map(|address| {
        put(address, to, len);
        0
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getpeername(fd: c_int, to: *mut sockaddr, len: *mut socklen_t) -> c_int {
    if !is_ours(fd) {
        let args = [fd as usize, to as usize, len as usize];
        return real::call(libc::SYS_getpeername, args) as c_int;
    }
    let address = baton::call(|kernel, _| {
        let end = stream(kernel, fd)?;
        match kernel.end_ref(end).connected {
            true => Ok(kernel.end_ref(end.peer()).address),
            false => Err(libc::ENOTCONN),
        }
    });
    answer(address.map(|address| {
        put(address, to, len);
        0
    }))
}
