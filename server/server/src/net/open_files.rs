//! The system's limit of open files, which bounds `maxclients`.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Settings;
use crate::log::{self, Logger};

/// Number of open files reserved for listeners, the log and the event loops. Redis reserves the
/// same number.
const RESERVED: u64 = 32;

/// Error for a limit that leaves no files for clients.
#[derive(Debug, thiserror::Error)]
#[error(
    "Your current 'ulimit -n' of {limit} is not enough for the server to start. Please increase your open file limit to at least {needed}. Exiting."
)]
pub struct TooFewFiles {
    limit: u64,
    needed: u64,
}

/// Raises this process's limit of open files for `maxclients` clients, as far as the system allows.
/// Returns the number of clients that the limit allows.
///
/// # Errors
/// Returns an error if the limit leaves no file for a client.
pub(crate) fn make_room_for(settings: &Settings, logger: &Logger) -> Result<usize, TooFewFiles> {
    let clients = settings.max_clients;
    let reserved = RESERVED + settings.metrics.open_files();
    let wanted = clients as u64 + reserved;
    let before = limit();
    if before >= wanted {
        return Ok(clients);
    }
    match raise(wanted) {
        Ok(()) => {
            log::notice!(
                logger,
                "Increased maximum number of open files to {wanted} (it was originally set to {before})."
            );
            Ok(clients)
        }
        Err(e) => {
            let limit = limit();
            if limit <= reserved {
                return Err(TooFewFiles {
                    limit,
                    needed: reserved + 1,
                });
            }
            let possible = limit - reserved;
            log::warning!(
                logger,
                "You requested maxclients of {clients} requiring at least {wanted} max file descriptors."
            );
            log::warning!(
                logger,
                "Server can't set maximum open files to {wanted} because of OS error: {e}."
            );
            log::warning!(
                logger,
                "Current maximum open files is {limit}. maxclients has been reduced to {possible} to compensate for low \
                 ulimit. If you need higher maxclients increase 'ulimit -n'."
            );
            Ok(possible as usize)
        }
    }
}

fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Sets the limit to `wanted`. If the system refuses, sets the limit as high as possible and
/// returns the error.
fn raise(wanted: u64) -> Result<(), rustix::io::Errno> {
    let hard = getrlimit(Resource::Nofile).maximum;
    let asked = Rlimit {
        current: Some(wanted),
        // Only a privileged process may raise the hard limit.
        maximum: hard.map(|hard| hard.max(wanted)),
    };
    setrlimit(Resource::Nofile, asked).inspect_err(|_| {
        // The caller reads the limit again.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: hard,
                maximum: hard,
            },
        );
    })
}
