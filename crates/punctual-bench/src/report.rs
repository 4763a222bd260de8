//! The output of a run: header, tables, verdicts, progress and files.

use std::ffi::OsString;
use std::path::PathBuf;

use punctual_figures::machine::Machine;
pub(crate) use punctual_figures::progress;
use punctual_figures::sleeper::{LIMIT, Sleeper, Sleeps};

use crate::csv::{Csv, Measurement};
use crate::error::{Error, Result};
use crate::launch::Server;
use crate::options::Output;
use crate::table::millis;

/// The output of one run.
#[derive(Debug)]
pub(crate) struct Report {
    machine: Machine,
    command_line: String,
    out: Option<PathBuf>,
    csv: Option<Csv>,
    quick: bool,
    strict: bool,
    /// Punctual has missed a bar.
    missed: bool,
    sleeper: Sleeper,
    /// Sleeps beside the measurements of each case.
    slept: Vec<(String, Sleeps)>,
    /// Number of verdicts that the machine was too busy for.
    unjudged: usize,
    written: Vec<PathBuf>,
}

impl Report {
    /// Creates the files and directories, so that errors appear before the run and not at its end.
    pub(crate) fn open(output: &Output, args: &[OsString]) -> Result<Self> {
        let machine = Machine::here();
        if let Some(path) = &output.out {
            punctual_figures::make_directory(path)?;
        }
        let csv = match &output.csv {
            Some(path) => Some(Csv::create(path, &machine.date)?),
            None => None,
        };
        let words = std::iter::once("punctual-bench".into()).chain(without_password(args));
        Ok(Self {
            machine,
            command_line: words.collect::<Vec<String>>().join(" "),
            out: output.out.clone(),
            csv,
            quick: output.quick,
            strict: output.strict,
            missed: false,
            sleeper: Sleeper::start().map_err(|source| Error::System {
                doing: "starting the thread that sleeps beside the run",
                source,
            })?,
            slept: Vec::new(),
            unjudged: 0,
            written: Vec::new(),
        })
    }

    /// Prints the title, the machine, the servers and notes.
    pub(crate) fn header(&self, title: &str, servers: &[String], notes: &[String]) {
        let machine = &self.machine;
        say!("{title}");
        say!("  command   {}", self.command_line);
        say!("  date      {}", machine.date);
        say!(
            "  machine   {} x {}; {}; load {} at the start",
            machine.cores,
            machine.processor,
            machine.kernel,
            machine.load
        );
        for (at, server) in servers.iter().enumerate() {
            say!("  {:<9} {server}", if at == 0 { "servers" } else { "" });
        }
        if self.quick {
            say!("  note      a quick run, smaller than the runs for which the bars hold");
        }
        if cfg!(debug_assertions) {
            say!(
                "  note      the load generator is a debug build: build with --release for valid results"
            );
        }
        for note in notes {
            say!("  note      {note}");
        }
        say!();
    }

    /// Returns `PASS` or `MISS` for a count or a size, which a busy machine does not change. Records a miss of Punctual
    /// for `--strict`.
    pub(crate) fn verdict(&mut self, ours: bool, met: bool) -> &'static str {
        self.missed |= ours && !met;
        if met { "PASS" } else { "MISS" }
    }

    /// Returns the verdict on a duration or a CPU time: `BUSY` if the machine was too busy during the run so far.
    pub(crate) fn timed_verdict(&mut self, ours: bool, met: bool) -> &'static str {
        self.collect("");
        let late = self.all_slept().late();
        self.unless(late, ours, met)
    }

    /// Returns the same for the recorded measurements of one case.
    pub(crate) fn case_verdict(&mut self, case: &str, ours: bool, met: bool) -> &'static str {
        let late = self
            .slept
            .iter()
            .any(|(name, sleeps)| name == case && sleeps.late());
        self.unless(late, ours, met)
    }

    fn unless(&mut self, late: bool, ours: bool, met: bool) -> &'static str {
        if late {
            self.unjudged += 1;
            return "BUSY";
        }
        self.verdict(ours, met)
    }

    /// Adds the sleeps since the last measurement to those of a case.
    fn collect(&mut self, case: &str) {
        let sleeps = self.sleeper.take();
        match self.slept.iter_mut().find(|(name, _)| name == case) {
            Some((_, before)) => before.add(&sleeps),
            None => self.slept.push((case.to_owned(), sleeps)),
        }
    }

    fn all_slept(&self) -> Sleeps {
        let mut all = Sleeps::default();
        self.slept.iter().for_each(|(_, sleeps)| all.add(sleeps));
        all
    }

    /// Records a measurement that has just ended. Writes it to the CSV file, if there is one.
    pub(crate) fn record(&mut self, one: Measurement<'_>) -> Result<()> {
        self.collect(one.case);
        self.csv.as_mut().map_or(Ok(()), |csv| csv.write(one))
    }

    /// Records the figures of one round, as metric, unit and value. Those without a value are left out.
    pub(crate) fn record_all<'m, V: Into<Option<f64>>>(
        &mut self,
        benchmark: &str,
        server: &str,
        case: &str,
        round: u32,
        figures: impl IntoIterator<Item = (&'m str, &'m str, V)>,
    ) -> Result<()> {
        for (metric, unit, value) in figures {
            let Some(value) = value.into() else { continue };
            self.record(Measurement {
                benchmark,
                server,
                case,
                round,
                metric,
                unit,
                value,
            })?;
        }
        Ok(())
    }

    /// Returns the path for the plot of this name, if plots are enabled.
    pub(crate) fn plot_path(&mut self, name: &str) -> Option<PathBuf> {
        let path = self.out.as_ref()?.join(name);
        self.written.push(path.clone());
        Some(path)
    }

    /// Returns the foot line of a plot: machine and date.
    pub(crate) fn provenance(&self) -> String {
        self.machine.provenance()
    }

    /// Flushes the files and prints their paths, and how busy the machine was.
    pub(crate) fn close(&mut self) -> Result<()> {
        self.collect("");
        if let Some(late) = self.all_slept().p99() {
            say!(
                "sleeps of 1 ms beside the run were late by {} ms at p99",
                millis(late.as_secs_f64() * 1e3)
            );
        }
        if self.unjudged > 0 {
            say!(
                "BUSY: no verdict, because these sleeps were late by more than {} ms at p99: the machine had other work",
                millis(LIMIT.as_secs_f64() * 1e3)
            );
        }
        if let Some(csv) = &mut self.csv {
            csv.finish()?;
        }
        for path in &self.written {
            say!("wrote {}", path.display());
        }
        Ok(())
    }

    /// Returns true if `--strict` is set and a bar was missed or could not be judged.
    pub(crate) fn strict_failure(&self) -> bool {
        self.strict && (self.missed || self.unjudged > 0)
    }
}

/// Returns the header's description of a server.
pub(crate) fn describe(server: &Server) -> String {
    let origin = match (server.started, server.pid) {
        (true, _) => "started for this run",
        (false, Some(_)) => "was running",
        (false, None) => {
            "was running; not on this machine as far as can be seen, so no CPU and memory figures"
        }
    };
    format!(
        "{} ({}; {}; {origin})",
        server.label, server.product, server.addr
    )
}

/// Returns the arguments quoted for a shell, without the password.
fn without_password(args: &[OsString]) -> Vec<String> {
    let mut words: Vec<String> = args.iter().map(shown).collect();
    for at in 0..words.len() {
        if at > 0 && args[at - 1] == "--password" {
            words[at] = "***".into();
        } else if words[at]
            .trim_start_matches('\'')
            .starts_with("--password=")
        {
            words[at] = "--password=***".into();
        }
    }
    words
}

/// Returns an argument quoted for a shell.
fn shown(arg: &OsString) -> String {
    let text = arg.to_string_lossy();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=.,/:@%+".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_printed() {
        let words = without_password(&[
            "--password".into(),
            "a b".into(),
            "--password=c d".into(),
            "x".into(),
        ]);
        assert_eq!(words, ["--password", "***", "--password=***", "x"]);
    }

    #[test]
    fn arguments_can_be_pasted_into_a_shell() {
        assert_eq!(shown(&"--keys=5".into()), "--keys=5");
        assert_eq!(shown(&"".into()), "''");
        assert_eq!(shown(&"it's $HOME".into()), r"'it'\''s $HOME'");
    }
}
