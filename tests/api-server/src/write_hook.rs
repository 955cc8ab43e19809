//! Reactions to the writes of clients, as by the controllers and the other clients of a cluster.

use serde_json::Value;

use crate::{
    ApiServer,
    store::{ObjectWrite, Objects, Store, WriteHook, key},
};

impl Objects<'_> {
    /// Returns all objects of a resource.
    pub fn all(&self, resource: &str) -> impl Iterator<Item = &Value> {
        let of_kind = self
            .0
            .objects
            .iter()
            .filter(move |((kind, ..), _)| kind == resource);
        of_kind.map(|(_, object)| object)
    }

    /// Changes an object; one that does not exist stays absent.
    pub fn amend(&mut self, resource: &str, namespace: &str, name: &str, change: impl FnOnce(&mut Value)) {
        self.0.amend(resource, namespace, name, change);
    }
}

impl ApiServer {
    /// Calls this hook for every write of a client from now on.
    pub fn set_write_hook(&self, hook: impl WriteHook + 'static) {
        self.store().write_hook = Some(Box::new(hook));
    }
}

impl Store {
    pub(crate) fn before_write(&mut self, write: &ObjectWrite<'_>) {
        self.call_hook(|hook, objects| hook.before(write, objects));
    }

    /// Runs the hook after a write, and returns the object as it is then.
    pub(crate) fn after_write(&mut self, write: &ObjectWrite<'_>) -> Option<Value> {
        self.call_hook(|hook, objects| hook.after(write, objects));
        let key = key(write.resource, write.namespace, write.name);
        self.objects.get(&key).cloned()
    }

    fn call_hook(&mut self, call: impl FnOnce(&mut dyn WriteHook, &mut Objects<'_>)) {
        if let Some(mut hook) = self.write_hook.take() {
            call(&mut *hook, &mut Objects(self));
            self.write_hook = Some(hook);
        }
    }
}
