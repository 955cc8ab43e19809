//! Solvers of ACME challenges: the effect of a preflight's objects on the cluster.

use std::net::{Ipv4Addr, SocketAddrV4};

use parallax_model::{HostName, NodeName, ObjectName, PodName, ServiceKey};
use serde::{Deserialize, Serialize};

use super::{Cluster, OpError, Pod, Service};
use crate::incident::ServerSoftware;

/// Port of every solver.
pub const PORT: u16 = 8089;

/// A solver Pod and its Service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SolverPod {
    /// Namespace and name of the pod and of its Service.
    pub key: ServiceKey,
    /// The node of the Pod.
    pub node: NodeName,
    /// The Service's ClusterIP.
    pub cluster_ip: Ipv4Addr,
    /// The container's command.
    pub argv: Vec<String>,
}

/// A challenge path that the controllers of a class forward to a solver's Service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChallengeRoute {
    /// The Service.
    pub to: ServiceKey,
    /// The class.
    pub class: ObjectName,
    /// The host name.
    pub host: HostName,
    /// The path; matched exactly.
    pub path: String,
}

impl SolverPod {
    /// Returns the Pod's name, also that of its network namespace.
    pub fn pod(&self) -> Result<PodName, OpError> {
        let name = self.key.name.as_str();
        PodName::new(name).map_err(|_| OpError::NoNamespace(name.to_owned()))
    }
}

impl Cluster {
    /// Adds a solver Pod and its Service.
    pub fn add_solver(&mut self, solver: SolverPod) -> Result<Pod, OpError> {
        let name = solver.pod()?;
        if self.deleted_pods.contains(&name) || self.pods().any(|known| known.name == name) {
            return Err(OpError::Taken(name));
        }
        let pod = self.new_pod(&name, &solver.node)?;
        // Name of the only port; any name will do.
        let port = ObjectName::new("http").map_err(|_| OpError::NoService(solver.key.clone()))?;
        let mut service = Service::with_cluster_ip(solver.key.clone(), solver.cluster_ip, (port, PORT));
        service.endpoints.push(pod.clone());
        self.services.push(service);
        self.solvers.push(solver);
        Ok(pod)
    }

    /// Removes a solver, its Service and the routes to it. Returns its Pod.
    pub fn remove_solver(&mut self, key: &ServiceKey) -> Result<PodName, OpError> {
        let at = self.solvers.iter().position(|solver| solver.key == *key);
        let at = at.ok_or_else(|| OpError::NoService(key.clone()))?;
        let pod = self.solvers.remove(at).pod()?;
        self.services.retain(|service| service.key != *key);
        self.routes.retain(|route| route.to != *key);
        self.deleted_pods.insert(pod.clone());
        Ok(pod)
    }

    /// Returns the solver in a Service's Pod, if it is one.
    #[must_use]
    pub fn solver(&self, key: &ServiceKey) -> Option<&SolverPod> {
        self.solvers.iter().find(|solver| solver.key == *key)
    }

    /// Returns the Pods of a class's controllers.
    #[must_use]
    pub fn controllers(&self, class: &ObjectName) -> Vec<PodName> {
        let own = self.services.iter().filter(|service| {
            service.class.as_ref() == Some(class) && service.server.software == ServerSoftware::Nginx
        });
        own.flat_map(|service| service.endpoints.iter().map(|pod| pod.name.clone()))
            .collect()
    }

    /// Returns the challenges that a controller forwards, with their destinations.
    pub fn challenges(&self, controller: &Service) -> impl Iterator<Item = (&ChallengeRoute, SocketAddrV4)> {
        let own = self
            .routes
            .iter()
            .filter(|route| controller.class.as_ref() == Some(&route.class));
        own.filter_map(|route| {
            Some((
                route,
                SocketAddrV4::new(self.service(&route.to)?.cluster_ip?, PORT),
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::workloads;

    fn solver() -> SolverPod {
        SolverPod {
            key: "shop/parallax-preflight-1".parse().unwrap(),
            node: "n2".parse().unwrap(),
            cluster_ip: "10.96.200.1".parse().unwrap(),
            argv: vec!["parallax".to_owned(), "solver".to_owned()],
        }
    }

    fn route() -> ChallengeRoute {
        ChallengeRoute {
            to: solver().key,
            class: "public".parse().unwrap(),
            host: "shop.example.test".parse().unwrap(),
            path: "/.well-known/acme-challenge/t0ken".to_owned(),
        }
    }

    fn of(cluster: &Cluster, service: &str) -> String {
        let service = cluster.service(&service.parse().unwrap()).unwrap();
        let pod = &service.endpoints[0];
        workloads::server("lab", Path::new("/run-folder"), cluster, service, pod).files[0]
            .1
            .clone()
    }

    #[test]
    fn the_controllers_of_its_class_pass_its_path_on_and_no_other_does() {
        let text = include_str!("../../incidents/i4.yaml");
        let incident = crate::incident_file::parse(Path::new("i4.yaml"), text).unwrap();
        let mut cluster = Cluster::derive(&incident).unwrap();
        let before = cluster.clone();
        cluster.add_solver(solver()).unwrap();
        cluster.routes.push(route());
        let passed =
            "location = /.well-known/acme-challenge/t0ken {\n      proxy_pass http://10.96.200.1:8089;";
        assert!(of(&cluster, "ingress/ingress-nginx").contains(passed));
        assert!(!of(&cluster, "ingress/internal").contains("acme-challenge"));
        // The other class: the other controller, with a host that it does not serve otherwise.
        cluster.routes[0].class = "internal".parse().unwrap();
        assert!(!of(&cluster, "ingress/ingress-nginx").contains("acme-challenge"));
        let internal = of(&cluster, "ingress/internal");
        assert!(
            internal.contains("server_name shop.example.test;") && internal.contains(passed),
            "{internal}"
        );
        let pod = cluster.remove_solver(&solver().key).unwrap();
        assert_eq!(
            (&cluster.services, &cluster.routes),
            (&before.services, &before.routes)
        );
        assert!(matches!(cluster.add_solver(solver()), Err(OpError::Taken(taken)) if taken == pod));
    }

    #[test]
    fn the_solvers_pod_runs_the_containers_own_command() {
        let text = include_str!("../../incidents/i1.yaml");
        let incident = crate::incident_file::parse(Path::new("i1.yaml"), text).unwrap();
        let mut cluster = Cluster::derive(&incident).unwrap();
        let pod = cluster.add_solver(solver()).unwrap();
        let service = cluster.service(&solver().key).unwrap();
        let workload = workloads::server("lab", Path::new("/run-folder"), &cluster, service, &pod);
        assert_eq!(workload.command.argv, ["parallax", "solver"]);
        assert_eq!(pod.address, Ipv4Addr::new(10, 244, 2, 11));
    }
}
