//! Own commands that run on a thread of the embedding program.

use crate::wire::{Open as _, Wire};
use punctual_server::{
    Builder, CallError, Client, Declaration, DeclarationError, MoveError, Parameter, Request,
    Requests, Server, Value,
};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

fn declaration(name: &str, flag: &str) -> Declaration {
    Declaration {
        name: name.to_owned(),
        parameters: vec![
            Parameter::Required("key".to_owned()),
            Parameter::Optional("amount".to_owned()),
        ],
        flags: vec![flag.to_owned()],
        keys: Some((1, 1, 1)),
        summary: "Takes an amount if there is as much.".to_owned(),
        ..Declaration::default()
    }
}

/// A server with the commands `first` and `second`, and the thread that runs them.
struct Program {
    server: Option<Server>,
    requests: Requests,
    thread: Option<JoinHandle<()>>,
}

impl Program {
    fn start(builder: Builder, run: impl Fn(&Request) -> Value + Send + 'static) -> Self {
        let requests = Requests::default();
        let server = builder
            .requested_command(declaration("first", "write"), &requests, 0)
            .and_then(|b| b.requested_command(declaration("second", "readonly"), &requests, 1))
            .unwrap()
            .spawn()
            .unwrap();
        let queue = requests.clone();
        let thread = std::thread::spawn(move || {
            while let Some(request) = queue.next() {
                let value = run(&request);
                request.reply(value);
            }
        });
        Self {
            server: Some(server),
            requests,
            thread: Some(thread),
        }
    }

    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.server.take());
        self.requests.close();
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

/// FIRST key [amount] takes an amount from a counter; SECOND writes, which it may not.
fn take(request: &Request) -> Value {
    let args = request.args();
    let call = |words: &[&[u8]]| request.call(words).unwrap();
    if request.command() == 1 {
        return call(&[b"SET", &args[1], b"spoilt"]);
    }
    let amount = args.get(2).map_or(&b"1"[..], |amount| amount);
    let left = call(&[b"DECRBY", &args[1], amount]);
    match left.as_int() {
        Some(0..) | None => left,
        Some(_) => {
            call(&[b"INCRBY", &args[1], amount]);
            Value::Error(b"ERR not enough left".to_vec())
        }
    }
}

#[test]
fn a_command_runs_on_the_programs_thread_wherever_commands_run() {
    for threads in [1, 3] {
        let builder = Server::builder().port(0).threads(threads).virtual_clock();
        let program = Program::start(builder, take);
        let mut c = Wire::open(program.server());
        c.expect(
            &["SET stock 10", "FIRST stock 3", "first stock 8"],
            "+OK|:7|-ERR not enough left|",
        );
        let arity = "-ERR wrong number of arguments for 'first' command|";
        c.expect(&["FIRST", "FIRST stock 1 2"], &arity.repeat(2));
        c.expect(
            &["MULTI", "FIRST stock", "GET stock", "EXEC"],
            "+OK|+QUEUED|+QUEUED|*2|:6|$1|6|",
        );
        let script = "return redis.call('first', KEYS[1], 2)";
        let reply = program.server().call(&["EVAL", script, "1", "stock"]);
        assert_eq!(reply.unwrap(), Value::Int(4));
        c.expect(&["TIMER SET t IN 50 DO FIRST stock 3"], "+OK|");
        let time = std::time::Duration::from_millis(50);
        program.server().advance(time).unwrap();
        c.expect(&["GET stock"], "$1|1|");
        let refused = program.server().call(&["SECOND", "stock"]).unwrap();
        assert!(refused.is_error(), "{refused:?}");
        c.expect(&["GET stock"], "$1|1|");
    }
}

#[test]
fn a_command_cannot_use_its_server_or_another_command_of_its_queue() {
    static SERVER: OnceLock<Server> = OnceLock::new();
    let requests = Requests::default();
    let server = Server::builder()
        .port(0)
        .virtual_clock()
        .requested_command(declaration("first", "readonly"), &requests, 0)
        .unwrap()
        .spawn();
    let server = SERVER.get_or_init(|| server.unwrap());
    let queue = requests.clone();
    let thread = std::thread::spawn(move || {
        let server = SERVER.wait();
        while let Some(request) = queue.next() {
            let called = matches!(server.call(&["PING"]), Err(CallError::InHandler));
            let moved = server.advance(std::time::Duration::from_secs(1));
            let moved = matches!(moved, Err(MoveError::InHandler));
            let nested = request.call(&["FIRST", "key"]).unwrap().is_error();
            request.reply(Value::Array(
                [called, moved, nested].map(Value::Boolean).to_vec(),
            ));
            assert_eq!(request.call(&["PING"]), Err(punctual_server::Ended));
            // The thread of a command that has ended is any other thread.
            assert_eq!(
                server.call(&["PING"]).unwrap(),
                Value::Simple(b"PONG".to_vec())
            );
        }
    });
    let reply = server.call(&["FIRST", "key"]).unwrap();
    assert_eq!(
        reply,
        Value::Array([true, true, true].map(Value::Boolean).to_vec())
    );
    requests.close();
    thread.join().unwrap();
}

/// A program whose commands wait until the test says that they may end.
fn blocked(builder: Builder) -> (Program, Receiver<()>, Sender<()>) {
    let (began, begun) = channel();
    let (end, ended) = channel();
    let program = Program::start(
        builder.option("busy-reply-threshold", "1"),
        move |request| {
            began.send(()).unwrap();
            ended.recv().unwrap();
            match request.call(&["PING"]) {
                Ok(value) => value,
                Err(ended) => Value::Error(format!("ERR {ended}").into()),
            }
        },
    );
    (program, begun, end)
}

fn call_aside(
    client: Client,
    words: &'static [&'static str],
) -> JoinHandle<Result<Value, CallError>> {
    let mut client = client;
    std::thread::spawn(move || client.call(words))
}

fn refusal(reply: &Value) -> String {
    assert!(reply.is_error(), "{reply:?}");
    String::from_utf8_lossy(reply.as_bytes().unwrap()).into_owned()
}

#[test]
fn a_slow_command_lets_other_clients_kill_it() {
    for threads in [1, 2] {
        let (program, begun, end) = blocked(Server::builder().port(0).threads(threads));
        let waiting = call_aside(program.server().client().unwrap(), &["FIRST", "key"]);
        begun.recv().unwrap();
        let mut other = program.server().client().unwrap();
        // The answer comes while the command still runs.
        assert!(refusal(&other.call(&["GET", "key"]).unwrap()).starts_with("BUSY"));
        assert_eq!(
            other.call(&["SCRIPT", "KILL"]).unwrap(),
            Value::Simple(b"OK".to_vec())
        );
        let killed = refusal(&waiting.join().unwrap().unwrap());
        assert!(killed.contains("killed"), "{killed}");
        assert_eq!(other.call(&["GET", "key"]).unwrap(), Value::Null);
        // The thread is still in the command that was killed.
        let stuck = refusal(&other.call(&["FIRST", "key"]).unwrap());
        assert!(stuck.contains("has been ended"), "{stuck}");
        end.send(()).unwrap();
        let next = loop {
            let waiting = call_aside(program.server().client().unwrap(), &["FIRST", "key"]);
            end.send(()).unwrap();
            let reply = waiting.join().unwrap().unwrap();
            if !reply.is_error() {
                break reply;
            }
        };
        assert_eq!(next, Value::Simple(b"PONG".to_vec()));
    }
}

#[test]
fn a_stop_does_not_wait_for_a_command_that_does_not_end() {
    let (mut program, begun, end) = blocked(Server::builder().port(0));
    let waiting = call_aside(program.server().client().unwrap(), &["FIRST", "key"]);
    begun.recv().unwrap();
    program.server.take().unwrap().shutdown();
    let reply = waiting.join().unwrap();
    assert!(
        reply.as_ref().is_err() || reply.as_ref().is_ok_and(Value::is_error),
        "{reply:?}"
    );
    end.send(()).unwrap();
}

#[test]
fn a_queue_without_a_thread_replies_errors() {
    let (program, begun, end) = blocked(Server::builder().port(0));
    let waiting = call_aside(program.server().client().unwrap(), &["FIRST", "key"]);
    begun.recv().unwrap();
    program.requests.close();
    assert!(refusal(&waiting.join().unwrap().unwrap()).contains("no commands any more"));
    let reply = program.server().call(&["FIRST", "key"]).unwrap();
    assert!(refusal(&reply).contains("no commands any more"));
    end.send(()).unwrap();
    let requests = Requests::default();
    requests.interrupt();
    assert!(requests.next().is_none() && !requests.is_closed());
}

#[test]
fn a_dropped_request_replies_an_error() {
    let requests = Requests::default();
    let server = Server::builder()
        .port(0)
        .requested_command(declaration("first", "readonly"), &requests, 0)
        .unwrap()
        .spawn()
        .unwrap();
    let server = Arc::new(server);
    let waiting = call_aside(server.client().unwrap(), &["FIRST", "key"]);
    drop(requests.next());
    assert!(refusal(&waiting.join().unwrap().unwrap()).contains("without a reply"));
}

#[test]
fn docs_and_rules_know_a_declared_command() {
    let mut declared = declaration("first", "write");
    declared
        .parameters
        .push(Parameter::Rest("more_words".to_owned()));
    declared.categories.push("dangerous".to_owned());
    let requests = Requests::default();
    let server = Server::builder()
        .port(0)
        .requested_command(declared, &requests, 0)
        .unwrap()
        .spawn()
        .unwrap();
    let docs = server.call(&["COMMAND", "DOCS", "first"]).unwrap();
    let docs = format!("{docs:?}");
    let bytes = |text: &str| format!("{:?}", text.as_bytes());
    for word in [
        "Takes an amount if there is as much.",
        "amount",
        "more-words",
    ] {
        assert!(docs.contains(&bytes(word)), "{word}");
    }
    let category = server.call(&["ACL", "CAT", "dangerous"]).unwrap();
    assert!(format!("{category:?}").contains(&bytes("first")));
}

#[test]
fn wrong_declarations_are_refused() {
    let with = |change: &dyn Fn(&mut Declaration)| {
        let mut declared = declaration("first", "write");
        change(&mut declared);
        declared.row().unwrap_err()
    };
    let name = "two words".to_owned();
    assert_eq!(
        with(&|d| d.name = name.clone()),
        DeclarationError::Name(name.clone())
    );
    let get = || "get".to_owned();
    assert_eq!(with(&|d| d.name = get()), DeclarationError::Exists(get()));
    assert_eq!(with(&|d| d.flags.clear()), DeclarationError::Access);
    assert_eq!(
        with(&|d| d.flags.push("readonly".to_owned())),
        DeclarationError::Access
    );
    for flag in ["", "blocking", "Write"] {
        let refused = with(&|d| d.flags.push(flag.to_owned()));
        assert_eq!(refused, DeclarationError::Flag(flag.to_owned()));
    }
    assert_eq!(
        with(&|d| d.categories.push(get())),
        DeclarationError::Category(get())
    );
    for keys in [(0, 1, 1), (1, 1, 0), (2, 1, 1), (1, 0, 1)] {
        assert_eq!(with(&|d| d.keys = Some(keys)), DeclarationError::Keys);
    }
    let parameter = |d: &mut Declaration| d.parameters.push(Parameter::Rest("...".to_owned()));
    assert_eq!(
        with(&parameter),
        DeclarationError::Parameter("...".to_owned())
    );
}
