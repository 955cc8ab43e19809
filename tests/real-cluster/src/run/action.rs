//! Executes the actions of a step.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, ensure};
use tokio::time::sleep;

use super::{SuiteRun, live_names::LiveNames, wait::UnmetCondition};
use crate::{
    cluster::{HookResult, PodView},
    install::{MissingComponent, write_certificate},
    observe::Measurement,
    print_uncaptured,
    record::ActionLog,
    step::{Action, ApplicationBehaviour, Certificate, ContainerKill, Step, WhichPods, resolve},
};

/// Port of the test application for changes of behaviour.
const CONTROL_PORT: u16 = 8081;

impl SuiteRun {
    /// Executes all actions in order.
    pub(super) async fn execute(
        &self,
        step: &Step,
        actions: &[Action],
        fixed: &BTreeMap<String, String>,
        log: &mut ActionLog,
    ) -> anyhow::Result<()> {
        for action in actions {
            self.cluster.pods.refresh().await;
            let names = LiveNames { suite: self, fixed };
            let words = resolve(&action.describe(), &names).unwrap_or_else(|_| action.describe());
            let begin = self.observer.clock.now();
            log.actions.push((begin, words.clone()));
            match action {
                Action::Repeat(repeat) => {
                    for _ in 0..repeat.times {
                        Box::pin(self.execute(step, &repeat.actions, fixed, log)).await?;
                    }
                }
                Action::Measure(measure) => {
                    Box::pin(self.execute(step, &measure.actions, fixed, log)).await?;
                    let measured = Measurement {
                        name: words,
                        seconds: self.observer.clock.now() - begin,
                        within: measure.within,
                    };
                    print_uncaptured(&format!("    {measured}"));
                    log.measured.push(measured);
                }
                _ => self.act_once(step, action, &names).await.with_context(|| words)?,
            }
        }
        Ok(())
    }

    async fn act_once(&self, step: &Step, action: &Action, names: &LiveNames<'_>) -> anyhow::Result<()> {
        let kubectl = &self.cluster.kubectl;
        match action {
            Action::Kubectl(arguments) => {
                let arguments = resolved(arguments, names)?;
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                kubectl.run(&arguments).await?;
            }
            Action::Apply(objects) => {
                kubectl
                    .with_input(&["apply", "-f", "-"], &resolve(objects, names)?)
                    .await?;
            }
            Action::Delete(objects) => {
                let arguments = ["delete", "-f", "-", "--ignore-not-found"];
                kubectl.with_input(&arguments, &resolve(objects, names)?).await?;
            }
            Action::Hook(arguments) => self.hook(resolved(arguments, names)?).await?,
            Action::Behave(behave) => self.behave(behave).await?,
            Action::Certificate(certificate) => {
                let Certificate {
                    namespace,
                    secret,
                    host,
                    kind,
                } = certificate;
                let host = resolve(host, names)?;
                write_certificate(&self.cluster, &self.authority, (namespace, secret), &host, *kind).await?;
            }
            Action::Kill(kill) => self.kill(kill, names).await?,
            Action::Install(install) => {
                let product = &self.product;
                product
                    .apply(&self.cluster, step.installation, &install.value(), install.image)
                    .await?;
            }
            Action::RemoveInstallation => {
                self.installed.set(None);
                self.product.remove(&self.cluster).await?;
            }
            Action::Helm(helm) => {
                // The next step needs an installation that the suite applied.
                self.installed.set(None);
                let output = self.product.helm(&self.cluster, step.installation, helm).await?;
                if !output.success {
                    return Err(UnmetCondition::new(output.stderr.trim()).into());
                }
            }
            Action::Wait(wait) => self.wait(step, wait, names).await?,
            Action::Hold(hold) => sleep(Duration::from_secs(hold.seconds)).await,
            Action::Repeat(_) | Action::Measure(_) => {}
        }
        Ok(())
    }

    /// Calls the hook, and remembers what it breaks.
    async fn hook(&self, arguments: Vec<String>) -> anyhow::Result<()> {
        let unsupported = || MissingComponent(format!("the hook: {}", arguments.join(" ")));
        match self.cluster.hook.call(&arguments).await? {
            HookResult::Unsupported => Err(unsupported().into()),
            HookResult::Done(_) => {
                let mut broken = self.broken.borrow_mut();
                match arguments.split_first() {
                    Some((verb, fault)) if verb == "break" => broken.push(fault.to_vec()),
                    Some((verb, fault)) if verb == "restore" => broken.retain(|known| known != fault),
                    _ => {}
                }
                Ok(())
            }
        }
    }

    /// Restores everything that a step has left broken, in reverse order.
    pub(super) async fn restore_all(&self) {
        loop {
            let Some(fault) = self.broken.borrow_mut().pop() else {
                return;
            };
            let mut arguments = vec!["restore".to_owned()];
            arguments.extend(fault);
            if let Err(error) = self.cluster.hook.call(&arguments).await {
                print_uncaptured(&format!("    {error:#}"));
            }
        }
    }

    async fn behave(&self, behave: &ApplicationBehaviour) -> anyhow::Result<()> {
        let pods = self.application_pods();
        ensure!(!pods.is_empty(), "the application has no Pod");
        let selected = match behave.pods {
            WhichPods::All => &pods[..],
            WhichPods::One => &pods[..1],
        };
        for pod in selected {
            let put = self
                .cluster
                .pod_access
                .put(pod, CONTROL_PORT, "/behaviour", &behave.r#as);
            put.await?;
        }
        Ok(())
    }

    async fn kill(&self, kill: &ContainerKill, names: &LiveNames<'_>) -> anyhow::Result<()> {
        let wanted = resolve(&kill.pod, names)?;
        let pods = self.cluster.pods.all();
        let pod: &PodView = pods
            .iter()
            .find(|pod| pod.namespace == kill.namespace && pod.name == wanted)
            .with_context(|| format!("no Pod {}/{wanted}", kill.namespace))?;
        let arguments = ["kill", &pod.node, &pod.container].map(str::to_owned);
        self.hook(arguments.to_vec()).await
    }
}

fn resolved(texts: &[String], names: &LiveNames<'_>) -> anyhow::Result<Vec<String>> {
    texts.iter().map(|text| resolve(text, names)).collect()
}
