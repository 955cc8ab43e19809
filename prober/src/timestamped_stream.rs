//! A stream wrapper between hyper and the connection that records when bytes were written and read.
//!
//! It is above TLS and sees plain text, so session tickets do not count as the first byte.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Number of first bytes that are kept: an HTTP/2 frame header.
pub(crate) const FIRST_BYTES: usize = 9;

/// The times of the last write and the first read, with the first bytes received.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FirstByteTimes {
    /// The start of the latest write that accepted bytes.
    pub(crate) last_write: Option<Instant>,
    /// The first read that returned bytes.
    pub(crate) first_read: Option<Instant>,
    /// The first bytes received, as many as the first read returned.
    pub(crate) first_bytes: [u8; FIRST_BYTES],
}

/// A shared handle to the times, for reading them while hyper owns the stream.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedStamps(Arc<Mutex<FirstByteTimes>>);

impl SharedStamps {
    pub(crate) fn get(&self) -> FirstByteTimes {
        *self.0.lock()
    }

    /// Resets them before the next request on the same connection.
    pub(crate) fn clear(&self) {
        *self.0.lock() = FirstByteTimes::default();
    }
}

#[derive(Debug)]
pub(crate) struct TimestampedStream<S> {
    inner: S,
    stamps: SharedStamps,
}

impl<S> TimestampedStream<S> {
    pub(crate) fn new(inner: S, stamps: SharedStamps) -> Self {
        Self { inner, stamps }
    }

    /// Records the time before the write: the write may wake the peer, which may take the CPU from this process.
    fn record_write(&self, before: Instant, result: &Poll<io::Result<usize>>) {
        if matches!(result, Poll::Ready(Ok(1..))) {
            self.stamps.0.lock().last_write = Some(before);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimestampedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.inner).poll_read(cx, buf);
        if buf.filled().len() > before {
            let mut stamps = self.stamps.0.lock();
            if stamps.first_read.is_none() {
                stamps.first_read = Some(Instant::now());
                let came = &buf.filled()[before..];
                let kept = came.len().min(FIRST_BYTES);
                stamps.first_bytes[..kept].copy_from_slice(&came[..kept]);
            }
        }
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimestampedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let before = Instant::now();
        let result = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.record_write(before, &result);
        result
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let before = Instant::now();
        let result = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.record_write(before, &result);
        result
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn the_last_write_and_the_first_read_are_kept() {
        let (near, mut far) = tokio::io::duplex(64);
        let stamps = SharedStamps::default();
        let mut stream = TimestampedStream::new(near, stamps.clone());
        assert!(stamps.get().last_write.is_none());
        stream.write_all(b"a").await.unwrap();
        let first = stamps.get().last_write.unwrap();
        stream.write_all(b"b").await.unwrap();
        assert!(stamps.get().last_write.unwrap() >= first);
        assert!(stamps.get().first_read.is_none());
        far.write_all(b"xy").await.unwrap();
        stream.read_u8().await.unwrap();
        let read = stamps.get().first_read.unwrap();
        stream.read_u8().await.unwrap();
        assert_eq!(stamps.get().first_read, Some(read));
        assert_eq!(
            stamps.get().first_bytes[0],
            b'x',
            "only the bytes of the first read"
        );
    }
}
