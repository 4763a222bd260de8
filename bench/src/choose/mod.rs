//! Which queue to choose: studies that each answer one question, with a table and plots.
//!
//! A study has series (queues) and points (arities, numbers of timers, shares of cancels), and each of
//! its figures is a plot of all series over all points. Rounds go over all of them in an order that
//! rotates, with the same random stream for all.

mod arity;
mod crossing;
mod lazy;
mod near_far;
mod one_timer;
mod ticks;

use std::path::Path;

use crate::clock::Pace;
use crate::contender::Role;
use crate::error;
use crate::field::Entry;
use crate::figure::{Figure, GaveUp, Sample};
use crate::machine;
use crate::plot::{Curve, Plot};
use crate::random::Random;
use crate::run::{Plan, bar};
use crate::spread::Spread;
use crate::table::{Table, number};
use crate::workload::Workload;

/// What a study plots: one figure.
struct Shown {
    /// In the names of files.
    name: String,
    title: String,
    unit: &'static str,
}

/// A place on the x axis.
struct Point {
    label: String,
    at: f64,
}

/// Measures one series at one point: one value for each figure, `None` where there is none.
type Measure = Box<dyn Fn(usize, usize, &mut Random, &Pace) -> Result<Vec<Option<f64>>, GaveUp>>;

/// By figure, series and point.
type Measured = [Vec<Vec<Option<Spread>>>];

/// A question.
struct Study {
    title: &'static str,
    /// What is compared, for those who read the table alone.
    about: &'static str,
    x_axis: &'static str,
    scale: Scale,
    shown: Vec<Shown>,
    points: Vec<Point>,
    series: Vec<String>,
    measure: Measure,
    /// What the medians say, in words: figure, series, point.
    says: fn(&Measured, &Study) -> Vec<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum Scale {
    Linear,
    Logarithmic,
    /// The points have no order: they are named, and not joined.
    Names,
}

/// Runs all studies, prints them, and writes their plots.
pub fn choose(plan: &Plan, out: Option<&Path>) -> error::Result<()> {
    let studies = [
        arity::study(plan.quick),
        crossing::study(plan.quick),
        lazy::study(plan.quick),
        near_far::study(plan.quick),
        one_timer::study(),
        ticks::study(plan.quick),
    ];
    let rounds = plan.rounds.unwrap_or(if plan.quick { 3 } else { 5 });
    let cells = |study: &Study| study.points.len() * study.series.len() * (rounds + 1);
    let progress = bar(studies.iter().map(cells).sum::<usize>() as u64);
    for study in &studies {
        let measured = study.run(plan, rounds, &progress);
        progress.suspend(|| print!("{}", study.written(&measured)));
        if let Some(folder) = out {
            study.draw(&measured, folder)?;
        }
    }
    progress.finish_and_clear();
    println!("{}", ticks::exactness(plan));
    Ok(())
}

impl Study {
    /// The spread of each figure, series and point.
    fn run(
        &self,
        plan: &Plan,
        rounds: usize,
        progress: &indicatif::ProgressBar,
    ) -> Vec<Vec<Vec<Option<Spread>>>> {
        let pace = plan.pace();
        let (figures, series, points) = (self.shown.len(), self.series.len(), self.points.len());
        let mut values = vec![vec![vec![Vec::new(); points]; series]; figures];
        // Round 0 warms up.
        for round in 0..=rounds {
            for turn in 0..series * points {
                let cell = (turn + round * points) % (series * points);
                let (one, point) = (cell / points, cell % points);
                progress.set_message(format!("{}: {}", self.x_axis, self.series[one]));
                progress.inc(1);
                let mut random = Random::new(plan.seed ^ (round as u64) << 32 ^ point as u64);
                let Ok(found) = (self.measure)(one, point, &mut random, &pace) else {
                    continue;
                };
                for (figure, value) in found.into_iter().enumerate() {
                    if let Some(value) = value.filter(|_| round > 0) {
                        values[figure][one][point].push(value);
                    }
                }
            }
        }
        let spreads = |points: Vec<Vec<f64>>| points.into_iter().map(Spread::of).collect();
        let each = |series: Vec<Vec<Vec<f64>>>| series.into_iter().map(spreads).collect();
        values.into_iter().map(each).collect()
    }

    fn written(&self, measured: &Measured) -> String {
        let mut text = format!("{}\n  {}\n", self.title, self.about);
        for (shown, series) in self.shown.iter().zip(measured) {
            let mut head = vec![self.x_axis.to_owned()];
            for point in &self.points {
                head.extend([point.label.clone(), String::new()]);
            }
            let mut table = Table::new(1, head);
            for (name, points) in self.series.iter().zip(series) {
                let mut row = vec![name.clone()];
                for spread in points {
                    match spread {
                        Some(spread) => row.extend([
                            number(spread.median),
                            format!("{}-{}", number(spread.low), number(spread.high)),
                        ]),
                        None => row.extend(["-".to_owned(), String::new()]),
                    }
                }
                table.row(row);
            }
            text += &format!(
                "\n{} ({}; beside it the middle half)\n\n{table}",
                shown.title, shown.unit
            );
        }
        for line in (self.says)(measured, self) {
            text += &format!("  {line}\n");
        }
        text + "\n"
    }

    fn draw(&self, measured: &Measured, folder: &Path) -> error::Result<()> {
        for (shown, series) in self.shown.iter().zip(measured) {
            let curve = |(name, points): (&String, &Vec<Option<Spread>>)| Curve {
                name: name.clone(),
                role: Role::Ours,
                points: self
                    .points
                    .iter()
                    .zip(points)
                    .filter_map(|(point, spread)| Some((point.at, spread.as_ref()?.median)))
                    .collect(),
            };
            let names = self.points.iter().map(|point| point.label.clone());
            let plot = Plot {
                title: shown.title.clone(),
                x_axis: self.x_axis.into(),
                y_axis: format!("{} (logarithmic)", shown.unit),
                foot: machine::here(),
                log_x: self.scale == Scale::Logarithmic,
                names: match self.scale {
                    Scale::Names => names.collect(),
                    _ => Vec::new(),
                },
                curves: self.series.iter().zip(series).map(curve).collect(),
            };
            let path = folder.join(format!("choose-{}.svg", shown.name));
            if plot.write(&path)? {
                println!("wrote {}", path.display());
            }
        }
        Ok(())
    }
}

/// Numbers of timers as points.
fn sizes(sizes: &[usize]) -> Vec<Point> {
    let point = |&size: &usize| Point {
        label: format!("N = {}", crate::table::count(size)),
        at: size as f64,
    };
    sizes.iter().map(point).collect()
}

/// Runs the workload and picks the figure.
fn measured(
    entry: &Entry,
    workload: Workload,
    figure: Figure,
    size: usize,
    random: &mut Random,
    pace: &Pace,
) -> Result<Option<f64>, GaveUp> {
    if size > entry.max_timers {
        return Ok(None);
    }
    let samples = (entry.round)(workload, size, random, pace)?;
    Ok(value(&samples, figure))
}

fn value(samples: &[Sample], figure: Figure) -> Option<f64> {
    samples
        .iter()
        .find(|sample| sample.figure == figure)
        .map(|sample| sample.value)
}

/// Studies that leave the figures to speak for themselves.
fn says_nothing(_: &Measured, _: &Study) -> Vec<String> {
    Vec::new()
}

/// At each figure, the first point from which on `slower` is the slower one of two series, among the
/// points that both were measured at.
fn crossings(measured: &Measured, study: &Study, slower: usize, faster: usize) -> Vec<String> {
    let (one, other) = (&study.series[slower], &study.series[faster]);
    let mut lines = Vec::new();
    for (shown, series) in study.shown.iter().zip(measured) {
        let both = series[slower]
            .iter()
            .zip(&series[faster])
            .zip(&study.points);
        let behind: Vec<(bool, &str)> = both
            .filter_map(|((slower, faster), point)| {
                let behind = slower.as_ref()?.median > faster.as_ref()?.median;
                Some((behind, point.label.as_str()))
            })
            .collect();
        let ahead = behind.iter().rposition(|&(behind, _)| !behind);
        let from = ahead.map_or(0, |last| last + 1);
        let title = &shown.title;
        lines.extend(match (behind.get(from), behind.last()) {
            (Some((_, label)), _) => {
                Some(format!("{title}: {one} is behind {other} from {label} on"))
            }
            (None, Some((_, last))) => Some(format!(
                "{title}: {one} is not behind {other} at {last}, the last both were tried at"
            )),
            (None, None) => None,
        });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study(points: &[usize]) -> Study {
        Study {
            title: "t",
            about: "a",
            x_axis: "x",
            scale: Scale::Logarithmic,
            shown: vec![Shown {
                name: "f".into(),
                title: "f".into(),
                unit: "ns",
            }],
            points: sizes(points),
            series: vec!["one".into(), "other".into()],
            measure: Box::new(|series, point, _, _| {
                Ok(vec![Some((series * 10 + point + 1) as f64)])
            }),
            says: says_nothing,
        }
    }

    #[test]
    fn crossings_are_where_it_falls_behind_for_good() {
        let study = study(&[1, 10, 100, 1000]);
        let spreads = |values: [f64; 4]| values.map(|value| Spread::of([value])).to_vec();
        let measured = vec![vec![spreads([1.0, 5.0, 2.0, 9.0]), spreads([3.0; 4])]];
        assert_eq!(
            crossings(&measured, &study, 0, 1),
            ["f: one is behind other from N = 1k on"]
        );
        assert_eq!(
            crossings(&measured, &study, 1, 0),
            ["f: other is not behind one at N = 1k, the last both were tried at"]
        );
    }

    #[test]
    fn every_series_is_measured_at_every_point() {
        let plan = Plan {
            workloads: Vec::new(),
            sizes: Vec::new(),
            rounds: None,
            quick: true,
            seed: 1,
        };
        let study = study(&[1, 10, 100]);
        let measured = study.run(&plan, 2, &indicatif::ProgressBar::hidden());
        let medians: Vec<f64> = measured[0]
            .iter()
            .flatten()
            .map(|one| one.unwrap().median)
            .collect();
        assert_eq!(medians, [1.0, 2.0, 3.0, 11.0, 12.0, 13.0]);
        assert!(
            measured[0]
                .iter()
                .flatten()
                .all(|one| one.unwrap().rounds == 2)
        );
    }
}
