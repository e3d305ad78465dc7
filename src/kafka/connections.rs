//! A client's sockets, so that its connections can be cut from another thread.

use crate::handle::lock;
use libc::c_int;
use std::sync::Mutex;

/// The sockets that are open. A number is in here from before the library sees it until it is closed under the same lock: it
/// never names another file of the process.
#[derive(Debug, Default)]
pub(crate) struct Connections(Mutex<Vec<c_int>>);

impl Connections {
    /// Opens a socket that child processes do not get, as the library does by itself. Returns -1 and leaves `errno` if it cannot.
    pub(crate) fn open(&self, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        // SAFETY: takes numbers, returns one.
        let socket = unsafe { libc::socket(domain, kind, protocol) };
        if socket >= 0 {
            // SAFETY: the socket is ours. That the flag comes a moment later is as good: no child processes are made here.
            unsafe { libc::fcntl(socket, libc::F_SETFD, libc::FD_CLOEXEC) };
            lock(&self.0).push(socket);
        }
        socket
    }

    /// Closes a socket; as close(2).
    pub(crate) fn close(&self, socket: c_int) -> c_int {
        let mut open = lock(&self.0);
        open.retain(|other| *other != socket);
        // SAFETY: the library hands its socket over to be closed, and does not use it any more.
        unsafe { libc::close(socket) }
    }

    /// Ends a connection, as the other side would, if it stands; returns whether it did. The library then closes it and connects
    /// again.
    pub(crate) fn cut(&self, socket: c_int) -> bool {
        let open = lock(&self.0);
        // SAFETY: the socket is open as long as the lock is held; shutting it down ends its connection and nothing else.
        open.contains(&socket) && unsafe { libc::shutdown(socket, libc::SHUT_RDWR) } == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_known_until_it_is_closed() {
        let connections = Connections::default();
        let socket = connections.open(libc::AF_INET, libc::SOCK_STREAM, 0);
        assert!(socket >= 0);
        assert!(!connections.cut(socket), "it is not connected yet");
        let known = || lock(&connections.0).len();
        assert_eq!(known(), 1);
        assert_eq!(connections.close(socket), 0);
        assert_eq!(known(), 0);
        assert!(!connections.cut(socket), "the number may be another file by now");
        assert_eq!(connections.open(-1, libc::SOCK_STREAM, 0), -1);
    }

    #[test]
    fn a_cut_ends_the_connection_on_both_sides() {
        use std::io::Read;
        use std::os::fd::FromRawFd;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let connections = Connections::default();
        let socket = connections.open(libc::AF_INET, libc::SOCK_STREAM, 0);
        let port = listener.local_addr().unwrap().port();
        // SAFETY: all zero is a valid address structure.
        let mut address: libc::sockaddr_in = unsafe { std::mem::zeroed() };
        address.sin_family = libc::sa_family_t::try_from(libc::AF_INET).unwrap();
        address.sin_port = port.to_be();
        address.sin_addr.s_addr = u32::from(std::net::Ipv4Addr::LOCALHOST).to_be();
        let size = libc::socklen_t::try_from(size_of_val(&address)).unwrap();
        // SAFETY: the structure and its size are right.
        assert_eq!(unsafe { libc::connect(socket, (&raw const address).cast(), size) }, 0);
        let (mut other, _) = listener.accept().unwrap();
        assert!(connections.cut(socket));
        assert_eq!(other.read(&mut [0; 8]).unwrap(), 0, "the other side sees the end");
        // SAFETY: a second owner, which is forgotten before the first one closes the socket.
        let mut ours = std::mem::ManuallyDrop::new(unsafe { std::net::TcpStream::from_raw_fd(socket) });
        assert_eq!(ours.read(&mut [0; 8]).unwrap(), 0, "and so does ours");
        assert_eq!(connections.close(socket), 0);
    }
}
