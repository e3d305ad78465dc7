//! The socket of a producer's transaction coordinator, so that this connection can be cut from another thread.

use crate::handle::lock;
use libc::c_int;
use std::sync::Mutex;

/// The socket, from the first request over it until it is closed, under the same lock: the number never names another file of
/// the process. Both happen on the library's thread for that connection.
#[derive(Debug, Default)]
pub(crate) struct CoordinatorSocket(Mutex<Option<c_int>>);

impl CoordinatorSocket {
    /// Takes note of the socket over which a request to the coordinator goes out.
    pub(crate) fn note(&self, socket: c_int) {
        *lock(&self.0) = Some(socket);
    }

    /// Closes any socket of the client, this or another; as close(2).
    pub(crate) fn close(&self, socket: c_int) -> c_int {
        let mut coordinator = lock(&self.0);
        coordinator.take_if(|noted| *noted == socket);
        // SAFETY: the library hands its socket over to be closed, and does not use it any more.
        unsafe { libc::close(socket) }
    }

    /// Ends the connection, as the other side would, if it stands; returns whether it did. The library then closes it and
    /// connects again. Nothing is produced over it.
    pub(crate) fn cut(&self) -> bool {
        let coordinator = lock(&self.0);
        // SAFETY: the socket is open as long as the lock is held; shutting it down ends its connection and nothing else.
        coordinator.is_some_and(|socket| unsafe { libc::shutdown(socket, libc::SHUT_RDWR) } == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::{AsRawFd, IntoRawFd};

    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (ours, listener.accept().unwrap().0)
    }

    #[test]
    fn the_socket_is_known_until_it_is_closed() {
        let coordinator = CoordinatorSocket::default();
        assert!(!coordinator.cut(), "none is known yet");
        let [first, second] = [connected(), connected()].map(|(ours, _)| ours.into_raw_fd());
        coordinator.note(first);
        coordinator.note(second);
        assert_eq!(coordinator.close(first), 0);
        assert_eq!(*lock(&coordinator.0), Some(second), "another one was closed");
        assert_eq!(coordinator.close(second), 0);
        assert!(!coordinator.cut(), "the number may be another file by now");
    }

    #[test]
    fn a_cut_ends_the_connection_on_both_sides() {
        let (mut ours, mut other) = connected();
        let coordinator = CoordinatorSocket::default();
        coordinator.note(ours.as_raw_fd());
        assert!(coordinator.cut());
        assert_eq!(other.read(&mut [0; 8]).unwrap(), 0, "the other side sees the end");
        assert_eq!(ours.read(&mut [0; 8]).unwrap(), 0, "and so does ours");
    }
}
