//! Checks the structure of the workspace: permitted dependencies between crates, and that the top-level modules of a
//! crate import each other in one direction.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod arrows;
mod circles;
mod modules;
mod workspace;

use std::{fmt::Write as _, fs};

use crate::{circles::cycles, modules::imports, workspace::packages};

#[test]
fn the_modules_of_a_crate_import_each_other_in_one_direction() {
    let mut wrong = String::new();
    for package in packages() {
        let mut found = 0;
        let mut text = String::new();
        for root in &package.roots {
            let imports = imports(root);
            for cycle in cycles(&imports) {
                found += cycle.len();
                text += &circles::describe(&cycle, &imports);
            }
        }
        if found > 0 {
            writeln!(
                wrong,
                "{}: {found} modules in import cycles\n{text}",
                package.name
            )
            .unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn a_circle_is_found_with_its_arrows_files_and_names() {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| fs::write(folder.path().join(path), text).unwrap();
    fs::create_dir(folder.path().join("a")).unwrap();
    write("lib.rs", "mod a; mod b; mod c; mod d;");
    write("a.rs", "mod inner; use crate::b::{self, Thing as Other};");
    write("a/inner.rs", "pub struct Inner;");
    write("b.rs", "fn f() { println!(\"{}\", crate::c::value()); }");
    write(
        "c.rs",
        "mod deep { fn g() { let _ = super::super::a::inner::Inner; } }",
    );
    write("d.rs", "use super::a;");
    let imports = imports(&folder.path().join("lib.rs"));
    let found = cycles(&imports);
    assert_eq!(found, [["a", "b", "c"].map(str::to_owned).to_vec()]);
    let text = circles::describe(&found[0], &imports);
    for arrow in [
        "a -> b: a.rs (Thing, b)",
        "b -> c: b.rs (value)",
        "c -> a: c.rs (Inner)",
    ] {
        assert!(text.contains(arrow), "{arrow} is not in\n{text}");
    }
}

#[test]
fn imports_in_one_direction_and_those_of_tests_are_no_circle() {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| fs::write(folder.path().join(path), text).unwrap();
    write(
        "lib.rs",
        "mod a; mod b; #[cfg(test)] mod fixtures; pub use a::A; pub use b::B;",
    );
    write("a.rs", "use crate::b::B; pub struct A(B);");
    write(
        "b.rs",
        "pub(in crate::a) struct B; #[cfg(test)] #[path = \"b_tests.rs\"] mod tests; \
         #[cfg(any(test, feature = \"x\"))] use crate::a::A; impl B { #[cfg(test)] fn f(_: crate::a::A) {} }",
    );
    write("b_tests.rs", "use crate::a::A;");
    write("fixtures.rs", "use crate::a::A;");
    assert!(cycles(&imports(&folder.path().join("lib.rs"))).is_empty());
}
