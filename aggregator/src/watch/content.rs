//! Content of watched files: whether it has changed, and whether the change is complete.

use std::{
    hash::{DefaultHasher, Hasher},
    path::Path,
};

use crate::config::TopologySource;

/// Hash of a file's content; absent without a readable file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileHash(Option<u64>);

impl FileHash {
    pub(super) async fn of(path: Option<&Path>) -> Self {
        let Some(path) = path else { return Self(None) };
        let read = tokio::fs::read(path).await.ok();
        Self(read.map(|bytes| {
            let mut hasher = DefaultHasher::new();
            hasher.write(&bytes);
            hasher.finish()
        }))
    }
}

/// Content of the configuration and of the topology file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FilesHash {
    config: FileHash,
    topology: FileHash,
}

impl FilesHash {
    pub(super) async fn of(source: &TopologySource) -> Self {
        Self {
            config: FileHash::of(Some(source.config_file())).await,
            topology: FileHash::of(source.file.as_deref()).await,
        }
    }
}

/// Result of a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// The content is the one that was read last.
    Unchanged,
    /// The content differs from the previous poll. An editor empties a file before it writes the new content, so that
    /// what is there may be a part.
    Changing,
    /// The content is new and the same as at the previous poll.
    Changed,
}

/// Tracks a content, by its hash, over polls.
#[derive(Debug)]
pub(super) struct ContentTracker<H> {
    /// Content of the previous poll.
    previous: Option<H>,
    /// Content that was read last.
    read: Option<H>,
}

impl<H: Copy + PartialEq> ContentTracker<H> {
    /// Starts with the content that was read, if any was.
    pub(super) const fn new(read: Option<H>) -> Self {
        Self { previous: read, read }
    }

    /// Adds a poll. After [`Content::Changed`], the caller reads the files and calls [`mark_read`](Self::mark_read).
    pub(super) fn observe(&mut self, content: H) -> Content {
        let same = self.previous.replace(content) == Some(content);
        if self.read == Some(content) {
            Content::Unchanged
        } else if same {
            Content::Changed
        } else {
            Content::Changing
        }
    }

    /// Records the content that was read.
    pub(super) const fn mark_read(&mut self, content: H) {
        self.read = Some(content);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Polls the contents, and reads each that is complete.
    fn polled<const N: usize>(contents: [u8; N]) -> [Content; N] {
        let mut tracker = ContentTracker::new(None);
        contents.map(|hash| {
            let content = tracker.observe(hash);
            if content == Content::Changed {
                tracker.mark_read(hash);
            }
            content
        })
    }

    #[test]
    fn content_is_read_once_it_is_the_same_at_two_polls() {
        let expected = [
            Content::Changing,
            Content::Changed,
            Content::Unchanged,
            Content::Changing,
            Content::Changing,
            Content::Changed,
            Content::Unchanged,
        ];
        assert_eq!(polled([2, 2, 2, 0, 3, 3, 3]), expected);
    }

    #[test]
    fn content_of_the_start_is_not_read_again() {
        let mut tracker = ContentTracker::new(Some(2_u8));
        assert_eq!(
            [2, 3, 3].map(|hash| tracker.observe(hash)),
            [Content::Unchanged, Content::Changing, Content::Changed]
        );
    }

    #[test]
    fn content_that_is_back_at_the_next_poll_is_unchanged() {
        assert_eq!(polled([2, 2, 0, 2])[2..], [Content::Changing, Content::Unchanged]);
    }

    #[test]
    fn content_that_changed_while_it_was_read_stays_to_be_read() {
        let mut tracker = ContentTracker::new(None);
        let seen = [2, 2, 2].map(|hash: u8| tracker.observe(hash));
        assert_eq!(seen, [Content::Changing, Content::Changed, Content::Changed]);
    }
}
