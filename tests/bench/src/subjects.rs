//! The probing processes: the real agent, the prober's bare `run()`, and the floor.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream, UdpSocket},
    path::PathBuf,
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use parallax_model::{Assignment, Micros, Outcome};
use parallax_prober::{
    Agent, AgentConfig, AggregatorRoots, ProbeContext, Role, SPOOL_CAPACITY, TlsConfigs, run as probe,
};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use tokio::{
    runtime::Runtime,
    task::{JoinSet, LocalSet},
    time,
};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::plan::{ProbeMix, ProbeRate, TargetPorts, assignments};

/// The program that this process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ProgramRole {
    /// `parallax_prober::Agent`, as `parallax prober` runs it.
    Agent,
    /// `parallax_prober::run` at a rate, without plan, schedule and reports.
    Bare,
    /// Connect, write, read, close.
    Floor,
}

/// A probing process.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    which: ProgramRole,
    #[arg(long)]
    kind: ProbeMix,
    #[command(flatten)]
    ports: TargetPorts,
    #[arg(long)]
    ca: PathBuf,
    /// Probes per second; 0 for as many as possible.
    #[arg(long, default_value_t = 0)]
    rate: u64,
    /// URL of the plan server, for the agent.
    #[arg(long)]
    aggregator: Option<Url>,
}

/// Maximum lifetime of a child, whatever happens to the harness.
const MAX_LIFETIME: Duration = Duration::from_mins(5);

/// Probes until it or its parent is killed.
pub(crate) fn run(args: &Args, runtime: &Runtime) -> anyhow::Result<()> {
    match args.which {
        ProgramRole::Agent => runtime.block_on(agent(args)),
        ProgramRole::Bare => runtime.block_on(bare(args)),
        ProgramRole::Floor => floor(args),
    }
}

fn roots(args: &Args) -> anyhow::Result<CertificateDer<'static>> {
    CertificateDer::from_pem_file(&args.ca).with_context(|| format!("read {}", args.ca.display()))
}

async fn agent(args: &Args) -> anyhow::Result<()> {
    let config = AgentConfig {
        vantage: "n1/pod".parse()?,
        pod: "prober-n1".parse()?,
        aggregator: args.aggregator.clone().context("the agent needs --aggregator")?,
        credential: None,
        aggregator_roots: AggregatorRoots::SameAsProbes,
        role: Role::Prober,
        echo_listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        resolv_conf: PathBuf::from("/etc/resolv.conf"),
        extra_roots: vec![roots(args)?],
        credentials: Vec::new(),
        spool_capacity: SPOOL_CAPACITY,
        facts: parallax_prober::FactSources::default(),
    };
    let agent = Agent::bind(config).await?;
    println!("{}", agent.echo_addr());
    time::timeout(MAX_LIFETIME, agent.run(CancellationToken::new())).await??;
    Ok(())
}

/// Open loop: each probe starts at its time, independent of the others. Without a rate, 16 run concurrently.
async fn bare(args: &Args) -> anyhow::Result<()> {
    let context = Rc::new(ProbeContext::with_tls(
        PathBuf::from("/etc/resolv.conf"),
        TlsConfigs::with_roots([roots(args)?]),
    ));
    let count = if args.rate == 0 { 1_000 } else { args.rate };
    let plan: Vec<Rc<Assignment>> = assignments(args.kind, args.ports, count, Micros::from_secs(1))
        .into_iter()
        .map(Rc::new)
        .collect();
    println!("ready");
    let local = LocalSet::new();
    let probing = local.run_until(async {
        let mut probes = JoinSet::new();
        let pace = ProbeRate::start(args.rate);
        for i in 0_u64.. {
            if let Some(due) = pace.due(i) {
                time::sleep_until(due.into()).await;
                while probes.try_join_next().is_some() {}
            } else if probes.len() >= 16 {
                probes.join_next().await;
            }
            let (context, assignment) = (Rc::clone(&context), Rc::clone(&plan[index(i, plan.len())]));
            probes.spawn_local(async move {
                let result = probe(&assignment, &context).await;
                if !matches!(result.outcome, Outcome::Ok { .. }) {
                    eprintln!("{:?} {:?}", result.outcome, result.detail);
                }
            });
        }
    });
    Ok(time::timeout(MAX_LIFETIME, probing).await?)
}

fn index(i: u64, len: usize) -> usize {
    usize::try_from(i % len as u64).unwrap_or(0)
}

/// The cost of the kernel alone: one blocking thread, a few system calls per probe, no checks.
fn floor(args: &Args) -> anyhow::Result<()> {
    println!("ready");
    let (start, pace) = (Instant::now(), ProbeRate::start(args.rate));
    for i in 0_u64.. {
        if let Some(due) = pace.due(i) {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        if start.elapsed() > MAX_LIFETIME {
            break;
        }
        let address = args.ports.address(args.kind, i);
        match args.kind {
            ProbeMix::Http => get(address)?,
            ProbeMix::Tcp => drop(TcpStream::connect(address)?),
            ProbeMix::Dns => ask(address)?,
            ProbeMix::Https => {
                anyhow::bail!("there is no floor for TLS, because the kernel does not perform the handshake")
            }
        }
    }
    Ok(())
}

fn get(address: SocketAddr) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: bench.example.test\r\nConnection: close\r\n\r\n")?;
    let mut answer = [0; 1024];
    while stream.read(&mut answer)? > 0 {}
    Ok(())
}

fn ask(address: SocketAddr) -> anyhow::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut query = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in crate::plan::HOST.split('.') {
        query.push(u8::try_from(label.len()).unwrap_or(0));
        query.extend_from_slice(label.as_bytes());
    }
    query.extend([0, 0, 1, 0, 1]);
    socket.send(&query)?;
    socket.recv(&mut [0; 512])?;
    Ok(())
}
