//! Measures a preflight over many probers, including the probes: real agents, all in this process, a real aggregator
//! and the real command. All traffic stays on 127.0.0.1, so network delays are not included.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use parallax_prober::{Agent, AgentConfig, AggregatorRoots, FactSources, Role, SPOOL_CAPACITY};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UdpSocket},
    process::{Child, Command},
    task::{JoinSet, LocalSet},
    time,
};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::process;

const HOST: &str = "shop.example.test";

/// Response to any path.
const ANSWER: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno\n";

/// Timeout until all probers report.
const REPORT_TIMEOUT: Duration = Duration::from_mins(5);

/// Parameters.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Number of probers, each on its own node.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=5000))]
    probers: u32,
    /// Number of passing and of failing preflights: the aggregator allows ten runs at once, and each takes two or
    /// three.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=2))]
    repeats: u32,
}

/// Measures and prints the results.
pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("create a directory")?;
    process::raise_open_files().context("raise the limit of open files")?;
    let parallax = process::parallax_binary()?;
    let local = LocalSet::new();
    local.run_until(measured(args, &parallax, folder.path())).await
}

async fn measured(args: &Args, parallax: &Path, folder: &Path) -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let resolver = UdpSocket::bind("127.0.0.1:0").await?;
    let resolv_conf = folder.join("resolv.conf");
    std::fs::write(
        &resolv_conf,
        format!("nameserver [127.0.0.1]:{}\n", resolver.local_addr()?.port()),
    )?;
    // Everything stops with these sets.
    let mut servers = JoinSet::new();
    servers.spawn_local(resolve(resolver));
    let server = servers.spawn_local(serve(listener));
    let free = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
    let url = Url::parse(&format!("http://{free}/"))?;
    let mut bound = Vec::new();
    for n in 1..=args.probers {
        let agent = Agent::bind(config(n, &url, &resolv_conf)?).await;
        bound.push(agent.with_context(|| format!("start prober {n}"))?);
    }
    let echoes: Vec<SocketAddr> = bound.iter().map(Agent::echo_addr).collect();
    let _aggregator = aggregator(&echoes, parallax, folder, port, free)?;
    let client = reqwest::Client::builder().no_proxy().build()?;
    wait_for_vantages(&client, &url, 0).await?;
    let begun = Instant::now();
    let mut agents = JoinSet::new();
    let stop = CancellationToken::new();
    for agent in bound {
        agents.spawn_local(agent.run(stop.clone()));
    }
    wait_for_vantages(&client, &url, args.probers as usize).await?;
    println!(
        "{} probers report after {:.1} s",
        args.probers,
        begun.elapsed().as_secs_f64()
    );
    for _ in 0..args.repeats {
        preflight(args, parallax, &url, port, "every node is answered").await?;
    }
    // The port refuses connections now.
    server.abort();
    for _ in 0..args.repeats {
        preflight(args, parallax, &url, port, "every node is refused").await?;
    }
    stop.cancel();
    while let Some(ended) = agents.join_next().await {
        ended.context("a prober's task")?.context("a prober")?;
    }
    Ok(())
}

/// Runs one preflight; prints its duration, and whether every prober was used.
async fn preflight(args: &Args, parallax: &Path, url: &Url, port: u16, label: &str) -> anyhow::Result<()> {
    let begun = Instant::now();
    let port = port.to_string();
    let words = [
        "preflight",
        HOST,
        "--no-create",
        "--json",
        "--profile",
        "pebble",
        "--port",
        &port,
    ];
    let output = Command::new(parallax)
        .args(words)
        .args(["--server", url.as_str()])
        .env("KUBECONFIG", "/nowhere")
        .kill_on_drop(true)
        .output()
        .await?;
    let took = begun.elapsed();
    let document: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let host = &document["hosts"][0];
    for answers in ["selfCheckAnswers", "caAnswers"] {
        let answer_count = host[answers].as_array().map_or(0, Vec::len);
        ensure!(
            answer_count == args.probers as usize,
            "{answers}: {answer_count} of {}",
            args.probers
        );
    }
    println!(
        "{label}: {:.2} s; self check {}, CA {}, exit code {:?}",
        took.as_secs_f64(),
        host["selfCheck"]["state"],
        host["ca"]["state"],
        output.status.code()
    );
    Ok(())
}

fn config(n: u32, url: &Url, resolv_conf: &Path) -> anyhow::Result<AgentConfig> {
    Ok(AgentConfig {
        vantage: format!("n{n}/pod")
            .parse()
            .map_err(|error| anyhow::anyhow!("{error}"))?,
        pod: format!("prober-{n}").parse().context("a pod's name")?,
        aggregator: url.clone(),
        credential: None,
        aggregator_roots: AggregatorRoots::SameAsProbes,
        role: Role::Prober,
        echo_listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        resolv_conf: PathBuf::from(resolv_conf),
        extra_roots: Vec::new(),
        credentials: Vec::new(),
        spool_capacity: SPOOL_CAPACITY,
        facts: FactSources::default(),
    })
}

/// Starts an aggregator that knows the nodes, with the host as its only target.
fn aggregator(
    echoes: &[SocketAddr],
    parallax: &Path,
    folder: &Path,
    port: u16,
    listen: SocketAddr,
) -> anyhow::Result<Child> {
    let nodes: Vec<Value> = (1..)
        .zip(echoes)
        .map(|(n, echo)| {
            json!({"name": format!("n{n}"), "zone": format!("z{}", n % 3),
            "prober": {"pod": format!("prober-{n}"), "address": echo.to_string()}})
        })
        .collect();
    // JSON is YAML.
    std::fs::write(
        folder.join("topology.yaml"),
        json!({ "nodes": nodes, "targets":
        [{"url": format!("http://{HOST}:{port}/")}] })
        .to_string(),
    )?;
    let settings = json!({
        "listen": listen.to_string(), "intervalMs": 10_000, "timeoutMs": 3_000, "topology": "topology.yaml",
        "runs": {"allow": ["127.0.0.0/8"]},
    });
    process::aggregator_command(parallax, folder, &settings)?
        .stderr(Stdio::null())
        .spawn()
        .context("start the aggregator")
}

/// Waits until this many vantages report, or with 0, until the aggregator responds.
async fn wait_for_vantages(client: &reqwest::Client, url: &Url, wanted: usize) -> anyhow::Result<()> {
    let state = url.join("v1/state")?;
    let begun = Instant::now();
    let mut last = 0;
    while begun.elapsed() < REPORT_TIMEOUT {
        if let Ok(answer) = client.get(state.clone()).send().await {
            let view: Value = serde_json::from_slice(&answer.bytes().await?)?;
            let vantages = view["vantages"].as_array().into_iter().flatten();
            last = vantages.filter(|vantage| vantage["state"] == "reporting").count();
            if last >= wanted {
                return Ok(());
            }
        }
        time::sleep(Duration::from_millis(500)).await;
    }
    bail!(
        "{last} of {wanted} probers report after {} s",
        REPORT_TIMEOUT.as_secs()
    )
}

async fn serve(listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        // At worst out of file descriptors: the affected clients fail, and the verdict shows it.
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        while connections.try_join_next().is_some() {}
        connections.spawn_local(answer(stream));
    }
}

/// Errors of clients that disconnect early are ignored.
async fn answer(mut stream: TcpStream) -> io::Result<()> {
    let mut request = [0; 2048];
    let mut len = 0;
    while !request[..len].ends_with(b"\r\n\r\n") {
        match stream.read(&mut request[len..]).await? {
            0 => return Ok(()),
            more => len += more,
        }
    }
    stream.write_all(ANSWER).await?;
    stream.shutdown().await
}

/// Answers every name with the A record 127.0.0.1, and has no other records.
async fn resolve(socket: UdpSocket) {
    let mut buffer = [0; 512];
    loop {
        let Ok((len, client)) = socket.recv_from(&mut buffer).await else {
            continue;
        };
        // The question ends four bytes after the root label of its name; EDNS may follow.
        let query = &buffer[..len];
        let end = query
            .get(12..)
            .and_then(|q| q.iter().position(|b| *b == 0))
            .map(|at| at + 17);
        let Some(question) = end.and_then(|end| query.get(..end)) else {
            continue;
        };
        let is_a = question.ends_with(&[0, 1, 0, 1]);
        let mut answer = question.to_vec();
        answer[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
        if is_a {
            answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4, 127, 0, 0, 1]);
        }
        // A lost response is retried.
        let _ = socket.send_to(&answer, client).await;
    }
}
