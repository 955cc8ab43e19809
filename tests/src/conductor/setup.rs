//! Set-up of everything that an incident needs.

use anyhow::{Context, bail};

use super::IncidentRun;
use crate::{
    aggregator_config,
    incident::{Incident, PacketLine},
    kernel::LabKernel,
    lab::Lab,
    packets,
    parallax::{self, RunningAggregator},
    publisher::Publisher,
    run_dir::RunDir,
    tools,
};

impl IncidentRun {
    /// Starts aggregator, machine, cluster and probers. Forwarding is verified before any prober starts.
    pub(super) async fn set_up(&mut self, incident: &Incident) -> anyhow::Result<()> {
        let ground = LabKernel::choose(incident, self.options.kernel)?;
        tools::check(ground.kernel)?;
        if let Some(instead) = &ground.substitute {
            self.screen.line(instead);
        }
        self.substitute = ground.substitute;
        let program = std::env::current_exe().context("finding the path of this program")?;
        let parallax = parallax::sibling_binary(&program)?;
        let listen = parallax::free_address(self.options.listen)?;
        let run = RunDir::create(self.options.keep_log)?;
        let cluster = crate::cluster::Cluster::derive(incident)?;
        self.publisher = Some(Publisher::start(&run, incident, &cluster).await?);
        let config = aggregator_config::write(&run, incident, &cluster, listen)?;
        let aggregator = RunningAggregator::start(
            &parallax,
            &config,
            listen,
            &run,
            aggregator_config::node_argument(incident),
            self.options.record.as_deref(),
        )
        .await?;
        self.screen
            .line(&format!("aggregator: {}", aggregator_config::page_url(listen)));
        self.aggregator = Some(aggregator);

        self.screen.status("booting the machine…");
        let mut lab = Lab::boot(&program, run, incident.clone(), ground.kernel).await?;
        if let Some(hook) = &self.options.hook {
            lab.set_service_hook(hook)?;
        }
        self.screen.line(&format!("booted, kernel {}", lab.kernel()));
        let built = lab.build().await?;
        let (nodes, pods) = (lab.cluster().nodes.len(), built.pods);
        self.screen.line(&format!(
            "cluster built ({nodes} nodes, {pods} pods, {:.1} s)",
            built.duration.as_secs_f64()
        ));
        let lab = self.lab.insert(lab);
        let truth = ground_truth(lab, &incident.expected.packets.healthy).await?;
        self.screen.line(&truth);
        lab.start_probers(&parallax, listen.port()).await?;
        if self.options.alerts {
            self.watch_alarms().await?;
        }
        Ok(())
    }
}

/// Checks that an ordinary client gets the results in the incident file; otherwise the lab itself is broken.
pub(super) async fn ground_truth(lab: &mut Lab, looks: &[PacketLine]) -> anyhow::Result<String> {
    let seen = lab.send_requests(looks).await?;
    let wrong = packets::describe_failures(&seen);
    if wrong.is_empty() {
        return Ok(format!(
            "an ordinary client gets the expected results ({} of {})",
            seen.len(),
            seen.len()
        ));
    }
    bail!(
        "the lab does not forward as the incident file expects:\n  {}",
        wrong.join("\n  ")
    )
}
