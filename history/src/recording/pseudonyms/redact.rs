//! Pseudonymization of each recorded type. Every field is destructured by name, so that a new field does not compile
//! until its treatment is decided.

mod observation;
mod target;
mod topology;

use parallax_model::{Front, InvalidName, ServiceKey, TargetId, Vantage};

use super::Pseudonymizer;

impl Pseudonymizer {
    /// The pseudonym of a name of any type.
    fn typed_name<T>(&mut self, name: T) -> T
    where
        T: Into<String> + TryFrom<String, Error = InvalidName> + Clone,
    {
        let text: String = name.clone().into();
        let pseudonym = self.name(&text);
        // A pseudonym contains only letters, digits and dots, and does not exceed the maximum length of a name.
        T::try_from(pseudonym).unwrap_or_else(|_| {
            let word = self.word(&text);
            T::try_from(word).unwrap_or(name)
        })
    }

    pub(in crate::recording) fn target(&mut self, target: &TargetId) -> TargetId {
        let id = self.target_id(target.as_str());
        TargetId::new(id).unwrap_or_else(|_| {
            let word = self.word(target.as_str());
            TargetId::new(word).unwrap_or_else(|_| target.clone())
        })
    }

    fn front(&mut self, front: Front) -> Front {
        let Front { address, transport } = front;
        Front {
            address: self.socket(address),
            transport,
        }
    }

    fn service_key(&mut self, key: ServiceKey) -> ServiceKey {
        let ServiceKey { namespace, name } = key;
        ServiceKey {
            namespace: self.typed_name(namespace),
            name: self.typed_name(name),
        }
    }

    /// Pseudonymizes a vantage.
    pub(in crate::recording) fn vantage(&mut self, vantage: &Vantage) -> Vantage {
        match vantage.clone() {
            Vantage::Cluster { node, network } => Vantage::Cluster {
                node: self.typed_name(node),
                network,
            },
            Vantage::Outside { reach, name } => Vantage::Outside {
                reach,
                name: self.typed_name(name),
            },
        }
    }
}
