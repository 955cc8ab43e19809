//! Names that a step cannot know: nodes, Pods and the cluster's settings.

use std::collections::BTreeMap;

use anyhow::{Context, bail};

/// Looks up names.
pub trait Names {
    /// Returns the value of a name, or `None` if it is unknown.
    fn look_up(&self, name: &str) -> Option<String>;
}

impl Names for BTreeMap<String, String> {
    fn look_up(&self, name: &str) -> Option<String> {
        self.get(name).cloned()
    }
}

/// Replaces every `${NAME}` in a text.
///
/// # Errors
/// An unknown name, or an unclosed bracket.
pub fn resolve(text: &str, names: &impl Names) -> anyhow::Result<String> {
    let mut resolved = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        resolved.push_str(before);
        let (name, behind) = after.split_once('}').context("unclosed bracket")?;
        match names.look_up(name) {
            Some(value) => resolved.push_str(&value),
            None => bail!("unknown name {name} in the current state of the cluster"),
        }
        rest = behind;
    }
    resolved.push_str(rest);
    Ok(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_replaced_and_an_unknown_one_is_an_error() {
        let names = BTreeMap::from([("node.1".to_owned(), "n1".to_owned())]);
        assert_eq!(resolve("${node.1} and ${node.1}", &names).unwrap(), "n1 and n1");
        assert_eq!(resolve("nothing", &names).unwrap(), "nothing");
        assert!(resolve("${node.9}", &names).is_err());
        assert!(resolve("${node.1", &names).is_err());
    }
}
