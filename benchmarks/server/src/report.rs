//! The output of a run: header, verdicts, progress and files.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use punctual_figures::bar::Verdict;
use punctual_figures::csv::Csv;
use punctual_figures::machine::Machine;
pub(crate) use punctual_figures::progress;
use punctual_figures::sleeper::{LIMIT, Sleeper, Sleeps};

use crate::error::{Error, Result};
use crate::launch::Program;
use crate::options::Output;
use crate::table::millis;

/// The output of one run.
#[derive(Debug)]
pub(crate) struct Report {
    machine: Machine,
    command_line: String,
    out: Option<PathBuf>,
    csv: Option<Csv>,
    page: Option<PathBuf>,
    quick: bool,
    strict: bool,
    /// True if Punctual has missed a bar.
    missed: bool,
    sleeper: Sleeper,
    /// The sleeper's sleeps during all measurements.
    slept: Sleeps,
    /// Number of bars without a verdict because the machine was too busy.
    unjudged: usize,
    written: Vec<PathBuf>,
    /// Notes for the header.
    pub(crate) notes: Vec<String>,
}

impl Report {
    /// Creates the files and directories, so that errors appear before the run and not at its end.
    pub(crate) fn open(output: &Output, args: &[OsString]) -> Result<Self> {
        if let Some(path) = &output.out {
            punctual_figures::make_directory(path)?;
        }
        let csv = match &output.csv {
            Some(path) => Some(Csv::create(
                path,
                "date,benchmark,server,case,round,figure,value",
            )?),
            None => None,
        };
        let words = args.iter().map(|word| word.to_string_lossy().into_owned());
        let words = std::iter::once("punctual-bench".to_owned()).chain(words);
        Ok(Self {
            machine: Machine::here(),
            command_line: words.collect::<Vec<String>>().join(" "),
            out: output.out.clone(),
            csv,
            page: output.page.clone(),
            quick: output.quick,
            strict: output.strict,
            missed: false,
            sleeper: Sleeper::start().map_err(Error::system(
                "starting the thread that sleeps beside the run",
            ))?,
            slept: Sleeps::default(),
            unjudged: 0,
            written: Vec::new(),
            notes: Vec::new(),
        })
    }

    /// Prints the title, the machine, the servers and notes.
    pub(crate) fn header(&self, title: &str, programs: &[Program], notes: &[&str]) {
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
        for program in programs {
            say!("  server    {} ({})", program.label, program.product);
        }
        if self.quick {
            say!("  note      a quick run, smaller than the runs for which the bars hold");
        }
        if cfg!(debug_assertions) {
            say!(
                "  note      the load generator is a debug build: build with --release for valid results"
            );
        }
        say!(
            "  note      columns are measured in turn; medians, with (least..greatest); ratios are medians of each round's ratio"
        );
        for note in notes
            .iter()
            .copied()
            .chain(self.notes.iter().map(String::as_str))
        {
            say!("  note      {note}");
        }
        say!();
    }

    /// Begins to record whether the machine has other work, for a new case.
    pub(crate) fn begin_case(&mut self) {
        self.sleeper.take();
    }

    /// Returns true if the machine was too busy for a verdict since [`Self::begin_case`].
    pub(crate) fn end_case(&mut self) -> bool {
        let sleeps = self.sleeper.take();
        self.slept.add(&sleeps);
        sleeps.late()
    }

    /// Records a verdict for `--strict`, and returns it.
    pub(crate) fn note(&mut self, verdict: Verdict) -> Verdict {
        self.unjudged += usize::from(verdict == Verdict::Busy);
        self.missed |= verdict == Verdict::Miss;
        verdict
    }

    /// Writes a line to the CSV file, if there is one.
    pub(crate) fn record(&mut self, fields: &[&dyn Display]) -> Result<()> {
        let Some(csv) = &mut self.csv else {
            return Ok(());
        };
        let date: [&dyn Display; 1] = [&self.machine.date];
        Ok(csv.line(&[&date, fields].concat())?)
    }

    /// Appends a table to the page, if there is one, under the command that measured it.
    pub(crate) fn append(&mut self, table: &str) -> Result<()> {
        let Some(path) = &self.page else {
            return Ok(());
        };
        let command = self
            .command_line
            .split(" --page ")
            .next()
            .unwrap_or_default();
        punctual_figures::append(path, &format!("`{command}`\n\n{table}\n"))?;
        if self.written.last() != Some(path) {
            self.written.push(path.clone());
        }
        Ok(())
    }

    /// Draws a plot by calling `draw` with the path and the foot line, if plots are enabled.
    pub(crate) fn plot(
        &mut self,
        name: &str,
        draw: impl FnOnce(&Path, &str) -> Result<()>,
    ) -> Result<()> {
        let Some(directory) = &self.out else {
            return Ok(());
        };
        let path = directory.join(name);
        draw(&path, &self.machine.provenance())?;
        self.written.push(path);
        Ok(())
    }

    /// Flushes the files and prints their paths, and how busy the machine was.
    pub(crate) fn close(&mut self) -> Result<()> {
        let ms = |late: std::time::Duration| millis(late.as_secs_f64() * 1e3);
        if let Some(late) = self.slept.p99() {
            say!(
                "sleeps of 1 ms beside the run were late by {} ms at p99",
                ms(late)
            );
        }
        if self.unjudged > 0 {
            say!(
                "BUSY: no verdict, because these sleeps were late by more than {} ms at p99: the machine had other work",
                ms(LIMIT)
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
