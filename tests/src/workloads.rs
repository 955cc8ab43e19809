//! The processes in the Pods. Pure: commands, and the contents of their files.

mod probers;

use std::{collections::BTreeMap, fmt::Write, net::Ipv4Addr, path::Path};

use parallax_model::HostName;

pub use self::probers::{ProberSettings, host_prober, outside_prober, prober};
use crate::{
    cluster::{Cluster, Pod, Service, addresses},
    command::GuestCommand,
    incident::{ServerSoftware, ServerSpec, ServicePort},
};

/// Certificate and key for every host of the lab, in the run's directory.
pub const CERTIFICATE_FILE: &str = "server.pem";

/// The CA that signed it.
pub const CA_FILE: &str = "ca.pem";

/// A process and the files that it reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadProcess {
    /// The command.
    pub command: GuestCommand,
    /// Files to write first, with their paths.
    pub files: Vec<(String, String)>,
}

/// Renders `/etc/resolv.conf` of a Pod in the namespace `default`.
#[must_use]
pub fn resolv_conf(resolver: Ipv4Addr) -> String {
    format!(
        "nameserver {resolver}\nsearch default.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n"
    )
}

/// Renders that of a client outside.
#[must_use]
pub fn outside_resolv_conf() -> String {
    format!("nameserver {}\n", addresses::PUBLIC_DNS)
}

/// Builds the server of a Pod behind a Service.
#[must_use]
pub fn server(lab: &str, folder: &Path, cluster: &Cluster, service: &Service, pod: &Pod) -> WorkloadProcess {
    if let Some(solver) = cluster.solver(&service.key) {
        return WorkloadProcess {
            command: GuestCommand::in_namespace(pod.name.as_str(), &solver.argv),
            files: Vec::new(),
        };
    }
    let server = service.server_of(&pod.name);
    let hosts = cluster.served_hosts(service, server);
    match server.software {
        ServerSoftware::Lab => WorkloadProcess {
            command: origin(lab, cluster, pod, &service.ports, server, &hosts),
            files: Vec::new(),
        },
        ServerSoftware::Nginx => {
            let path = format!("/run/nginx-{}.conf", pod.name);
            WorkloadProcess {
                command: GuestCommand::in_namespace(
                    pod.name.as_str(),
                    ["nginx", "-e", "stderr", "-c", &path],
                ),
                files: vec![(path, nginx_conf(folder, cluster, service, pod, &hosts))],
            }
        }
        ServerSoftware::Haproxy => {
            let path = format!("/run/haproxy-{}.conf", pod.name);
            WorkloadProcess {
                command: GuestCommand::in_namespace(pod.name.as_str(), ["haproxy", "-db", "-f", &path]),
                files: vec![(path, haproxy_conf(folder, pod, &service.ports, server, &hosts))],
            }
        }
    }
}

fn listens(ports: &[ServicePort]) -> Vec<(u16, bool)> {
    let mut targets: Vec<(u16, bool)> = ports
        .iter()
        .map(|port| (port.target_port, port.is_tls()))
        .collect();
    targets.sort_unstable();
    targets.dedup();
    targets
}

fn origin(
    lab: &str,
    cluster: &Cluster,
    pod: &Pod,
    ports: &[ServicePort],
    server: &ServerSpec,
    hosts: &[&HostName],
) -> GuestCommand {
    let mut argv = vec![lab.to_owned(), "origin".to_owned()];
    for (port, _) in listens(ports) {
        argv.extend(["--listen".to_owned(), format!("{}:{port}", pod.address)]);
        if cluster.is_dual_stack() {
            let six = addresses::ipv6_counterpart(pod.address);
            argv.extend(["--listen".to_owned(), format!("[{six}]:{port}")]);
        }
    }
    argv.extend(["--pod", pod.name.as_str(), "--node", pod.node.as_str()].map(str::to_owned));
    if let Some(status) = server.status {
        argv.extend(["--status".to_owned(), status.to_string()]);
    }
    if let Some(delay) = server.delay_ms {
        argv.extend(["--delay-ms".to_owned(), delay.to_string()]);
    }
    if let Some(bytes) = server.body_bytes {
        argv.extend(["--body-bytes".to_owned(), bytes.to_string()]);
    }
    for host in hosts {
        argv.extend(["--host".to_owned(), host.to_string()]);
    }
    GuestCommand::in_namespace(pod.name.as_str(), argv)
}

fn nginx_conf(folder: &Path, cluster: &Cluster, service: &Service, pod: &Pod, hosts: &[&HostName]) -> String {
    let server = service.server_of(&pod.name);
    let run = format!("/run/nginx-{}", pod.name);
    let mut text = format!(
        "daemon off;\nuser root;\nworker_processes 1;\npid {run}.pid;\nerror_log stderr warn;\n\
         events {{ worker_connections 256; }}\nhttp {{\n  access_log off;\n  client_body_temp_path {run}-body;\n  \
         proxy_temp_path {run}-proxy;\n  fastcgi_temp_path {run}-fastcgi;\n  uwsgi_temp_path {run}-uwsgi;\n  \
         scgi_temp_path {run}-scgi;\n"
    );
    let mut listen = String::new();
    for (port, tls) in listens(&service.ports) {
        let words = format!(
            "{}{}",
            if tls { " ssl" } else { "" },
            if server.proxy_protocol {
                " proxy_protocol"
            } else {
                ""
            }
        );
        let _ = writeln!(listen, "    listen {}:{port}{words};", pod.address);
        if tls {
            let pem = folder.join(CERTIFICATE_FILE);
            let pem = pem.display();
            let _ = writeln!(
                listen,
                "    ssl_certificate {pem};\n    ssl_certificate_key {pem};"
            );
        }
    }
    if let Some(to) = &server.redirect {
        // Before any location: the whole host is redirected, including challenges.
        let _ = writeln!(
            listen,
            "    if ($scheme = http) {{ return 308 {to}$request_uri; }}"
        );
    }
    let status = server.status.unwrap_or(200);
    // The response depends on the host, whichever controller forwards it; the header names the Pod.
    let answer = |status: u16| {
        format!(
            "    add_header Parallax-Pod {} always;\n    location / {{ return {status} \"the page of $host\\n\"; }}\n",
            pod.name
        )
    };
    let (own, others) = challenges(cluster, service, hosts);
    if hosts.is_empty() {
        let _ = write!(text, "  server {{\n{listen}{own}{}  }}\n", answer(status));
    } else {
        let names: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        // The first server of an address answers all names that no other server has.
        let _ = write!(text, "  server {{\n{listen}{}  }}\n", answer(404));
        let _ = write!(
            text,
            "  server {{\n{listen}    server_name {};\n{own}{}  }}\n",
            names.join(" "),
            answer(status)
        );
    }
    for (host, location) in others {
        let _ = write!(
            text,
            "  server {{\n{listen}    server_name {host};\n{location}{}  }}\n",
            answer(404)
        );
    }
    for (host, to) in cluster.forwarded_hosts(service) {
        // The application's response is forwarded; if it fails, the controller sends a 504 before a prober times out.
        let _ = write!(
            text,
            "  server {{\n{listen}    server_name {host};\n    add_header Parallax-Pod {} always;\n    location / {{\n      \
             proxy_pass http://{to};\n      proxy_set_header Host $host;\n      proxy_hide_header Parallax-Pod;\n      \
             proxy_connect_timeout 1s;\n      proxy_next_upstream off;\n    }}\n  }}\n",
            pod.name
        );
    }
    text.push_str("}\n");
    text
}

/// Returns the challenges that a controller routes: those of the hosts that it serves anyway, and the others by host.
fn challenges<'a>(
    cluster: &'a Cluster,
    service: &Service,
    hosts: &[&HostName],
) -> (String, BTreeMap<&'a HostName, String>) {
    let (mut own, mut others) = (String::new(), BTreeMap::<&HostName, String>::new());
    for (route, to) in cluster.challenges(service) {
        let known = hosts.is_empty() || hosts.contains(&&route.host);
        let at = if known {
            &mut own
        } else {
            others.entry(&route.host).or_default()
        };
        // Writing to a string cannot fail.
        let _ = write!(
            at,
            "    location = {} {{\n      proxy_pass http://{to};\n      proxy_set_header Host $host;\n    }}\n",
            route.path
        );
    }
    (own, others)
}

fn haproxy_conf(
    folder: &Path,
    pod: &Pod,
    ports: &[ServicePort],
    server: &ServerSpec,
    hosts: &[&HostName],
) -> String {
    let mut text =
        "global\n  maxconn 200\ndefaults\n  mode http\n  timeout connect 2s\n  timeout client 10s\n  \
                    timeout server 10s\nfrontend all\n"
            .to_owned();
    for (port, tls) in listens(ports) {
        let pem = folder.join(CERTIFICATE_FILE);
        let words = format!(
            "{}{}",
            if tls {
                format!(" ssl crt {}", pem.display())
            } else {
                String::new()
            },
            if server.proxy_protocol {
                " accept-proxy"
            } else {
                ""
            }
        );
        let _ = writeln!(text, "  bind {}:{port}{words}", pod.address);
    }
    let answer = |status: u16, when: &str| {
        format!(
            "  http-request return status {status} content-type text/plain string \"{} on {}\\n\" hdr Parallax-Pod {}{when}\n",
            pod.name, pod.node, pod.name
        )
    };
    let status = server.status.unwrap_or(200);
    if hosts.is_empty() {
        text.push_str(&answer(status, ""));
    } else {
        let names: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        text.push_str(&answer(
            status,
            &format!(" if {{ hdr(host),field(1,:) -i {} }}", names.join(" ")),
        ));
        text.push_str(&answer(404, ""));
    }
    text
}

/// Builds an ordinary client in a namespace; it reads requests and writes results.
#[must_use]
pub fn client(lab: &str, namespace: &str) -> GuestCommand {
    GuestCommand::in_namespace(namespace, [lab, "client"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incident_file::load;

    fn of(id: &str) -> (Cluster, WorkloadProcess) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("incidents");
        let cluster = Cluster::derive(&load(&folder, id).unwrap()).unwrap();
        let (service, pod) = cluster.workloads().next().unwrap();
        let workload = server("/lab", Path::new("/run-folder"), &cluster, service, pod);
        (cluster, workload)
    }

    #[test]
    fn a_controller_answers_the_hosts_of_its_class_and_nothing_else() {
        let (_, workload) = of("i4");
        let conf = &workload.files[0].1;
        let (default, own) = conf.split_once("server_name").unwrap();
        assert!(default.contains("return 404"), "{conf}");
        assert!(own.starts_with(" shop.example.test www.example.test;") && own.contains("return 200"));
    }

    #[test]
    fn a_server_behind_proxy_protocol_insists_on_the_header_and_one_with_certificate_has_the_runs() {
        let (_, nginx) = of("f9");
        assert!(
            nginx.files[0]
                .1
                .contains("listen 10.244.1.10:8080 proxy_protocol;")
        );
        let (_, haproxy) = of("f9-haproxy");
        assert!(haproxy.files[0].1.contains("bind 10.244.1.10:8080 accept-proxy"));
        let (_, broker) = of("i5");
        assert!(
            broker.files[0]
                .1
                .contains("bind 10.244.1.10:8443 ssl crt /run-folder/server.pem")
        );
    }
}
