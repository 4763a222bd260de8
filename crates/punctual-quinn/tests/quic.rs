//! QUIC connections over loopback with Punctual's timers.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use punctual_quinn::PunctualRuntime;
use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, ServerConfig,
    TransportConfig,
};
use rustls::RootCertStore;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::runtime::Handle;
use tokio::time::Instant;

/// Longer than a busy machine takes while the clock runs; less than quinn's default of 30 s.
const IDLE: Duration = Duration::from_secs(20);

/// tokio's ticks of a millisecond, on which the driver sleeps.
const LATENESS_MAX: Duration = Duration::from_millis(2);

/// A connection and the endpoints it needs.
struct Loopback {
    runtime: PunctualRuntime,
    client: Connection,
    server: Connection,
    _endpoints: [Endpoint; 2],
}

async fn loopback(configure: impl Fn(&mut TransportConfig)) -> Loopback {
    let runtime = PunctualRuntime::new(Handle::current());
    let endpoint = |config| {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let runtime = Arc::new(runtime.clone());
        Endpoint::new(EndpointConfig::default(), config, socket, runtime).unwrap()
    };
    let certified = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
    let certificate = certified.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let server_config =
        ServerConfig::with_single_cert(vec![certificate.clone()], key.into()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let mut client_config = ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
    let mut transport = TransportConfig::default();
    configure(&mut transport);
    client_config.transport_config(Arc::new(transport));

    let listening = endpoint(Some(server_config));
    let address = listening.local_addr().unwrap();
    let connecting = endpoint(None);
    let handshake = connecting
        .connect_with(client_config, address, "localhost")
        .unwrap();
    let accepted = async { listening.accept().await.unwrap().await.unwrap() };
    let (client, server) = tokio::join!(handshake, accepted);
    Loopback {
        runtime,
        client: client.unwrap(),
        server,
        _endpoints: [listening, connecting],
    }
}

#[tokio::test]
async fn a_transfer_is_complete() {
    let Loopback {
        runtime,
        client,
        server,
        _endpoints,
    } = loopback(|_| {}).await;
    let sent: Vec<u8> = (0..1u32 << 20)
        .flat_map(|n| n.wrapping_mul(n).to_le_bytes())
        .collect();
    let expected = sent.clone();
    let sending = async {
        let mut stream = server.open_uni().await.unwrap();
        stream.write_all(&sent).await.unwrap();
        stream.finish().unwrap();
        stream.stopped().await.unwrap()
    };
    let receiving = async {
        let mut stream = client.accept_uni().await.unwrap();
        stream.read_to_end(1 << 23).await.unwrap()
    };
    let (stopped, received) = tokio::join!(sending, receiving);
    assert_eq!(stopped, None, "the receiver read all bytes");
    assert!(received == expected, "{} bytes came", received.len());
    let stats = runtime.stats();
    assert!(stats.arms >= 2 && stats.rearms > stats.arms, "{stats:?}");
}

#[tokio::test]
async fn an_idle_connection_ends_on_time() {
    let Loopback {
        runtime,
        client,
        server,
        _endpoints,
    } = loopback(|transport| {
        transport.max_idle_timeout(Some(IDLE.try_into().unwrap()));
    })
    .await;
    let busy = Instant::now();
    let mut stream = client.open_uni().await.unwrap();
    stream.finish().unwrap();
    assert_eq!(stream.stopped().await, Ok(None), "it is acknowledged");
    // Wait for the last acknowledgement, then pause the clock: from here on, time jumps from deadline
    // to deadline, with no packet in flight.
    tokio::time::sleep(Duration::from_millis(60)).await;
    let quiet = Instant::now();
    tokio::time::pause();
    assert_eq!(client.close_reason(), None);

    assert_eq!(client.closed().await, ConnectionError::TimedOut);
    let (since_busy, since_quiet) = (busy.elapsed(), quiet.elapsed());
    assert!(since_busy >= IDLE, "{since_busy:?}");
    assert!(since_quiet <= IDLE + LATENESS_MAX, "{since_quiet:?}");
    assert_eq!(server.closed().await, ConnectionError::TimedOut);
    assert!(runtime.stats().fires >= 2);
}

#[tokio::test]
async fn keep_alives_keep_a_connection() {
    let Loopback {
        client,
        server,
        _endpoints,
        ..
    } = loopback(|transport| {
        transport.max_idle_timeout(Some(IDLE.try_into().unwrap()));
        transport.keep_alive_interval(Some(IDLE / 5));
    })
    .await;
    // Time jumps from deadline to deadline; packets arrive in between.
    tokio::time::pause();
    tokio::time::sleep(IDLE * 2).await;
    assert_eq!(client.close_reason(), None);
    assert_eq!(server.close_reason(), None);
    assert!(client.stats().frame_tx.ping >= 5);
}
