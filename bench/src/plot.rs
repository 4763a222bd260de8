//! Plots as SVG, one line per contender, over the number of timers (both axes logarithmic) or over named places.

use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use punctual_figures::plot::{Area, COLOURS, Drawing, FONT, page};

use crate::contender::Role;
use crate::error::Result;
use crate::table;

const SIZE: (u32, u32) = (1080, 600);

/// Width of the names at the right, in pixels.
const LEGEND: u32 = 250;

/// A line and its name.
#[derive(Clone, Debug)]
pub struct Curve {
    pub name: String,
    /// Origin of the queue: thick lines for Punctual, thin ones for peers, dots for the floor.
    pub role: Role,
    pub points: Vec<(f64, f64)>,
}

/// Contents of a plot.
#[derive(Clone, Debug)]
pub struct Plot {
    pub title: String,
    pub x_axis: String,
    pub y_axis: String,
    /// Source of the figures.
    pub foot: String,
    /// Names of the places 0, 1, 2... on the x axis; their points are not joined. If empty, x is
    /// logarithmic, as y always is.
    pub names: Vec<String>,
    pub curves: Vec<Curve>,
}

impl Plot {
    /// Writes the file. Returns false, without a file, if no line has two points.
    pub fn write(&self, path: &Path) -> Result<bool> {
        if self.curves.iter().all(|curve| curve.points.len() < 2) {
            return Ok(false);
        }
        page(path, SIZE, &self.title, &self.foot, |area| {
            let (lines, legend) = area.split_horizontally(SIZE.0 - LEGEND - 34);
            // The types of the two axes differ, hence two branches.
            let (x, y) = self.ranges();
            if self.names.is_empty() {
                self.lines(&lines, (x.0..x.1).log_scale(), y)?;
            } else {
                self.lines(&lines, x.0..x.1, y)?;
            }
            self.legend(&legend)
        })?;
        Ok(true)
    }

    /// Returns the ranges of x and y, with y extended to about whole decades.
    fn ranges(&self) -> ((f64, f64), (f64, f64)) {
        let all = || self.curves.iter().flat_map(|curve| &curve.points);
        let fold = |values: &mut dyn Iterator<Item = f64>| {
            values.fold((f64::MAX, f64::MIN), |(low, high), value| {
                (low.min(value), high.max(value))
            })
        };
        let x = fold(&mut all().map(|point| point.0));
        let y = fold(&mut all().map(|point| shown(point.1)));
        let y = (y.0 / 1.3, y.1 * 1.3);
        if self.names.is_empty() {
            return (x, y);
        }
        ((-0.5, self.names.len() as f64 - 0.5), y)
    }

    fn lines<X>(&self, area: &Area<'_>, x: X, y: (f64, f64)) -> Drawing
    where
        X: plotters::coord::ranged1d::AsRangedCoord<Value = f64>,
        X::CoordDescType: plotters::coord::ranged1d::ValueFormatter<f64>,
    {
        let mut chart = ChartBuilder::on(area)
            .x_label_area_size(46)
            .y_label_area_size(66)
            .build_cartesian_2d(x, (y.0..y.1).log_scale())?;
        chart
            .configure_mesh()
            .x_desc(self.x_axis.as_str())
            .y_desc(self.y_axis.as_str())
            .x_labels(self.names.len().max(10))
            .x_label_formatter(&|x| self.place_name(*x))
            .y_labels(24)
            .y_label_formatter(&|y| tick(*y))
            .light_line_style(RGBColor(242, 242, 242))
            .bold_line_style(RGBColor(222, 222, 222))
            .label_style((FONT, 14))
            .axis_desc_style((FONT, 15))
            .draw()?;
        // Punctual's lines are drawn last, above the others.
        let mut order: Vec<usize> = (0..self.curves.len()).collect();
        order.sort_by_key(|&at| self.curves[at].role == Role::Ours);
        for at in order {
            let style = self.style(at);
            let points = || self.curves[at].points.iter().map(|&(x, y)| (x, shown(y)));
            if self.joined(at) {
                if self.dashed(at) {
                    chart.draw_series(DashedLineSeries::new(points(), 6, 4, style))?;
                } else {
                    chart.draw_series(LineSeries::new(points(), style))?;
                }
            }
            let size = if self.curves[at].role == Role::Ours {
                4
            } else {
                3
            };
            chart.draw_series(points().map(|point| Circle::new(point, size, style.filled())))?;
        }
        Ok(())
    }

    /// Draws the names at the right, ordered by the last values of the lines.
    fn legend(&self, area: &Area<'_>) -> Drawing {
        let last = |at: &usize| {
            self.curves[*at]
                .points
                .last()
                .map_or(f64::MIN, |point| point.1)
        };
        let mut order: Vec<usize> = (0..self.curves.len())
            .filter(|&at| !self.curves[at].points.is_empty())
            .collect();
        order.sort_by(|one, other| last(other).total_cmp(&last(one)));
        let left = Pos::new(HPos::Left, VPos::Center);
        for (row, at) in order.into_iter().enumerate() {
            let y = 14 + row as i32 * 20;
            let style = self.style(at);
            if self.joined(at) {
                let step = if self.dashed(at) { 9 } else { 26 };
                let dash = if self.dashed(at) { 5 } else { 26 };
                for x in (8..34).step_by(step) {
                    area.draw(&PathElement::new([(x, y), (x + dash, y)], style))?;
                }
            }
            area.draw(&Circle::new((21, y), 3, style.filled()))?;
            let name = (FONT, 13).into_font().color(&BLACK).pos(left);
            area.draw(&Text::new(self.curves[at].name.as_str(), (42, y), name))?;
        }
        Ok(())
    }

    /// Returns the index of a curve among those of its role, which selects its colour.
    fn place(&self, at: usize) -> usize {
        let same = |curve: &&Curve| curve.role == self.curves[at].role;
        self.curves[..at].iter().filter(same).count()
    }

    fn style(&self, at: usize) -> ShapeStyle {
        let colour = COLOURS[self.place(at) % COLOURS.len()];
        match self.curves[at].role {
            // The first two are the default choices.
            Role::Ours => colour.stroke_width(if self.place(at) < 2 { 3 } else { 2 }),
            Role::Peer => colour.mix(0.85).stroke_width(1),
            Role::Floor => BLACK.mix(0.5).stroke_width(1),
        }
    }

    fn joined(&self, at: usize) -> bool {
        self.curves[at].role != Role::Floor && self.names.is_empty()
    }

    /// Returns the label of this place on the x axis.
    fn place_name(&self, x: f64) -> String {
        if self.names.is_empty() {
            return tick(x);
        }
        let name = (x >= 0.0 && x.fract() == 0.0).then(|| self.names.get(x as usize));
        name.flatten().cloned().unwrap_or_default()
    }

    /// Returns true for peers, and for queues of Punctual beyond the number of colours.
    fn dashed(&self, at: usize) -> bool {
        self.curves[at].role == Role::Peer || self.place(at) >= COLOURS.len()
    }
}

/// Returns a positive value, because a logarithmic axis has no zero.
fn shown(value: f64) -> f64 {
    value.max(0.05)
}

/// Formats a number on an axis.
fn tick(value: f64) -> String {
    if value >= 1_000.0 {
        return table::count(value.round() as usize);
    }
    punctual_figures::plot::tick(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: &[(f64, f64)]) -> Plot {
        Plot {
            title: "t".into(),
            x_axis: "x".into(),
            y_axis: "y".into(),
            foot: "f".into(),
            names: Vec::new(),
            curves: vec![Curve {
                name: "the only one".into(),
                role: Role::Ours,
                points: points.to_vec(),
            }],
        }
    }

    #[test]
    fn lines_have_names_and_zero_is_no_obstacle() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.svg");
        assert!(plot(&[(1.0, 0.0), (1e6, 80.0)]).write(&path).unwrap());
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("the only one") && text.contains("</svg>"));
    }

    #[test]
    fn a_single_point_is_no_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.svg");
        assert!(!plot(&[(1.0, 1.0)]).write(&path).unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn ticks() {
        assert_eq!(tick(0.5), "0.5");
        assert_eq!(tick(100_000.0), "100k");
    }
}
