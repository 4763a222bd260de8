//! Running each act on both servers, and comparing the results.

use std::thread;
use std::time::{Duration, Instant};

use punctual_resp::Value;

use super::scenes::describe_scene;
use super::{Duel, HISTORY, Stop, agree};
use crate::audit;
use crate::command::{Command, Step};
use crate::compare::Judge;
use crate::draw::is_drawn_key;
use crate::events::{Message, first_difference};
use crate::generate::{Act, EXPIRY_PHASE_PREFIX, ExpiryPhase, Session, Wire};
use crate::link::{Exchange, Link, LinkError, Pair, Side};
use crate::report::{Finding, show, show_bytes};
use crate::session::canonical;

/// Maximum time until a server publishes an `expired` event that the other server has published.
const SETTLE: Duration = Duration::from_secs(10);

/// A session subscribes to this channel in each round. The confirmation marks the end of the
/// replies to the round's commands; a message on the channel marks the end of the round's messages.
const SESSION_FENCE: &str = "compat:fence:session";

impl Duel<'_> {
    /// Runs one act. After a stall of the machine, aligns the deadlines of keys.
    pub(super) fn act(&mut self, act: &Act) -> Result<(), Stop> {
        let outcome = match act {
            Act::Pipeline(steps) => self.pipeline(steps),
            Act::Quit { before, after } => self.quit(before, after),
            Act::Session(session) => self.session(session),
            Act::Scan(scan) => self.scan(scan),
            Act::Scene(scene) => self.scene(scene),
            Act::Carry(carry) => self.carry(carry),
            Act::ExpiryPhase(phase) => self.expiry_phase(phase),
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

    pub(super) fn record(&mut self, step: &Step) {
        self.summary.commands += 1;
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history
            .push_back((self.summary.commands, step.clone()));
    }

    /// Sends steps on the main connection, and compares replies, then events.
    pub(super) fn pipeline(&mut self, steps: &[Step]) -> Result<(), Stop> {
        let fence = Step::from(self.events.fence());
        self.replies(steps, &[fence])?;
        agree(self.events.collect()?)
    }

    /// Sends steps, and `unrecorded` steps after them, and compares the replies of all. Unrecorded
    /// steps do not count as commands of the stream.
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
        self.tolerance.record(exchange.elapsed);
        exchange
    }

    fn compare(
        &mut self,
        steps: &[Step],
        unrecorded: &[Step],
        exchange: Exchange,
    ) -> Result<(), Stop> {
        let mut replies = exchange.replies.into_iter();
        let mut judge = Judge::beside(self.addresses.peer);
        for (index, step) in steps.iter().chain(unrecorded).enumerate() {
            if index < steps.len() {
                self.record(step);
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

    /// Checks that QUIT gets a reply, that later commands get none, and that the connection closes.
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
        for (number, round) in session.rounds.iter().enumerate() {
            let number = number.to_string();
            self.summary.commands += round.commands.len() as u64;
            let fence = Command::of(&["SUBSCRIBE", SESSION_FENCE]);
            pair.exchange(round.commands.iter().chain([&fence]), 0);
            // After the fence, the subscriptions are in effect, and other connections may publish.
            let subscribed = pair.read_until(|frame| {
                frame.as_slice().is_some_and(|parts| {
                    parts.len() == 3
                        && parts[0].as_bytes() == Some(b"subscribe")
                        && parts[1].as_bytes() == Some(SESSION_FENCE.as_bytes())
                })
            })?;
            let mut steps = round.publish.clone();
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

    fn expiry_phase(&mut self, phase: &ExpiryPhase) -> Result<(), Stop> {
        // Short TTLs expire at another moment in each run, so the commands of a phase cannot be
        // replayed.
        let with_phase_context = |stop| match stop {
            Stop::Found(finding) => Stop::from(Finding {
                headline: format!("{}, while short TTLs ran out", finding.headline),
                probes: None,
                ..*finding
            }),
            other => other,
        };
        self.summary.expiry_phases += 1;
        let fence = [Step::from(self.events.fence())];
        let exchange = self.send(&phase.arm, &fence);
        if exchange.failure.is_none()
            && exchange.elapsed > Duration::from_millis(phase.arm_limit_ms)
        {
            return self.discard_phase(phase);
        }
        self.compare(&phase.arm, &fence, exchange)
            .map_err(with_phase_context)?;
        agree(self.events.collect()?).map_err(with_phase_context)?;
        thread::sleep(Duration::from_millis(phase.wait_ms));
        self.pipeline(&phase.probe).map_err(with_phase_context)?;
        self.pipeline(std::slice::from_ref(&phase.clean))
            .map_err(with_phase_context)
    }

    /// Ends a phase in which the machine stalled while short TTLs were set: it is unknown which
    /// keys have expired. Deletes all keys of the phase and discards their events.
    fn discard_phase(&mut self, phase: &ExpiryPhase) -> Result<(), Stop> {
        self.summary.void_expiry_phases += 1;
        thread::sleep(Duration::from_millis(phase.wait_ms));
        self.events.discard()?;
        let fence = self.events.fence();
        self.main.exchange([&phase.clean.command, &fence], 2);
        self.events.discard()?;
        Ok(())
    }

    fn wire(&mut self, wire: &Wire) -> Result<(), Stop> {
        self.summary.commands += 1;
        let say = |side, address| {
            let link = Link::connect(side, address)?;
            for piece in &wire.pieces {
                // A server may close the connection before the last piece; only its output is
                // compared.
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
                headline: format!("replies to {}", describe(&Act::Wire(wire.clone()))),
                a: show_bytes(&said_a),
                b: show_bytes(&said_b),
                ..Finding::default()
            }
            .into());
        }
        self.pipeline(&[])
    }

    /// Lets the server under test check that its indexes and counters agree with its data. A
    /// redis-server does not know the command.
    pub(super) fn check(&mut self) -> Result<(), Stop> {
        let command = Command::of(&["DEBUG", "CHECK"]);
        let reply = self.auditor.a.ask(&command)?;
        match &reply {
            Value::Error(text) if !text.starts_with(b"ERR unknown subcommand") => Err(Finding {
                headline: "the server's data disagree with its indexes or counters".to_owned(),
                command: Some(command),
                a: show(&reply),
                ..Finding::default()
            }
            .into()),
            _ => Ok(()),
        }
    }

    /// Compares the whole state, and waits until both servers have published the same `expired`
    /// events.
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

/// Returns the arguments that are keys of the generators.
fn keys_of(command: &Command) -> Vec<Vec<u8>> {
    let is_key =
        |argument: &&Vec<u8>| is_drawn_key(argument) || argument.starts_with(EXPIRY_PHASE_PREFIX);
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
        a: "at most one server replied to this command".to_owned(),
        b: "the same: at most one server replied".to_owned(),
        keys: keys_of(command),
        probes: None,
    }
}

/// Returns the finding for a server that stopped replying in an act without a single command as the
/// cause.
fn broken(act: &Act, error: &LinkError) -> Finding {
    Finding {
        headline: format!("{error}, in {}", describe(act)),
        ..Finding::default()
    }
}

/// Describes an act in one line.
fn describe(act: &Act) -> String {
    match act {
        Act::Pipeline(steps) => format!("a pipeline of {} commands", steps.len()),
        Act::Quit { .. } => "a pipeline with QUIT".to_owned(),
        Act::Session(session) => {
            let sent: Vec<String> = session
                .rounds
                .iter()
                .flat_map(|round| &round.commands)
                .map(Command::to_string)
                .collect();
            format!("a pub/sub session that sent: {}", sent.join("; "))
        }
        Act::Scan(scan) => format!("an iteration of {}", scan.page(b"0")),
        Act::Scene(scene) => describe_scene(scene),
        Act::Carry(_) => "values copied from each server to the other".to_owned(),
        Act::ExpiryPhase(_) => "a phase of short TTLs".to_owned(),
        Act::Wire(wire) => {
            let pieces: Vec<String> = wire.pieces.iter().map(|piece| show_bytes(piece)).collect();
            format!(
                "a new connection that sent these bytes: {}",
                pieces.join(" | ")
            )
        }
        Act::Audit => "an audit".to_owned(),
    }
}
