//! Cycles in the imports between modules.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use crate::modules::Imports;

/// Returns the sets of modules that import each other, each in alphabetical order.
pub(crate) fn cycles(imports: &Imports) -> Vec<Vec<String>> {
    let closure: BTreeMap<&str, BTreeSet<&str>> = imports
        .keys()
        .map(|module| (module.as_str(), reachable(module, imports)))
        .collect();
    let reaches = |from: &str, to: &str| closure.get(from).is_some_and(|all| all.contains(to));
    let mut done = BTreeSet::new();
    let mut circles = Vec::new();
    for module in imports.keys() {
        if !reaches(module, module) || done.contains(module.as_str()) {
            continue;
        }
        let cycle: Vec<String> = imports
            .keys()
            .filter(|other| reaches(module, other) && reaches(other, module))
            .cloned()
            .collect();
        done.extend(cycle.iter().cloned());
        circles.push(cycle);
    }
    circles
}

fn reachable<'a>(from: &str, imports: &'a Imports) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        for next in imports.get(module).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(next.as_str()) {
                open.push(next);
            }
        }
    }
    reached
}

/// Describes the imports within a cycle, each with the importing files and the imported names.
pub(crate) fn describe(cycle: &[String], imports: &Imports) -> String {
    let mut text = format!("cycle of {} modules\n", cycle.len());
    for from in cycle {
        for (to, files) in imports[from].iter().filter(|(to, _)| cycle.contains(to)) {
            let files: Vec<_> = files
                .iter()
                .map(|(file, names)| {
                    let names: Vec<_> = names.iter().map(String::as_str).collect();
                    format!("{file} ({})", names.join(", "))
                })
                .collect();
            writeln!(text, "  {from} -> {to}: {}", files.join(", ")).unwrap();
        }
    }
    text
}
