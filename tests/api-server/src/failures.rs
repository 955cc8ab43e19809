//! Absent resources, interrupted watches, rejected requests and outages, as a test configures them.

use crate::{ApiServer, store::Behaviour};

impl ApiServer {
    /// Makes a resource exist from now on.
    pub fn define(&self, resource: &str) {
        self.store().absent.remove(resource);
    }

    /// Makes a resource no longer exist.
    pub fn undefine(&self, resource: &str) {
        let mut store = self.store();
        store.absent.insert(resource.to_owned());
        store.objects.retain(|(kind, ..), _| kind != resource);
        drop(store);
        self.interrupt_watches();
    }

    /// Interrupts every watch.
    pub fn interrupt_watches(&self) {
        self.store().interruptions += 1;
        self.shared.changed.send_replace(());
    }

    /// Compacts the history.
    pub fn compact(&self) {
        let mut store = self.store();
        store.oldest = store.version;
    }

    /// Sets the behaviour for a resource (`pods`) or a subresource (`pods/portforward`) from now on.
    pub fn set_behaviour(&self, resource: &str, behaviour: Behaviour) {
        self.store().behaviours.insert(resource.to_owned(), behaviour);
    }

    /// Starts or ends an outage: every request is answered with 500. Open watches stay open.
    pub fn set_unavailable(&self, unavailable: bool) {
        self.store().unavailable = unavailable;
    }

    /// Rejects requests with a verb of RBAC (`get`, `list`, `watch`, `create`, `update`, `patch` or `delete`) on a resource
    /// (`pods`) or subresource (`pods/status`) from now on, as authorization or admission would.
    pub fn reject(&self, verb: &str, resource: &str, status: u16, message: &str) {
        let key = (verb.to_owned(), resource.to_owned());
        self.store().rejections.insert(key, (status, message.to_owned()));
    }

    /// Ends all rejections by [`Self::reject`].
    pub fn clear_rejections(&self) {
        self.store().rejections.clear();
    }

    /// Returns how many writes of a resource were rejected as set with [`Self::set_behaviour`].
    #[must_use]
    pub fn rejected_writes(&self, resource: &str) -> u64 {
        self.store().rejected_writes.get(resource).copied().unwrap_or(0)
    }
}
