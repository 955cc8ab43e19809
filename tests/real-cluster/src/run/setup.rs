//! Set-up before the first step: images on the nodes, the application, the observers.

use std::{
    cell::{Cell, RefCell},
    path::{Path, PathBuf},
    rc::Rc,
};

use anyhow::Context;

use super::{Options, SuiteRun};
use crate::{
    cluster::{Access, Cluster, HookResult, Proxy},
    image,
    install::{Application, Authority, CLIENTS, ParallaxInstallation, PreviousVersion, ProductImages},
    observe::{Browser, Clock, Observer, ObserverSources, Prometheus},
    print_uncaptured,
};

/// Everything needed to install and remove what a run needs.
pub(super) struct RunSetup<'a> {
    pub(super) cluster: Rc<Cluster>,
    options: &'a Options,
    clock: Clock,
    folder: PathBuf,
}

impl<'a> RunSetup<'a> {
    pub(super) async fn new(options: &'a Options, clock: Clock, folder: &Path) -> anyhow::Result<Self> {
        let access = Access {
            kubeconfig: options.kubeconfig.canonicalize().with_context(|| {
                format!(
                    "PARALLAX_REAL_CLUSTER: cannot find {}",
                    options.kubeconfig.display()
                )
            })?,
            hook: options.hook.clone(),
            settings: options.settings.clone(),
            folder: folder.to_owned(),
        };
        let cluster = Cluster::connect(&access).await?;
        print_uncaptured(&format!(
            "Kubernetes {}, nodes {}{}",
            cluster.version,
            cluster.nodes.join(", "),
            if cluster.hook.is_some() {
                ""
            } else {
                "; no hook, so only steps that kubectl can execute will run"
            }
        ));
        Ok(Self {
            cluster: Rc::new(cluster),
            options,
            clock,
            folder: folder.to_owned(),
        })
    }

    /// Installs images and objects in the cluster, and starts observing.
    pub(super) async fn install(&self) -> anyhow::Result<SuiteRun> {
        let authority = Authority::new()?;
        let (product, suite) = self.images(&authority).await?;
        let cluster = &self.cluster;
        // Leftovers of an earlier run that was killed.
        product.remove(cluster).await?;
        print_uncaptured("installing the application and the control clients");
        let application = Application { image: suite };
        let destinations = application.install(cluster, &authority).await?;
        cluster.pods.refresh().await;
        let clients = cluster.pods.in_namespace(CLIENTS, "app=shopper");
        let first = clients.first().context("no control client is running")?;
        let way = cluster.pod_access.choose_route(first, 8082).await;
        print_uncaptured(&format!(
            "Pods are accessed {}",
            match way {
                crate::cluster::PodRoute::Direct => "directly",
                crate::cluster::PodRoute::Forwarded => "through forwarded ports",
            }
        ));
        let proxy = Proxy::bind(Rc::clone(&cluster.pods), Rc::clone(&cluster.pod_access)).await?;
        let proxy_address = proxy.address();
        let monitors = product.pod_monitors().await?;
        let prometheus = Prometheus::start(&self.folder, &monitors, proxy_address);
        // It does not depend on anything behind the proxy.
        let prometheus = Rc::new(prometheus.await?);
        let browser = Browser::find(&self.folder, proxy_address);
        if browser.is_none() {
            print_uncaptured("no screenshots: chromium is not installed");
        }
        let sources = ObserverSources {
            cluster: Rc::clone(cluster),
            prometheus: Some(Rc::clone(&prometheus)),
            binary: product.binary.clone(),
        };
        let observer = Observer::start(self.clock, &sources, proxy);
        Ok(SuiteRun {
            cluster: Rc::clone(cluster),
            trusted: self.options.image.is_none(),
            product,
            application,
            authority,
            destinations,
            observer,
            prometheus: Some(prometheus),
            browser,
            installed: Cell::new(None),
            broken: RefCell::default(),
        })
    }

    /// Provides the product and the name of the suite's image, on the nodes or in a registry.
    async fn images(&self, authority: &Authority) -> anyhow::Result<(ParallaxInstallation, String)> {
        let options = self.options;
        if let (Some(image), Some(suite)) = (&options.image, &options.suite_image) {
            let binary = image::command_line(options.binary.as_deref())?;
            let product =
                ParallaxInstallation::new(binary, ProductImages::tested(image.clone()), self.folder.clone());
            return Ok((product, suite.clone()));
        }
        anyhow::ensure!(
            self.cluster.hook.is_some(),
            "cannot load images into the cluster: set a hook (PARALLAX_REAL_CLUSTER_HOOK), or images in a registry \
             (PARALLAX_REAL_CLUSTER_IMAGE and PARALLAX_REAL_CLUSTER_SUITE_IMAGE)"
        );
        let previous = options.previous.as_deref().map(Path::canonicalize).transpose();
        let previous = previous.context("finding the directory of the previous version")?;
        print_uncaptured("building images");
        let built = image::build(
            &self.folder,
            (options.binary.as_deref(), previous.as_deref()),
            authority.root(),
            options.suite_image.is_none(),
        )
        .await?;
        print_uncaptured("loading images");
        let mut arguments = vec!["load".to_owned()];
        arguments.extend(built.archives.iter().map(|path| path.display().to_string()));
        anyhow::ensure!(
            matches!(self.cluster.hook.call(&arguments).await?, HookResult::Done(_)),
            "the hook cannot load images: set PARALLAX_REAL_CLUSTER_IMAGE and PARALLAX_REAL_CLUSTER_SUITE_IMAGE instead"
        );
        let image = options.image.clone().unwrap_or_else(|| image::PRODUCT.to_owned());
        let renamed = options.image.is_none().then(|| image::RENAMED.to_owned());
        let previous = previous.as_deref().map(|folder| PreviousVersion {
            image: image::PREVIOUS.to_owned(),
            chart: image::previous_chart(folder),
        });
        let images = ProductImages {
            tested: image,
            renamed,
            previous,
        };
        let suite = options
            .suite_image
            .clone()
            .unwrap_or_else(|| image::SUITE.to_owned());
        Ok((
            ParallaxInstallation::new(built.product, images, self.folder.clone()),
            suite,
        ))
    }

    /// Makes the hook restore everything that it has broken.
    pub(super) async fn restore_leftovers(&self) {
        if let Err(error) = self.cluster.hook.call(&["restore", "all"]).await {
            print_uncaptured(&format!("restoring: {error:#}"));
        }
    }

    /// Removes everything.
    pub(super) async fn remove(&self) -> anyhow::Result<()> {
        print_uncaptured("removing everything");
        Application::remove(&self.cluster).await?;
        let binary = image::command_line(self.options.binary.as_deref())?;
        let product = ParallaxInstallation::new(
            binary,
            ProductImages::tested(image::PRODUCT.to_owned()),
            self.folder.clone(),
        );
        product.remove(&self.cluster).await
    }
}
