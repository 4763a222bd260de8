//! A server on smol that closes connections whose client sends nothing for too long.
//!
//!     cargo run -p punctual --features async --example idle_connections
use std::io;
use std::time::Duration;

use punctual::future::{Elapsed, timeout};
use smol::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use smol::net::{TcpListener, TcpStream};

const IDLE_LIMIT: Duration = Duration::from_millis(300);

/// Echoes each line. Returns the reason why the connection ended.
async fn echo(mut stream: TcpStream) -> io::Result<&'static str> {
    let mut lines = BufReader::new(stream.clone());
    let mut line = String::new();
    loop {
        line.clear();
        match timeout(IDLE_LIMIT, lines.read_line(&mut line)).await {
            Ok(Ok(0)) => return Ok("the client hung up"),
            Ok(read) => drop(read?),
            Err(Elapsed) => {
                stream.write_all(b"bye\n").await?;
                return Ok("the client was silent");
            }
        }
        stream.write_all(line.as_bytes()).await?;
    }
}

/// Sends three lines and then nothing. Returns the text that the server sends.
async fn client(mut stream: TcpStream) -> io::Result<String> {
    for _ in 0..3 {
        stream.write_all(b"hello\n").await?;
    }
    let mut received = String::new();
    stream.read_to_string(&mut received).await?;
    Ok(received)
}

/// Runs one server and one client.
pub fn main() -> io::Result<()> {
    smol::block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let server = smol::spawn(async move {
            let (stream, _) = listener.accept().await?;
            echo(stream).await
        });
        let received = client(TcpStream::connect(address).await?).await?;
        let why = server.await?;
        println!("{why}; the client received {received:?}");
        assert_eq!(received, "hello\nhello\nhello\nbye\n");
        assert_eq!(why, "the client was silent");
        Ok(())
    })
}
