//! Figures as rows, servers as columns; beside them the bar and who met it.

use std::fmt;

use crate::launch::Server;
use crate::report::Report;
use crate::table::Table;

/// A table of figures of several servers.
#[derive(Debug)]
pub(crate) struct Sheet {
    table: Table,
    ours: Vec<bool>,
}

impl Sheet {
    /// `title` stands above the figures' names.
    pub(crate) fn new(title: &str, servers: &[Server]) -> Self {
        let labels = || servers.iter().map(|server| server.label.clone());
        let head = [title.to_owned()]
            .into_iter()
            .chain(labels())
            .chain(["bar".into()])
            .chain(labels());
        Self {
            table: Table::new(1, head),
            ours: servers.iter().map(|server| server.ours).collect(),
        }
    }

    /// A figure without a bar: one text for each server.
    pub(crate) fn row(&mut self, name: &str, values: impl IntoIterator<Item = String>) {
        self.table.row([name.to_owned()].into_iter().chain(values));
    }

    /// A figure with a bar: for each server a text, and whether it met the bar.
    pub(crate) fn judged(
        &mut self,
        report: &mut Report,
        name: &str,
        bar: &str,
        values: impl IntoIterator<Item = (String, bool)>,
    ) {
        let (mut row, mut verdicts) = (vec![name.to_owned()], Vec::new());
        for ((value, met), &ours) in values.into_iter().zip(&self.ours) {
            row.push(value);
            verdicts.push(report.verdict(ours, met).to_owned());
        }
        row.push(bar.to_owned());
        row.append(&mut verdicts);
        self.table.row(row);
    }
}

impl fmt::Display for Sheet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.table.fmt(f)
    }
}
