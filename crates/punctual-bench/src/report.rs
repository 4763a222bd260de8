//! The output of a run: header, tables, verdicts, progress and files.

use std::ffi::OsString;
use std::path::PathBuf;

use punctual_figures::machine::Machine;
pub(crate) use punctual_figures::progress;

use crate::csv::{Csv, Measurement};
use crate::error::Result;
use crate::launch::Server;
use crate::options::Output;

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
        let words = std::iter::once("punctual bench".into()).chain(without_password(args));
        Ok(Self {
            machine,
            command_line: words.collect::<Vec<String>>().join(" "),
            out: output.out.clone(),
            csv,
            quick: output.quick,
            strict: output.strict,
            missed: false,
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

    /// Returns `PASS` or `MISS`. Records a miss of Punctual for `--strict`.
    pub(crate) fn verdict(&mut self, ours: bool, met: bool) -> &'static str {
        self.missed |= ours && !met;
        if met { "PASS" } else { "MISS" }
    }

    /// Writes a measurement to the CSV file, if there is one.
    pub(crate) fn record(&mut self, one: Measurement<'_>) -> Result<()> {
        self.csv.as_mut().map_or(Ok(()), |csv| csv.write(one))
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

    /// Flushes the files and prints their paths.
    pub(crate) fn close(&mut self) -> Result<()> {
        if let Some(csv) = &mut self.csv {
            csv.finish()?;
        }
        for path in &self.written {
            say!("wrote {}", path.display());
        }
        Ok(())
    }

    /// Returns true if `--strict` is set and a bar was missed.
    pub(crate) fn strict_failure(&self) -> bool {
        self.strict && self.missed
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
