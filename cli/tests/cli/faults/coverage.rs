//! Lost coverage: a target that worked is unknown, and never ok, while no evidence about it arrives.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet, spawn_blocking},
};

use super::processes::{INTERVAL_MS, Launch, Processes};
use crate::commands::{parallax, text};

const OK: i32 = 0;
const FAILING: i32 = 1;
const UNKNOWN: i32 = 3;

/// How long the last observation is evidence: three intervals and the timeout (`intervalMs`, `timeoutMs`), and one more
/// interval because a prober's clock is known only to within the latency of a report.
const EVIDENCE_LASTS: Duration = Duration::from_millis(4 * INTERVAL_MS + 900);

/// Limit for each state that a test waits for. The slowest, an incident that closes, takes about ten rounds.
const DEADLINE: Duration = Duration::from_mins(2);

/// Accepts connections and serves each by a task; both end on drop.
struct Listening {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Listening {
    async fn start<S: Future<Output = ()> + Send + 'static>(
        address: SocketAddr,
        serve: impl Fn(TcpStream) -> S + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream));
            }
        });
        Self { address, task }
    }

    /// Starts a target. It can be stopped while a paused prober keeps a connection to it open.
    async fn target(address: SocketAddr) -> Self {
        Self::start(address, |mut stream| async move {
            let mut request = [0; 4096];
            if matches!(stream.read(&mut request).await, Ok(1..)) {
                // A prober that is stopped has closed the connection.
                let _ = stream
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")
                    .await;
            }
        })
        .await
    }

    /// Starts a relay to the aggregator that passes nothing on from the probers while `held` is true.
    async fn relay(aggregator: SocketAddr, held: watch::Receiver<bool>) -> Self {
        Self::start(loopback(), move |prober| relay(prober, aggregator, held.clone())).await
    }

    /// Stops listening and closes all connections.
    async fn stop(self) {
        self.task.abort();
        // It was cancelled, which is an error.
        let _ = self.task.await;
    }
}

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Either side may close its connection, which ends the relay of that direction.
async fn relay(prober: TcpStream, aggregator: SocketAddr, mut held: watch::Receiver<bool>) {
    let Ok(aggregator) = TcpStream::connect(aggregator).await else {
        return;
    };
    let (mut from_prober, mut to_prober) = prober.into_split();
    let (mut from_aggregator, mut to_aggregator) = aggregator.into_split();
    let reports = async {
        let mut bytes = [0; 16 << 10];
        while let Ok(length @ 1..) = from_prober.read(&mut bytes).await {
            if held.wait_for(|held| !held).await.is_err()
                || to_aggregator.write_all(&bytes[..length]).await.is_err()
            {
                return;
            }
        }
        let _ = to_aggregator.shutdown().await;
    };
    let _ = tokio::join!(reports, copy(&mut from_aggregator, &mut to_prober));
}

/// Runs `parallax status` and returns its exit code. Only a status that is ok may look like it.
async fn status(mesh: &Processes) -> i32 {
    let server = format!("http://{}/", mesh.address);
    let command = move || parallax().args(["status", "--server", &server]).output().unwrap();
    let output = spawn_blocking(command).await.unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    let code = output.status.code().unwrap();
    let looks_ok = stdout.contains("All targets reachable");
    assert_eq!(looks_ok, code == OK, "exit code {code}: {stdout}{stderr}");
    if code == UNKNOWN {
        assert!(stdout.contains("\n? "), "{stdout}{stderr}");
    }
    code
}

/// Repeats `parallax status` until it ends with this exit code. Until then, it ends with one of the others.
async fn wait_until_status(mesh: &Processes, expected: i32, others: &[i32]) {
    let begun = Instant::now();
    loop {
        let code = status(mesh).await;
        if code == expected {
            return;
        }
        assert!(others.contains(&code), "exit code {code} before {expected}");
        assert!(
            begun.elapsed() < DEADLINE,
            "exit code {code} and not {expected} for {DEADLINE:?}"
        );
    }
}

/// Waits until the status is unknown because no evidence arrives any more since `lost`.
async fn wait_until_unknown(mesh: &Processes, lost: Instant) {
    loop {
        let asked = lost.elapsed();
        match status(mesh).await {
            UNKNOWN => return,
            // The last evidence counts as long as it is fresh.
            OK => assert!(asked <= EVIDENCE_LASTS, "ok {asked:?} after the last evidence"),
            code => panic!("exit code {code} without evidence"),
        }
    }
}

/// Asserts that the status stays unknown for as long as evidence lasts.
async fn assert_stays_unknown(mesh: &Processes) {
    let begun = Instant::now();
    while begun.elapsed() <= EVIDENCE_LASTS {
        assert_eq!(status(mesh).await, UNKNOWN, "{:?}", begun.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_stops_while_every_prober_is_paused_is_unknown_until_they_report_again() {
    let target = Listening::target(loopback()).await;
    let address = target.address;
    let mesh = Processes::start(&[format!("http://{address}/")], "", &Launch::default()).await;
    wait_until_status(&mesh, OK, &[UNKNOWN]).await;
    for prober in &mesh.probers {
        prober.signal("STOP");
    }
    let paused = Instant::now();
    target.stop().await;
    wait_until_unknown(&mesh, paused).await;
    assert_stays_unknown(&mesh).await;

    for prober in &mesh.probers {
        prober.signal("CONT");
    }
    wait_until_status(&mesh, FAILING, &[UNKNOWN]).await;
    let target = Listening::target(address).await;
    wait_until_status(&mesh, OK, &[FAILING, UNKNOWN]).await;
    target.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_whose_successes_arrive_late_is_unknown_and_fails_once_its_failures_arrive() {
    let target = Listening::target(loopback()).await;
    let targets = [format!("http://{}/", target.address)];
    let mut mesh = Processes::start_aggregator(&targets, "", &Launch::default()).await;
    let (hold, is_held) = watch::channel(false);
    let relay = Listening::relay(mesh.address, is_held).await;
    mesh.start_probers_at(relay.address, &Launch::default());
    wait_until_status(&mesh, OK, &[UNKNOWN]).await;
    // The target works, and the probers see it.
    hold.send_replace(true);
    wait_until_unknown(&mesh, Instant::now()).await;

    // Its last success is no evidence any more when the reports arrive.
    target.stop().await;
    assert_stays_unknown(&mesh).await;
    hold.send_replace(false);
    wait_until_status(&mesh, FAILING, &[UNKNOWN]).await;
    let late = mesh.metric("parallax_ingest_discarded_total").await;
    assert!(late > 0, "no success arrived late");
    relay.stop().await;
}
