//! One job: a fixed part that changes with its state, and one boxed byte string.
//!
//! The byte string holds the ID, the options that differ from the defaults, and the payload.
//! [`Details`] is its unpacked form. [`Job::write`] writes the form that snapshots, DUMP and the
//! log of changes use, and [`Job::read`] validates and reads it.

use crate::hash_table::Hash;
use crate::value::keyed::{Element, hash_of};
use crate::value::varint::{Input, write_number, write_text};

/// The latest time of a job, in Unix ms.
pub const TIME_MAX: u64 = (1 << TIME_BITS) - 1;
/// Number of bits of a time: enough for 8,900 years.
pub(super) const TIME_BITS: u32 = 48;
/// Maximum ID or token: replies hold signed 64-bit numbers.
pub(super) const NUMBER_MAX: u64 = i64::MAX as u64;
/// Default lease in milliseconds: the time that a worker has for a job.
pub const LEASE_MS: u64 = 30_000;
/// Default number of attempts after the first one.
pub const RETRIES: u32 = 25;
/// Maximum length of an ID in bytes.
pub const ID_MAX: usize = 512;
/// Maximum length in bytes of the error that a job keeps; longer errors are cut.
pub const ERROR_MAX: usize = 1024;

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// The job waits for its due time, `at`.
    Waiting,
    /// The due time, `at`, has passed, and the job is sorted by its priority. [`Job::write`] writes
    /// this state as [`State::Waiting`], because the state follows from the time.
    Ready,
    /// A worker holds the job until `at`.
    Leased,
    /// The last attempt failed, at `at`.
    Dead,
    /// The job is done. The record stays, and with it the ID, until `at`.
    Done,
}

/// A job.
#[derive(Clone, Debug)]
pub struct Job {
    /// The [`place`](Hash::place) of the ID's hash.
    hash: u32,
    /// Number that orders jobs of the same priority and time.
    pub order: u32,
    /// A time in Unix ms; [`State`] determines its meaning.
    pub at: u64,
    /// Token of the current lease; 0 if no worker holds the job.
    pub token: u64,
    /// Number of attempts, including the current one.
    pub attempt: u32,
    /// Ready jobs with a higher priority come first.
    pub priority: i16,
    /// State of the job.
    pub state: State,
    /// Summary of the options in `bytes`, so that most steps need not unpack them.
    options: Options,
    bytes: Box<[u8]>,
}

/// Summary of the options in a job's byte string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Options {
    /// All options have their default values.
    None,
    /// An option differs from the default, and the job does not expire.
    Lasting,
    /// The job has an expiry time, and possibly other options.
    Expiring,
}

/// Bytes of a job in its page.
pub(super) const JOB_BYTES: usize = size_of::<Option<Job>>();
const _: () = assert!(JOB_BYTES == 48);

/// Waiting time between two attempts: `base_ms` after the first attempt, doubled with each further
/// attempt up to `max_ms`, and then shortened by a jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Waiting time after the first attempt, in ms.
    pub base_ms: u64,
    /// Maximum waiting time, in ms.
    pub max_ms: u64,
    /// Maximum part of the waiting time that the jitter removes, in percent.
    pub jitter: u8,
}

/// The parts of a job that seldom change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Details<'a> {
    /// Unique name of the job in its queue.
    pub id: &'a [u8],
    /// Duration of a lease in ms.
    pub lease_ms: u64,
    /// Maximum number of attempts after the first one.
    pub retries: u32,
    /// Waiting time between attempts; `None` for no waiting time.
    pub backoff: Option<Backoff>,
    /// Unix ms at which a waiting or ready job is removed. A leased job is removed if its lease
    /// ends at or after this time.
    pub expires_ms: Option<u64>,
    /// Milliseconds for which the record stays after the job is done.
    pub keep_ms: u64,
    /// Unix ms until which the ID cannot be used again, even after the job is done.
    pub unique_ms: u64,
    /// Dead-letter queue: the queue that the job moves to when its last attempt has failed.
    pub dead: Option<&'a [u8]>,
    /// Queue from which the job moved to this dead-letter queue.
    pub from: Option<&'a [u8]>,
    /// Error text of the last failed attempt.
    pub error: Option<&'a [u8]>,
    /// The work, as bytes that only clients interpret.
    pub payload: &'a [u8],
}

impl<'a> Details<'a> {
    /// Returns the details of a job with default options.
    pub fn new(id: &'a [u8], payload: &'a [u8]) -> Self {
        Self {
            id,
            lease_ms: LEASE_MS,
            retries: RETRIES,
            backoff: None,
            expires_ms: None,
            keep_ms: 0,
            unique_ms: 0,
            dead: None,
            from: None,
            error: None,
            payload,
        }
    }

    fn pack(&self) -> (Options, Box<[u8]>) {
        let mut parts = 0;
        for (bit, present) in [
            (part::LEASE, self.lease_ms != LEASE_MS),
            (part::RETRIES, self.retries != RETRIES),
            (part::BACKOFF, self.backoff.is_some()),
            (part::EXPIRES, self.expires_ms.is_some()),
            (part::KEEP, self.keep_ms > 0),
            (part::UNIQUE, self.unique_ms > 0),
            (part::DEAD, self.dead.is_some()),
            (part::FROM, self.from.is_some()),
            (part::ERROR, self.error.is_some()),
        ] {
            parts |= if present { bit } else { 0 };
        }
        let texts = [self.dead, self.from, self.error];
        let options = match parts {
            0 => 0,
            _ => 15 + texts.iter().flatten().map(|t| t.len() + 3).sum::<usize>(),
        };
        let head = if self.id.len() < 0x80 { 1 } else { 2 };
        // The capacity is exact without options, so `into_boxed_slice` does not copy.
        let mut out = Vec::with_capacity(head + self.id.len() + 1 + options + self.payload.len());
        write_text(&mut out, self.id);
        write_number(&mut out, parts);
        if parts != 0 {
            self.pack_options(parts, &mut out);
        }
        out.extend_from_slice(self.payload);
        let options = match parts {
            0 => Options::None,
            _ if self.expires_ms.is_some() => Options::Expiring,
            _ => Options::Lasting,
        };
        (options, out.into_boxed_slice())
    }

    fn pack_options(&self, parts: u64, out: &mut Vec<u8>) {
        let has = |bit| parts & bit != 0;
        if has(part::LEASE) {
            write_number(out, self.lease_ms);
        }
        if has(part::RETRIES) {
            write_number(out, self.retries.into());
        }
        if let Some(backoff) = &self.backoff {
            write_number(out, backoff.base_ms);
            write_number(out, backoff.max_ms);
            write_number(out, backoff.jitter.into());
        }
        if let Some(at) = self.expires_ms {
            write_number(out, at);
        }
        if has(part::KEEP) {
            write_number(out, self.keep_ms);
        }
        if has(part::UNIQUE) {
            write_number(out, self.unique_ms);
        }
        for text in [self.dead, self.from, self.error].into_iter().flatten() {
            write_text(out, text);
        }
    }

    fn unpack(bytes: &'a [u8]) -> Option<Self> {
        let mut from = Input(bytes);
        let mut details = Self::new(from.text()?, b"");
        let parts = from.number()?;
        let has = |bit| parts & bit != 0;
        if has(part::LEASE) {
            details.lease_ms = from.number()?;
        }
        if has(part::RETRIES) {
            details.retries = u32::try_from(from.number()?).ok()?;
        }
        if has(part::BACKOFF) {
            details.backoff = Some(Backoff {
                base_ms: from.number()?,
                max_ms: from.number()?,
                jitter: u8::try_from(from.number()?).ok()?,
            });
        }
        if has(part::EXPIRES) {
            details.expires_ms = Some(from.number()?);
        }
        if has(part::KEEP) {
            details.keep_ms = from.number()?;
        }
        if has(part::UNIQUE) {
            details.unique_ms = from.number()?;
        }
        if has(part::DEAD) {
            details.dead = Some(from.text()?);
        }
        if has(part::FROM) {
            details.from = Some(from.text()?);
        }
        if has(part::ERROR) {
            details.error = Some(from.text()?);
        }
        details.payload = from.0;
        let jitter = details.backoff.map_or(0, |backoff| backoff.jitter);
        let latest = details.unique_ms.max(details.expires_ms.unwrap_or(0));
        (parts & !part::ALL == 0
            && (1..=ID_MAX).contains(&details.id.len())
            && jitter <= 100
            && latest <= TIME_MAX)
            .then_some(details)
    }
}

/// Bits of the optional parts that a job's byte string contains.
mod part {
    pub(super) const LEASE: u64 = 1;
    pub(super) const RETRIES: u64 = 2;
    pub(super) const BACKOFF: u64 = 4;
    pub(super) const EXPIRES: u64 = 8;
    pub(super) const KEEP: u64 = 16;
    pub(super) const UNIQUE: u64 = 32;
    pub(super) const DEAD: u64 = 64;
    pub(super) const FROM: u64 = 128;
    pub(super) const ERROR: u64 = 256;
    pub(super) const ALL: u64 = 511;
}

impl Job {
    /// Creates a job that is due at `at`.
    pub fn new(details: &Details<'_>, priority: i16, at: u64, order: u32) -> Self {
        Self::hashed(hash_of(details.id), details, priority, at, order)
    }

    /// Same as [`Job::new`], with the ID's hash, which the caller has computed.
    pub(super) fn hashed(
        hash: Hash,
        details: &Details<'_>,
        priority: i16,
        at: u64,
        order: u32,
    ) -> Self {
        let (options, bytes) = details.pack();
        Self {
            hash: hash.place,
            order,
            at,
            token: 0,
            attempt: 0,
            priority,
            state: State::Waiting,
            options,
            bytes,
        }
    }

    /// Unpacks the parts that seldom change. O(options).
    pub fn details(&self) -> Details<'_> {
        Details::unpack(&self.bytes).unwrap_or_else(|| Details::new(b"", b""))
    }

    /// Replaces the parts that seldom change; the ID must be the same.
    pub(crate) fn set_details(&mut self, details: &Details<'_>) {
        debug_assert_eq!(details.id, self.name());
        (self.options, self.bytes) = details.pack();
    }

    /// Returns whether an option differs from its default. O(1).
    pub fn has_options(&self) -> bool {
        self.options != Options::None
    }

    /// Returns whether the job has an expiry time. O(1).
    pub fn may_expire(&self) -> bool {
        self.options == Options::Expiring
    }

    /// Returns the job's expiry time in Unix ms. O(1) if the job does not expire, otherwise
    /// O(options).
    pub fn expires_ms(&self) -> Option<u64> {
        match self.options {
            Options::Expiring => self.details().expires_ms,
            _ => None,
        }
    }

    /// Returns the duration of a lease in ms. O(1) without options.
    pub fn lease_ms(&self) -> u64 {
        match self.options {
            Options::None => LEASE_MS,
            _ => self.details().lease_ms,
        }
    }

    /// Returns the payload. O(1) without options.
    pub fn payload(&self) -> &[u8] {
        if self.has_options() {
            return self.details().payload;
        }
        let mut from = Input(&self.bytes);
        // Skips the ID, and the 0 that stands for no options.
        let read = (from.text(), from.byte());
        debug_assert_eq!(read.1, Some(0));
        from.0
    }

    /// Returns the Unix ms at which the job is due again after an attempt that ended at `ended_ms`.
    /// The result, jitter included, depends only on the job and `ended_ms`, so a replica computes
    /// the same time.
    pub fn due_after(&self, ended_ms: u64) -> u64 {
        let Some(backoff) = self.details().backoff else {
            return ended_ms;
        };
        let doubled = self.attempt.saturating_sub(1).min(63);
        let wait = backoff.base_ms.saturating_mul(1 << doubled);
        let wait = wait.min(backoff.max_ms);
        let jitter = u128::from(wait) * u128::from(backoff.jitter) / 100;
        let part = u128::from(scatter(self.name(), self.token)) * (jitter + 1);
        ended_ms.saturating_add(wait - (part >> 64) as u64)
    }

    /// Returns whether the current attempt is the last one.
    pub fn is_last_attempt(&self) -> bool {
        self.attempt > self.details().retries
    }

    /// Appends the job in the form that [`Job::read`] reads.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(match self.state {
            State::Ready => State::Waiting as u8,
            state => state as u8,
        });
        for number in [
            u64::from(self.order),
            self.at,
            self.token,
            u64::from(self.attempt),
            u64::from(self.priority.cast_unsigned()),
        ] {
            write_number(out, number);
        }
        out.extend_from_slice(&self.bytes);
    }

    /// Reads the bytes that [`Job::write`] writes. Returns `None` if they are malformed.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut from = Input(bytes);
        let state = match from.byte()? {
            0 => State::Waiting,
            2 => State::Leased,
            3 => State::Dead,
            4 => State::Done,
            _ => return None,
        };
        let order = u32::try_from(from.number()?).ok()?;
        let at = from.number()?;
        let token = from.number()?;
        let attempt = u32::try_from(from.number()?).ok()?;
        let priority = u16::try_from(from.number()?).ok()?.cast_signed();
        let details = Details::unpack(from.0)?;
        if at > TIME_MAX || token > NUMBER_MAX {
            return None;
        }
        let mut job = Self::new(&details, priority, at, order);
        (job.state, job.token, job.attempt) = (state, token, attempt);
        Some(job)
    }

    /// Returns the number of heap bytes, which are outside of the job's page.
    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl Element for Job {
    fn name(&self) -> &[u8] {
        Input(&self.bytes).text().unwrap_or_default()
    }

    fn hash(&self) -> u32 {
        self.hash
    }
}

/// Returns 64 bits that look random and depend only on the arguments.
fn scatter(id: &[u8], number: u64) -> u64 {
    // FNV-1a, then the last steps of SplitMix64.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in id.iter().chain(&number.to_le_bytes()) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_reads_as_it_was_written() {
        let plain = Details::new(b"7", b"payload");
        let full = Details {
            lease_ms: 5,
            retries: 0,
            backoff: Some(Backoff {
                base_ms: 100,
                max_ms: 1 << 40,
                jitter: 100,
            }),
            expires_ms: Some(TIME_MAX),
            keep_ms: 1,
            unique_ms: 2,
            dead: Some(b"grave"),
            from: Some(b""),
            error: Some(b"no"),
            ..plain
        };
        for details in [plain, full] {
            let mut job = Job::new(&details, -3, 1 << 45, u32::MAX);
            (job.state, job.attempt, job.token) = (State::Leased, 9, NUMBER_MAX);
            let mut out = Vec::new();
            job.write(&mut out);
            let read = Job::read(&out).unwrap();
            assert_eq!(read.details(), details);
            assert_eq!(read.name(), b"7");
            let mut again = Vec::new();
            read.write(&mut again);
            assert_eq!(again, out);
            // A prefix that cuts the head is not a job. A prefix that cuts the payload is a job.
            for len in 0..out.len() - details.payload.len() {
                assert!(Job::read(&out[..len]).is_none(), "{len}");
            }
        }
    }

    #[test]
    fn the_waiting_time_doubles_up_to_the_maximum() {
        let mut details = Details::new(b"id", b"");
        details.backoff = Some(Backoff {
            base_ms: 100,
            max_ms: 1_500,
            jitter: 0,
        });
        let mut job = Job::new(&details, 0, 0, 0);
        let due: Vec<u64> = (1..8)
            .map(|attempt| {
                job.attempt = attempt;
                job.due_after(10)
            })
            .collect();
        assert_eq!(due, [110, 210, 410, 810, 1510, 1510, 1510]);
        details.backoff = Some(Backoff {
            base_ms: 1_000,
            max_ms: u64::MAX,
            jitter: 50,
        });
        job.set_details(&details);
        job.attempt = 1;
        let due: Vec<u64> = (1..1_000)
            .map(|token| {
                job.token = token;
                job.due_after(0)
            })
            .collect();
        assert!(due.iter().all(|at| (500..=1_000).contains(at)));
        assert!(due.iter().min() < Some(&520) && due.iter().max() > Some(&980));
        job.attempt = u32::MAX;
        assert!(job.due_after(5) > u64::MAX / 2);
    }
}
