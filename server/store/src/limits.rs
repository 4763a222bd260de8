//! Settings that commands need: size limits of compact collections and of streams, limits of
//! idempotent producers, and the eviction policy. They come from Redis's directives.

use crate::eviction::Eviction;
use crate::uses::Uses;

/// Settings from directives, each of which redis.conf describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `list-max-listpack-size`: the maximum number of elements in a piece of a list if positive;
    /// -1 to -5 for at most 4 KiB to 64 KiB.
    pub list_piece: i64,
    /// `hash-max-listpack-entries`.
    pub hash_entries: usize,
    /// `hash-max-listpack-value`, in bytes.
    pub hash_value: usize,
    /// `set-max-intset-entries`.
    pub set_ints: usize,
    /// `set-max-listpack-entries`.
    pub set_entries: usize,
    /// `set-max-listpack-value`, in bytes.
    pub set_value: usize,
    /// `zset-max-listpack-entries`.
    pub zset_entries: usize,
    /// `zset-max-listpack-value`, in bytes.
    pub zset_value: usize,
    /// `hll-sparse-max-bytes`.
    pub hll_sparse_bytes: usize,
    /// `stream-node-max-bytes`; 0 for no limit.
    pub stream_bytes: usize,
    /// `stream-node-max-entries`; 0 for no limit.
    pub stream_entries: usize,
    /// `stream-idmp-duration`, in seconds.
    pub idmp_duration_s: u32,
    /// `stream-idmp-maxsize`.
    pub idmp_size_max: u32,
    /// Usage that each key records, from `maxmemory-policy`.
    pub uses: Uses,
    /// Policy of eviction, from `maxmemory-policy`; `None` for `noeviction`.
    pub eviction: Option<Eviction>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            list_piece: -2,
            hash_entries: 512,
            hash_value: 64,
            set_ints: 512,
            set_entries: 128,
            set_value: 64,
            zset_entries: 128,
            zset_value: 64,
            hll_sparse_bytes: 3000,
            stream_bytes: 4096,
            stream_entries: 100,
            idmp_duration_s: 100,
            idmp_size_max: 100,
            uses: Uses::Last,
            eviction: None,
        }
    }
}
