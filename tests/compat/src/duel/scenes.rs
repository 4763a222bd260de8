//! Scenes: several connections to each server, some of which block.

use std::thread;
use std::time::{Duration, Instant};

use super::{Duel, Stop};
use crate::command::Command;
use crate::compare::Judge;
use crate::generate::{Move, SCENE_DATABASE, Scene};
use crate::link::{Link, LinkError, Pair};
use crate::report::{Finding, show};

/// Time limit for a server to start a command, and to notice that a connection is closed.
const NOTICE: Duration = Duration::from_secs(30);

/// The argument of a PING sent after every blocking command; its reply shows that the block has
/// ended.
const AFTER_BLOCK: &str = "after-block";

/// One connection to each server.
struct Client {
    pair: Pair,
    /// The client IDs on both servers.
    ids: (i64, i64),
    /// The blocking command whose replies have not been read.
    waiting: Option<Command>,
    judge: Judge,
}

/// The connections of a scene, and descriptions of the moves so far.
struct SceneState {
    /// `None` if disconnected.
    clients: Vec<Option<Client>>,
    done: Vec<String>,
}

impl Duel<'_> {
    /// Runs the scene, then unblocks all clients, reads their replies, and empties the databases.
    pub(super) fn scene(&mut self, scene: &Scene) -> Result<(), Stop> {
        let mut state = SceneState {
            clients: Vec::new(),
            done: Vec::new(),
        };
        for _ in 0..scene.connections {
            let client = self.client()?;
            state.clients.push(Some(client));
        }
        for step in &scene.moves {
            state.done.push(describe(step));
            self.summary.commands += 1;
            match step {
                Move::Run(number, commands) => self.run_commands(&mut state, *number, commands)?,
                Move::Block(number, command) => self.block(&mut state, *number, command)?,
                Move::ReadReplies(number) => self.read_replies(&mut state, *number)?,
                Move::Unblock(number, how) => self.unblock(&mut state, *number, *how)?,
                Move::Disconnect(number) => disconnect(&mut state, *number)?,
            }
        }
        for number in 0..state.clients.len() {
            self.unblock(&mut state, number, None)?;
            self.read_replies(&mut state, number)?;
        }
        let sweep = [
            Command::of(&["RESET"]),
            self.options.protocol.hello(),
            Command::of(&["SELECT", "10"]),
            Command::of(&["FLUSHDB"]),
            Command::of(&["SELECT", SCENE_DATABASE]),
            Command::of(&["FLUSHDB"]),
        ];
        self.run_commands(&mut state, 0, &sweep)?;
        // Compares the events of the scene. An empty pipeline sends only the fence: the message
        // that marks the end of a sequence of events.
        self.pipeline(&[]).map_err(|stop| match stop {
            Stop::Found(finding) => Finding {
                headline: format!(
                    "{}, in a scene: {}",
                    finding.headline,
                    state.done.join(" | ")
                ),
                probes: None,
                ..*finding
            }
            .into(),
            other => other,
        })
    }

    fn client(&mut self) -> Result<Client, Stop> {
        let mut pair = Pair::connect(self.addresses)?;
        pair.ask(&self.options.protocol.hello())?;
        pair.ask(&Command::of(&["SELECT", SCENE_DATABASE]))?;
        let (a, b) = pair.ask(&Command::of(&["CLIENT", "ID"]))?;
        Ok(Client {
            pair,
            ids: (
                a.as_int().unwrap_or_default(),
                b.as_int().unwrap_or_default(),
            ),
            waiting: None,
            judge: Judge::beside(self.addresses.peer),
        })
    }

    fn run_commands(
        &mut self,
        state: &mut SceneState,
        number: usize,
        commands: &[Command],
    ) -> Result<(), Stop> {
        let done = state.done.join(" | ");
        let Some(client) = state.clients[number].as_mut() else {
            return Ok(());
        };
        let exchange = client.pair.exchange(commands, commands.len());
        self.tolerance.record(exchange.elapsed);
        for (command, (a, b)) in commands.iter().zip(&exchange.replies) {
            if !client.judge.same(command, a, b, self.tolerance) {
                return Err(differs(command, show(a), show(b), &done).into());
            }
        }
        exchange.failure.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Sends the command and waits until both servers have started it.
    fn block(
        &mut self,
        state: &mut SceneState,
        number: usize,
        command: &Command,
    ) -> Result<(), Stop> {
        let Some(client) = state.clients[number].as_mut() else {
            return Ok(());
        };
        let ping = Command::of(&["PING", AFTER_BLOCK]);
        client.pair.exchange([command, &ping], 0);
        client.waiting = Some(command.clone());
        let ids = client.ids;
        let name = command.name().to_lowercase();
        let has_started = |line: &str| {
            // CLIENT LIST shows a command's name already before the command blocks. The flag `b` is
            // shown only while the command blocks.
            let blocked = line
                .split(' ')
                .filter_map(|field| field.strip_prefix("flags="))
                .any(|flags| flags.contains('b'));
            // If the command has already ended, the PING after it is the last command.
            blocked && line.contains(&format!(" cmd={name} ")) || line.contains(" cmd=ping ")
        };
        let observer = observer(state)?;
        until(&mut observer.pair.a, ids.0, has_started)?;
        until(&mut observer.pair.b, ids.1, has_started)
    }

    fn read_replies(&mut self, state: &mut SceneState, number: usize) -> Result<(), Stop> {
        let done = state.done.join(" | ");
        let Some(client) = state.clients[number].as_mut() else {
            return Ok(());
        };
        let Some(command) = client.waiting.take() else {
            return Ok(());
        };
        for command in [command, Command::of(&["PING", AFTER_BLOCK])] {
            let (a, b) = (client.pair.a.read(), client.pair.b.read());
            match (a, b) {
                (Ok(a), Ok(b)) if client.judge.same(&command, &a, &b, self.tolerance) => {}
                (a, b) => {
                    let text = |reply: Result<_, LinkError>| match reply {
                        Ok(value) => show(&value),
                        Err(error) => error.to_string(),
                    };
                    return Err(differs(&command, text(a), text(b), &done).into());
                }
            }
        }
        Ok(())
    }

    /// Sends CLIENT UNBLOCK to both servers, and compares the replies, which say whether the client
    /// was blocked. Does nothing for a client without unread replies to a blocking command.
    fn unblock(
        &mut self,
        state: &mut SceneState,
        number: usize,
        how: Option<&str>,
    ) -> Result<(), Stop> {
        let Some((ids, _)) = state.clients[number]
            .as_ref()
            .and_then(|client| Some((client.ids, client.waiting.as_ref()?)))
        else {
            return Ok(());
        };
        let command = |id: i64| {
            let mut command = Command::of(&["CLIENT", "UNBLOCK"]).arg(id.to_string());
            command.extend(how);
            command
        };
        let done = state.done.join(" | ");
        let observer = observer(state)?;
        let a = observer.pair.a.ask(&command(ids.0))?;
        let b = observer.pair.b.ask(&command(ids.1))?;
        if a == b {
            return Ok(());
        }
        Err(differs(&command(ids.0), show(&a), show(&b), &done).into())
    }
}

/// Returns the connection that never blocks.
fn observer(state: &mut SceneState) -> Result<&mut Client, Stop> {
    state.clients[0].as_mut().ok_or_else(|| {
        Finding {
            headline: "a scene whose first connection is closed".to_owned(),
            ..Finding::default()
        }
        .into()
    })
}

fn disconnect(state: &mut SceneState, number: usize) -> Result<(), Stop> {
    let Some(client) = state.clients[number].take() else {
        return Ok(());
    };
    let ids = client.ids;
    drop(client);
    let observer = observer(state)?;
    until(&mut observer.pair.a, ids.0, str::is_empty)?;
    until(&mut observer.pair.b, ids.1, str::is_empty)
}

/// Requests the client's line of CLIENT LIST until `met` returns true for it.
fn until(link: &mut Link, id: i64, met: impl Fn(&str) -> bool) -> Result<(), Stop> {
    let ask = Command::of(&["CLIENT", "LIST", "ID"]).arg(id.to_string());
    let started = Instant::now();
    loop {
        let reply = link.ask(&ask)?;
        let line = String::from_utf8_lossy(reply.as_bytes().unwrap_or_default()).into_owned();
        if met(line.trim()) {
            return Ok(());
        }
        if started.elapsed() > NOTICE {
            return Err(Finding {
                headline: format!(
                    "client {id} is not in the expected state after {} s",
                    NOTICE.as_secs()
                ),
                command: Some(ask),
                a: show(&reply),
                ..Finding::default()
            }
            .into());
        }
        thread::sleep(Duration::from_micros(200));
    }
}

fn differs(command: &Command, a: String, b: String, done: &str) -> Finding {
    Finding {
        headline: format!("a reply in a scene: {done}"),
        command: Some(command.clone()),
        a,
        b,
        keys: Vec::new(),
        probes: None,
    }
}

fn describe(step: &Move) -> String {
    match step {
        Move::Run(number, commands) => {
            let texts: Vec<String> = commands.iter().map(Command::to_string).collect();
            format!("{number}: {}", texts.join("; "))
        }
        Move::Block(number, command) => format!("{number} blocks: {command}"),
        Move::ReadReplies(number) => format!("{number} reads its replies"),
        Move::Unblock(number, how) => format!("{number} is unblocked {}", how.unwrap_or_default()),
        Move::Disconnect(number) => format!("{number} disconnects"),
    }
}

/// Describes the scene in one line.
pub(super) fn describe_scene(scene: &Scene) -> String {
    let moves: Vec<String> = scene.moves.iter().map(describe).collect();
    format!("a scene: {}", moves.join(" | "))
}
