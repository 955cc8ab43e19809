//! Inserts one path into an existing Ingress that serves other traffic, and removes it. Pure: rules in, rules out;
//! the caller guards each write by the resourceVersion that it read.
//!
//! As in cert-manager's edit in place, the path comes first in the rule of the host, or in a new rule. The path is
//! identified by the name of its Service, which is the preflight's; everything else in the Ingress stays unchanged.

use serde_json::{Value, json};

/// Prefix of the names of all objects that preflights create.
pub const NAME_PREFIX: &str = "parallax-preflight-";

/// Returns the rules with the path inserted, or `None` if they already contain it.
///
/// # Errors
/// The host's rule has no paths: all of its traffic goes to the default backend, which a path would change.
pub fn insert_path(ingress: &Value, host: &str, path: &Value) -> Result<Option<Value>, String> {
    let mut rules = rules(ingress);
    let backend = backend_service(path);
    if backend.is_some() && all_paths(&rules).any(|other| backend_service(other) == backend) {
        return Ok(None);
    }
    match rules.iter_mut().find(|rule| rule["host"] == host) {
        Some(rule) => {
            let paths = rule.pointer_mut("/http/paths").and_then(Value::as_array_mut);
            let paths = paths.filter(|paths| !paths.is_empty());
            let Some(paths) = paths else {
                return Err(format!(
                    "its rule for {host} has no paths, so all requests for that host go to the default backend; a path would change that for all clients"
                ));
            };
            paths.insert(0, path.clone());
        }
        None => rules.push(json!({"host": host, "http": {"paths": [path]}})),
    }
    Ok(Some(Value::Array(rules)))
}

/// Returns the rules without the path of one preflight, or `None` if they do not contain it. A rule that contains
/// no other path was created for the preflight and is removed as well.
#[must_use]
pub fn remove_path(ingress: &Value, preflight: &str) -> Option<Value> {
    let mut rules = rules(ingress);
    let own = |path: &Value| backend_service(path) == Some(preflight);
    if !all_paths(&rules).any(own) {
        return None;
    }
    rules.retain_mut(|rule| {
        let Some(paths) = rule.pointer_mut("/http/paths").and_then(Value::as_array_mut) else {
            return true;
        };
        let before = paths.len();
        paths.retain(|path| !own(path));
        !paths.is_empty() || before == 0
    });
    Some(Value::Array(rules))
}

/// Returns the preflights whose paths the Ingress contains.
#[must_use]
pub fn preflights_with_path(ingress: &Value) -> Vec<String> {
    let rules = rules(ingress);
    let challenge = |path: &&Value| {
        path["path"]
            .as_str()
            .is_some_and(|path| path.starts_with(parallax_model::CHALLENGE_PATH))
    };
    let mut found: Vec<String> = all_paths(&rules)
        .filter(challenge)
        .filter_map(backend_service)
        .filter(|name| name.starts_with(NAME_PREFIX))
        .map(ToOwned::to_owned)
        .collect();
    found.dedup();
    found
}

fn rules(ingress: &Value) -> Vec<Value> {
    ingress["spec"]["rules"].as_array().cloned().unwrap_or_default()
}

fn all_paths(rules: &[Value]) -> impl Iterator<Item = &Value> {
    rules
        .iter()
        .flat_map(|rule| rule["http"]["paths"].as_array().into_iter().flatten())
}

fn backend_service(path: &Value) -> Option<&str> {
    path["backend"]["service"]["name"].as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(service: &str) -> Value {
        json!({"path": "/.well-known/acme-challenge/t", "pathType": "Exact", "backend": {"service": {"name": service, "port": {"number": 8089}}}})
    }

    #[expect(clippy::needless_pass_by_value, reason = "reads as an object")]
    fn ingress(rules: Value) -> Value {
        json!({"spec": {"ingressClassName": "nginx", "rules": rules}})
    }

    fn shop() -> Value {
        json!({"host": "shop.example.test", "http": {"paths": [{"path": "/", "backend": {"service": {"name": "web"}}}]}})
    }

    #[test]
    fn the_path_comes_first_in_its_hosts_rule_or_in_a_rule_of_its_own_and_goes_without_a_trace() {
        let own = path("parallax-preflight-1");
        for (host, place) in [("shop.example.test", 0), ("new.example.test", 1)] {
            let before = ingress(json!([shop()]));
            let rules = insert_path(&before, host, &own).unwrap().unwrap();
            assert_eq!(rules[place]["http"]["paths"][0], own, "{host}");
            let edited = ingress(rules);
            assert_eq!(
                insert_path(&edited, host, &own),
                Ok(None),
                "it is not added twice"
            );
            assert_eq!(preflights_with_path(&edited), ["parallax-preflight-1"]);
            assert_eq!(
                remove_path(&edited, "parallax-preflight-1").unwrap(),
                before["spec"]["rules"]
            );
        }
        let empty = json!({"spec": {"defaultBackend": {}}});
        let edited = ingress(insert_path(&empty, "shop.example.test", &own).unwrap().unwrap());
        assert_eq!(remove_path(&edited, "parallax-preflight-1"), Some(json!([])));
    }

    #[test]
    fn what_others_changed_meanwhile_stays() {
        let mut rules = insert_path(
            &ingress(json!([shop()])),
            "shop.example.test",
            &path("parallax-preflight-1"),
        )
        .unwrap()
        .unwrap();
        rules[0]["http"]["paths"]
            .as_array_mut()
            .unwrap()
            .insert(0, path("cm-acme-http-solver-x"));
        rules
            .as_array_mut()
            .unwrap()
            .insert(0, json!({"host": "b.example.test"}));
        let edited = remove_path(&ingress(rules), "parallax-preflight-1").unwrap();
        assert_eq!(edited[0], json!({"host": "b.example.test"}));
        assert_eq!(edited[1]["http"]["paths"].as_array().unwrap().len(), 2);
        assert_eq!(remove_path(&ingress(edited), "parallax-preflight-1"), None);
    }

    #[test]
    fn a_rule_without_paths_is_not_given_one_and_paths_of_others_are_not_taken_for_ours() {
        let bare = ingress(json!([{"host": "shop.example.test"}]));
        let error = insert_path(&bare, "shop.example.test", &path("parallax-preflight-1")).unwrap_err();
        assert!(error.contains("default backend"), "{error}");
        let mut other_path = path("parallax-preflight-1");
        other_path["path"] = "/shop".into();
        let others =
            ingress(json!([{"host": "a", "http": {"paths": [path("cm-acme-http-solver-x"), other_path]}}]));
        assert_eq!(preflights_with_path(&others), Vec::<String>::new());
    }
}
