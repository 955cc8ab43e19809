//! Interned ids: cells are compared and sorted millions of times, names are only printed.
//!
//! Ids are assigned in the order of the fold, which is sorted, so they do not depend on the order of arrival.

use std::{borrow::Borrow, collections::BTreeMap};

use parallax_model::{FailureKind, KindClass, NodeName, PodName, ServiceKey, TargetId, Vantage, ZoneName};

macro_rules! index {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) struct $type(pub(crate) u32);

        impl From<u32> for $type {
            fn from(value: u32) -> Self {
                Self(value)
            }
        }

        impl From<$type> for usize {
            fn from(value: $type) -> Self {
                value.0 as Self
            }
        }
    };
}

index!(
    /// A node.
    NodeIx
);
index!(
    /// A vantage. A node may have two: Pod network and host network.
    VantageIx
);
index!(
    /// An endpoint.
    PodIx
);
index!(
    /// A zone.
    ZoneIx
);
index!(
    /// A DNS name.
    NameIx
);
index!(
    /// A failure kind.
    KindIx
);
index!(
    /// A target.
    TargetIx
);
index!(
    /// A Service.
    ServiceIx
);

/// Interning table: names of one kind and their ids.
#[derive(Debug, Clone)]
pub(crate) struct NameTable<T, I> {
    ids: BTreeMap<T, u32>,
    names: Vec<T>,
    marker: std::marker::PhantomData<I>,
}

impl<T, I> Default for NameTable<T, I> {
    fn default() -> Self {
        Self {
            ids: BTreeMap::new(),
            names: Vec::new(),
            marker: std::marker::PhantomData,
        }
    }
}

impl<T: Ord + Clone, I: From<u32> + Into<usize>> NameTable<T, I> {
    pub(crate) fn intern<Q>(&mut self, name: &Q) -> I
    where
        T: Borrow<Q>,
        Q: Ord + ToOwned<Owned = T> + ?Sized,
    {
        if let Some(known) = self.ids.get(name) {
            return I::from(*known);
        }
        // More than u32::MAX names do not fit into memory either.
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.ids.insert(name.to_owned(), number);
        self.names.push(name.to_owned());
        I::from(number)
    }

    pub(crate) fn get<Q>(&self, name: &Q) -> Option<I>
    where
        T: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.ids.get(name).map(|n| I::from(*n))
    }

    pub(crate) fn name(&self, index: I) -> &T {
        // Only `intern` of this table creates these indices.
        &self.names[index.into()]
    }
}

/// Dense map from ids to values, for lookups per path and hypothesis.
#[derive(Debug, Clone)]
pub(crate) struct IndexedTable<I, V> {
    slots: Vec<Option<V>>,
    len: usize,
    marker: std::marker::PhantomData<I>,
}

impl<I, V> Default for IndexedTable<I, V> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            len: 0,
            marker: std::marker::PhantomData,
        }
    }
}

impl<I: Copy + From<u32> + Into<usize>, V> IndexedTable<I, V> {
    pub(crate) fn insert(&mut self, index: I, value: V) {
        let at = index.into();
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, || None);
        }
        self.len += usize::from(self.slots[at].replace(value).is_none());
    }

    pub(crate) fn get(&self, index: &I) -> Option<&V> {
        self.slots.get((*index).into())?.as_ref()
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.slots.iter().flatten()
    }

    /// Iterates in the order of the ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (I, &V)> {
        (0_u32..)
            .zip(&self.slots)
            .filter_map(|(number, value)| Some((I::from(number), value.as_ref()?)))
    }
}

/// All interned names of an engine.
#[derive(Debug, Clone, Default)]
pub(crate) struct NameRegistry {
    pub(crate) nodes: NameTable<NodeName, NodeIx>,
    pub(crate) vantages: NameTable<Vantage, VantageIx>,
    pub(crate) pods: NameTable<PodName, PodIx>,
    pub(crate) zones: NameTable<ZoneName, ZoneIx>,
    pub(crate) names: NameTable<String, NameIx>,
    pub(crate) kinds: NameTable<FailureKind, KindIx>,
    pub(crate) targets: NameTable<TargetId, TargetIx>,
    pub(crate) services: NameTable<ServiceKey, ServiceIx>,
    /// The node on which a Pod ran when it was last an endpoint; cells outlive their EndpointSlice.
    pub(crate) pod_nodes: IndexedTable<PodIx, NodeIx>,
}

impl NameRegistry {
    /// Returns the class under which a failure kind is counted.
    pub(crate) fn class_of(&self, kind: KindIx, status: Option<u16>) -> KindClass {
        self.kinds.name(kind).class(status)
    }
}

/// Position of a class in [`KindClass::ALL`], the order of all pseudo-counts.
pub(crate) fn class_index(class: KindClass) -> usize {
    KindClass::ALL.iter().position(|c| *c == class).unwrap_or(0)
}
