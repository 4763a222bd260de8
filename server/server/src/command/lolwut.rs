//! LOLWUT. Redis draws computer art; this server draws a clock face with the current time.

use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Reply};
use punctual_store::spec::{Flags, Group};
use punctual_store::{Error, Now};

use crate::node::call::{Call, ServerCommand};

/// Rows of the commands in this file.
pub(crate) static COMMANDS: &[ServerCommand] = &[ServerCommand::new(
    "lolwut",
    -1,
    Flags::READONLY.or(Flags::FAST),
    Group::Server,
    lolwut,
)
.since("5.0.0")
.summary("Displays the server's clock as a drawing and the server's version.")
.syntax("[VERSION version:integer]")];

fn lolwut(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let version = args
        .get(1)
        .is_some_and(|a| a.eq_ignore_ascii_case(b"version"));
    if let (true, Some(number)) = (version, args.get(2)) {
        parse_i64(number).ok_or(Error::NotInteger)?;
    }
    let text = format!(
        "{}\nPunctual {}, which speaks as Redis ver. {}\n",
        face(call.now()),
        env!("CARGO_PKG_VERSION"),
        call.shared.settings().redis_version
    );
    reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// Draws a clock with two hands at the UTC time of `now`.
fn face(now: Now) -> String {
    const RADIUS: i32 = 8;
    /// Twice the radius, because a character is about twice as high as it is wide.
    const WIDTH: i32 = 2 * RADIUS;
    let minutes = (now.micros() / 60_000_000 % 720) as f64;
    let mut rows = vec![vec![' '; 2 * WIDTH as usize + 1]; 2 * RADIUS as usize + 1];
    let mut dot = |turns: f64, length: f64, sign: char| {
        let angle = turns * std::f64::consts::TAU;
        let x = f64::from(WIDTH) * (1.0 + length * angle.sin());
        let y = f64::from(RADIUS) * (1.0 - length * angle.cos());
        rows[y.round() as usize][x.round() as usize] = sign;
    };
    for minute in 0..60 {
        let sign = if minute % 5 == 0 { 'o' } else { '.' };
        dot(f64::from(minute) / 60.0, 1.0, sign);
    }
    for step in 1..=20 {
        let along = f64::from(step) / 20.0;
        dot(minutes / 60.0 % 1.0, 0.8 * along, '+');
        dot(minutes / 720.0, 0.5 * along, '#');
    }
    let rows: Vec<String> = rows
        .iter()
        .map(|row| row.iter().collect::<String>().trim_end().to_owned())
        .collect();
    rows.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hands_show_the_time() {
        let three = face(Now::from_ms(3 * 3_600_000));
        let rows: Vec<&str> = three.lines().collect();
        assert_eq!(rows.len(), 17);
        assert_eq!(&rows[8][20..25], "#####", "the hour hand lies to the right");
        assert_eq!(&rows[3][16..17], "+", "the minute hand stands up");
        for minute in 0..1440 {
            face(Now::from_ms(minute * 60_000));
        }
        face(Now::from_micros(u64::MAX));
    }
}
