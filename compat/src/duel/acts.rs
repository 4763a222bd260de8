//! How each act is done to both servers, and what of it is compared.

use std::thread;
use std::time::{Duration, Instant};

use super::scenes::describe_scene;
use super::{Duel, HISTORY, Stop, agree};
use crate::audit;
use crate::command::{Command, Step};
use crate::compare::Judge;
use crate::draw::is_drawn_key;
use crate::events::{Message, first_difference};
use crate::generate::{Act, LAPSE_PREFIX, Lapse, Session, Wire};
use crate::link::{Exchange, Link, LinkError, Pair, Side};
use crate::report::{Finding, show, show_bytes};
use crate::session::canonical;

/// How long a server may take to tell an expiry that the other has told.
const SETTLE: Duration = Duration::from_secs(2);

/// Where a session learns that everything before has arrived.
const SESSION_FENCE: &str = "compat:fence:session";

impl Duel<'_> {
    /// Does one act; after a stall of the machine, also makes the deadlines equal again.
    pub(super) fn act(&mut self, act: &Act) -> Result<(), Stop> {
        let outcome = match act {
            Act::Pipeline(steps) => self.pipeline(steps),
            Act::Quit { before, after } => self.quit(before, after),
            Act::Session(session) => self.session(session),
            Act::Scan(scan) => self.scan(scan),
            Act::Scene(scene) => self.scene(scene),
            Act::Carry(carry) => self.carry(carry),
            Act::Lapse(lapse) => self.lapse(lapse),
            Act::Wire(wire) => self.wire(wire),
            Act::Audit => self.audit(),
        };
        outcome.map_err(|stop| match stop {
            Stop::Link(error) => broken(act, &error).into(),
            found => found,
        })?;
        self.summary.tolerance_ms = self.summary.tolerance_ms.max(self.tolerance.ms());
        if !self.tolerance.is_least() {
            self.summary.stalls += 1;
            agree(audit::align(&mut self.auditor, &mut self.tolerance)?)?;
        }
        Ok(())
    }

    pub(super) fn remember(&mut self, step: &Step) {
        self.summary.commands += 1;
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history
            .push_back((self.summary.commands, step.clone()));
    }

    /// Sends steps on the main connection; compares replies, then events.
    pub(super) fn pipeline(&mut self, steps: &[Step]) -> Result<(), Stop> {
        let fence = Step::from(self.events.fence());
        self.replies(steps, &[fence])?;
        agree(self.events.collect()?)
    }

    /// Sends steps and compares their replies; `unrecorded` ones follow and do not count as commands of the stream.
    fn replies(&mut self, steps: &[Step], unrecorded: &[Step]) -> Result<(), Stop> {
        let exchange = self.send(steps, unrecorded);
        self.compare(steps, unrecorded, exchange)
    }

    fn send(&mut self, steps: &[Step], unrecorded: &[Step]) -> Exchange {
        let all = || steps.iter().chain(unrecorded);
        let answered = all().filter(|step| step.answered).count();
        let exchange = self
            .main
            .exchange(all().map(|step| &step.command), answered);
        self.tolerance.saw(exchange.elapsed);
        exchange
    }

    fn compare(
        &mut self,
        steps: &[Step],
        unrecorded: &[Step],
        exchange: Exchange,
    ) -> Result<(), Stop> {
        let mut replies = exchange.replies.into_iter();
        let mut judge = Judge::new();
        for (index, step) in steps.iter().chain(unrecorded).enumerate() {
            if index < steps.len() {
                self.remember(step);
            }
            if !step.answered {
                continue;
            }
            let command = &step.command;
            let Some((a, b)) = replies.next() else {
                return Err(no_reply(command, exchange.failure).into());
            };
            if !judge.same(command, &a, &b, self.tolerance) {
                return Err(Finding {
                    headline: "the replies to a command".to_owned(),
                    a: show(&a),
                    b: show(&b),
                    keys: keys_of(command),
                    probes: Some(Vec::new()),
                    command: Some(command.clone()),
                }
                .into());
            }
        }
        Ok(())
    }

    /// QUIT is answered, nothing after it is, and the connection closes.
    fn quit(&mut self, before: &[Step], after: &[Command]) -> Result<(), Stop> {
        let steps: Vec<Step> = before
            .iter()
            .cloned()
            .chain([Command::of(&["QUIT"]).into()])
            .collect();
        let ignored: Vec<Step> = after
            .iter()
            .map(|command| Step {
                command: command.clone(),
                answered: false,
            })
            .collect();
        self.replies(&steps, &ignored)?;
        for link in [&mut self.main.a, &mut self.main.b] {
            match link.read() {
                Err(LinkError::Closed { .. }) => {}
                Err(other) => return Err(other.into()),
                Ok(value) => {
                    return Err(Finding {
                        headline: format!("a reply after QUIT: {}", show(&value)),
                        command: Some(Command::of(&["QUIT"])),
                        a: String::new(),
                        b: String::new(),
                        keys: Vec::new(),
                        probes: None,
                    }
                    .into());
                }
            }
        }
        self.main = Pair::connect(self.addresses)?;
        self.pipeline(&[self.options.protocol.hello().into()])
    }

    fn session(&mut self, session: &Session) -> Result<(), Stop> {
        let mut pair = Pair::connect(self.addresses)?;
        pair.ask(&self.options.protocol.hello())?;
        let mut frames = (Vec::new(), Vec::new());
        for (number, turn) in session.turns.iter().enumerate() {
            let number = number.to_string();
            self.summary.commands += turn.say.len() as u64;
            let fence = Command::of(&["SUBSCRIBE", SESSION_FENCE]);
            pair.exchange(turn.say.iter().chain([&fence]), 0);
            // Everything said before the fence was subscribed is answered before the others begin.
            let subscribed = pair.read_until(|frame| {
                frame.as_slice().is_some_and(|parts| {
                    parts.len() == 3
                        && parts[0].as_bytes() == Some(b"subscribe")
                        && parts[1].as_bytes() == Some(SESSION_FENCE.as_bytes())
                })
            })?;
            let mut steps = turn.publish.clone();
            steps.push(Command::of(&["PUBLISH", SESSION_FENCE, &number]).into());
            self.pipeline(&steps)?;
            let published = pair.read_until(|frame| {
                Message::of(frame).is_some_and(|message| {
                    message.kind == b"message"
                        && message.channel == SESSION_FENCE.as_bytes()
                        && message.payload == number.as_bytes()
                })
            })?;
            for (all, new) in [
                (&mut frames.0, [subscribed.0, published.0]),
                (&mut frames.1, [subscribed.1, published.1]),
            ] {
                all.extend(new.into_iter().flatten());
            }
        }
        let last = ["UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"].map(Command::new);
        let end = Command::of(&["PING", "the end"]);
        pair.exchange(last.iter().chain([&end]), 0);
        let rest = pair.read_until(|frame| frame.as_bytes() == Some(b"the end"))?;
        frames.0.extend(rest.0);
        frames.1.extend(rest.1);
        agree(
            first_difference(&canonical(frames.0), &canonical(frames.1)).map(|finding| Finding {
                headline: format!(
                    "{} in {}",
                    finding.headline,
                    describe(&Act::Session(session.clone()))
                ),
                probes: None,
                ..finding
            }),
        )
    }

    fn lapse(&mut self, lapse: &Lapse) -> Result<(), Stop> {
        // Short TTLs run out at another moment each time: nothing here can be replayed command by command.
        let lapsing = |stop| match stop {
            Stop::Found(finding) => Stop::from(Finding {
                headline: format!("{}, while short TTLs ran out", finding.headline),
                probes: None,
                ..*finding
            }),
            other => other,
        };
        self.summary.lapses += 1;
        let fence = [Step::from(self.events.fence())];
        let exchange = self.send(&lapse.arm, &fence);
        if exchange.failure.is_none()
            && exchange.elapsed > Duration::from_millis(lapse.arm_limit_ms)
        {
            return self.void(lapse);
        }
        self.compare(&lapse.arm, &fence, exchange)
            .map_err(lapsing)?;
        agree(self.events.collect()?).map_err(lapsing)?;
        thread::sleep(Duration::from_millis(lapse.wait_ms));
        self.pipeline(&lapse.probe).map_err(lapsing)?;
        self.pipeline(std::slice::from_ref(&lapse.clean))
            .map_err(lapsing)
    }

    /// The machine stalled while short TTLs were being set: which keys are gone is anyone's guess. Takes all of them
    /// away and forgets what was told about them.
    fn void(&mut self, lapse: &Lapse) -> Result<(), Stop> {
        self.summary.lapses_void += 1;
        thread::sleep(Duration::from_millis(lapse.wait_ms));
        self.events.discard()?;
        let fence = self.events.fence();
        self.main.exchange([&lapse.clean.command, &fence], 2);
        self.events.discard()?;
        Ok(())
    }

    fn wire(&mut self, wire: &Wire) -> Result<(), Stop> {
        self.summary.commands += 1;
        let say = |side, address| {
            let link = Link::connect(side, address)?;
            for piece in &wire.pieces {
                // A server may close before the last piece: what it said first is what counts.
                if link.send(piece).is_err() {
                    break;
                }
            }
            link.finish()
        };
        let said_a = say(Side::A, self.addresses.a)?;
        let said_b = say(Side::B, self.addresses.b)?;
        if said_a != said_b {
            return Err(Finding {
                headline: format!("answers to {}", describe(&Act::Wire(wire.clone()))),
                a: show_bytes(&said_a),
                b: show_bytes(&said_b),
                ..Finding::default()
            }
            .into());
        }
        self.pipeline(&[])
    }

    /// Compares the whole state, and waits until both have told the same expiries.
    fn audit(&mut self) -> Result<(), Stop> {
        self.summary.audits += 1;
        agree(audit::audit(&mut self.auditor, &mut self.tolerance)?)?;
        let started = Instant::now();
        loop {
            self.pipeline(&[])?;
            let unsettled = self.events.unsettled();
            if unsettled.is_none() || started.elapsed() > SETTLE {
                return agree(unsettled);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The arguments that are keys of the generators.
fn keys_of(command: &Command) -> Vec<Vec<u8>> {
    let is_key = |argument: &&Vec<u8>| is_drawn_key(argument) || argument.starts_with(LAPSE_PREFIX);
    command
        .args()
        .iter()
        .skip(1)
        .filter(is_key)
        .cloned()
        .collect()
}

fn no_reply(command: &Command, failure: Option<LinkError>) -> Finding {
    Finding {
        headline: failure.map_or_else(
            || "too few replies".to_owned(),
            |failure| failure.to_string(),
        ),
        command: Some(command.clone()),
        a: "at most one server answered this command".to_owned(),
        b: "likewise".to_owned(),
        keys: keys_of(command),
        probes: None,
    }
}

/// A server that went silent or away outside any single command.
fn broken(act: &Act, error: &LinkError) -> Finding {
    Finding {
        headline: format!("{error}, in {}", describe(act)),
        ..Finding::default()
    }
}

/// The act in a line.
fn describe(act: &Act) -> String {
    match act {
        Act::Pipeline(steps) => format!("a pipeline of {} commands", steps.len()),
        Act::Quit { .. } => "a pipeline with QUIT".to_owned(),
        Act::Session(session) => {
            let said: Vec<String> = session
                .turns
                .iter()
                .flat_map(|turn| &turn.say)
                .map(Command::to_string)
                .collect();
            format!("a pub/sub session that said: {}", said.join("; "))
        }
        Act::Scan(scan) => format!("an iteration of {}", scan.page(b"0")),
        Act::Scene(scene) => describe_scene(scene),
        Act::Carry(_) => "values carried from each server to the other".to_owned(),
        Act::Lapse(_) => "a phase of short TTLs".to_owned(),
        Act::Wire(wire) => {
            let pieces: Vec<String> = wire.pieces.iter().map(|piece| show_bytes(piece)).collect();
            format!(
                "a fresh connection that got these bytes: {}",
                pieces.join(" | ")
            )
        }
        Act::Audit => "an audit".to_owned(),
    }
}
