//! Validates the sections of the configuration and collects all errors.

use std::{collections::BTreeSet, net::SocketAddr, path::Path, sync::Arc};

use parallax_diagnosis::topology::Topology;
use parallax_model::{InvalidName, Micros};

use super::{
    Config, RuntimeEnvironment, access, challenges, checkpoint, document::YamlDocument, error::ConfigError,
    forecast, links, notify, people, raw::RawConfig, replicas, store, tenants,
    topology_source::TopologySource,
};
use crate::token::BearerToken;

/// Minimum and maximum interval, in milliseconds.
const INTERVAL_RANGE_MS: (u64, u64) = (200, 3_600_000);
/// Minimum and maximum timeout, in milliseconds.
const TIMEOUT_RANGE_MS: (u64, u64) = (50, 60_000);

impl Config {
    /// Validates everything except the topology, which `build` reads from its source.
    #[expect(
        clippy::too_many_lines,
        reason = "each section of the file is read and validated once"
    )]
    pub(super) fn validate<T>(
        path: &Path,
        document: &YamlDocument,
        raw: RawConfig<T>,
        build: impl FnOnce(&mut TopologySource, Option<T>) -> Result<Topology, ConfigError>,
    ) -> Result<Self, ConfigError> {
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut found = Vec::new();
        let mut wrong = |field: &str, message: String| found.push(document.problem(field, message));

        let listen = raw.listen.as_deref().unwrap_or("127.0.0.1:8080");
        let listen = listen.parse::<SocketAddr>().unwrap_or_else(|_| {
            wrong(
                "listen",
                format!("expected ADDRESS:PORT like 127.0.0.1:8080 or [::]:8080, found {listen:?}"),
            );
            SocketAddr::from(([127, 0, 0, 1], 0))
        });
        let mut within = |field: &str, (low, high): (u64, u64), given: Option<u64>, default: u64| {
            let value = given.unwrap_or(default);
            if !(low..=high).contains(&value) {
                wrong(
                    field,
                    format!("expected {low} to {high} milliseconds, found {value}"),
                );
            }
            Micros::from_millis(value)
        };
        let interval = within("intervalMs", INTERVAL_RANGE_MS, raw.interval_ms, 5_000);
        let timeout = within("timeoutMs", TIMEOUT_RANGE_MS, raw.timeout_ms, 3_000);
        let token = raw.token_file.as_ref().and_then(|file| {
            BearerToken::read(&folder.join(file))
                .map_err(|message| wrong("tokenFile", message))
                .ok()
        });
        let (tls, identity) = access::validate(
            raw.tls,
            raw.identity,
            raw.token_file.is_some(),
            folder,
            &mut wrong,
        );
        let access = raw
            .access
            .and_then(|raw| people::validate_access(raw, folder, &mut wrong));
        let runs = people::validate_runs(&raw.runs.unwrap_or_default(), &mut wrong);
        let tenants = tenants::validate(raw.tenants.unwrap_or_default(), &mut wrong);
        let challenges = challenges::validate(raw.challenges.unwrap_or_default(), &mut wrong);
        let store = raw.store.and_then(|raw| store::validate(raw, folder, &mut wrong));
        let actions_config_map = raw.incident_actions.and_then(|raw| {
            let place = raw.config_map.parse();
            place
                .map_err(|error: InvalidName| wrong("incidentActions.configMap", error.to_string()))
                .ok()
        });
        let checkpoint = raw
            .checkpoint
            .and_then(|raw| checkpoint::validate(raw, folder, &mut wrong));
        let forecast = forecast::validate(raw.forecast, &mut wrong);
        let replicas = raw.replicas.and_then(|raw| replicas::validate(&raw, &mut wrong));
        let notify = raw
            .notify
            .map(|raw| notify::validate(raw, folder, &mut wrong))
            .unwrap_or_default();
        let links = raw
            .links
            .map(|raw| links::validate(raw, &mut wrong))
            .unwrap_or_default();
        let vantages = raw
            .vantages
            .iter()
            .enumerate()
            .filter_map(|(i, text)| {
                text.parse()
                    .map_err(|error| wrong(&format!("vantages[{i}]"), format!("{error}")))
                    .ok()
            })
            .collect();

        let allowed_hosts = validate_allowed_hosts(&raw.allowed_hosts, &mut wrong);

        let mut source = TopologySource {
            file: None,
            kubernetes: None,
            config_file: path.to_owned(),
            config_document: Some(Arc::new(document.clone())),
            targets: raw.targets,
            vantages,
            embedded_vantages: Vec::new(),
            node: None,
            resolvers: raw.resolvers,
            balancers: raw.balancers,
        };
        let topology = build(&mut source, raw.topology);
        if let (Some(kubernetes), Some(identity)) = (&mut source.kubernetes, &identity) {
            kubernetes.add_prober_namespaces(identity.namespaces());
        }
        match topology {
            Ok(topology) if found.is_empty() => Ok(Self {
                listen,
                interval,
                timeout,
                token,
                tls,
                identity,
                access,
                custom_resources: raw.custom_resources == Some(true),
                allowed_hosts,
                runs,
                tenants,
                challenges,
                client: None,
                prober_pods: None,
                links,
                actions_config_map,
                notify,
                checkpoint,
                checkpoint_file: None,
                forecast_interval: forecast,
                histogram_buckets: raw.metrics.unwrap_or_default().histogram_buckets(),
                replicas,
                environment: RuntimeEnvironment::default(),
                record: None,
                store,
                initial_topology: Arc::new(topology),
                source,
            }),
            Ok(_) => Err(ConfigError::new(found)),
            Err(error) => Err(ConfigError::new(found).with_problems_of(error)),
        }
    }
}

/// Returns the valid host names in lower case; reports others to `wrong`.
fn validate_allowed_hosts(hosts: &[String], wrong: &mut impl FnMut(&str, String)) -> BTreeSet<String> {
    let mut allowed = BTreeSet::new();
    for (i, host) in hosts.iter().enumerate() {
        let is_name_character = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        if host.is_empty() || !host.chars().all(is_name_character) {
            wrong(
                &format!("allowedHosts[{i}]"),
                "expected a host name without scheme, port and wildcard, for example parallax.example.com"
                    .to_owned(),
            );
        }
        allowed.insert(host.to_ascii_lowercase());
    }
    allowed
}
