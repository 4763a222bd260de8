//! How a run ends: in the child process of a seed, which writes one line to its parent.

use std::io::Write as _;
use std::sync::OnceLock;

use crate::calls::real;

static OUTPUT: OnceLock<std::fs::File> = OnceLock::new();

/// Sets the file that the line goes to.
pub fn report_to(file: std::fs::File) {
    let _ = OUTPUT.set(file);
}

fn end(line: &str) -> ! {
    if let Some(mut output) = OUTPUT.get() {
        let _ = output.write_all(line.as_bytes());
    }
    // SAFETY: Ends the process without running anything of the simulated threads.
    unsafe { real::system(libc::SYS_exit_group, [0; 6]) };
    unreachable!("the process has ended")
}

/// Ends the run: it has failed.
pub fn stop(reason: &str) -> ! {
    end(&format!("failed {reason}"))
}

/// Ends the run: all checks have passed.
pub fn pass(figures: &str) -> ! {
    end(&format!("passed {figures}"))
}

/// Makes a panic of any thread fail the run.
pub fn fail_on_panic() {
    std::panic::set_hook(Box::new(|info| {
        if std::env::var_os("SIM_BACKTRACE").is_some() {
            eprintln!("{info}\n{}", std::backtrace::Backtrace::force_capture());
        }
        stop(&info.to_string().replace('\n', " "));
    }));
}
