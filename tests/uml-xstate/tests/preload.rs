//! The library in a program that sets a child's registers, on the real kernel: every machine rejects an area shorter
//! than its own. Needs a C compiler, as does the workspace.
#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test fails")]

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    slice,
};

use tempfile::TempDir;
use uml_xstate::{LIBRARY, UML_AREA, host_area};

/// Legacy region and header: the shortest area that can be extended.
const SHORTEST: usize = 576;

/// The compiled helpers, deleted with the directory.
struct CompiledHelpers(TempDir);

impl CompiledHelpers {
    fn compile() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let build = |source: &str, output: &str, more: &[&str]| {
            let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
            let status = Command::new(&compiler)
                .args(["-O1", "-Wall", "-Wextra", "-Werror"])
                .args(more)
                .arg("-o")
                .arg(folder.path().join(output))
                .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(source))
                .status();
            assert!(status.unwrap().success(), "{compiler} {source}");
        };
        build("traced_child.c", "traced_child", &[]);
        build("large_area.c", "large_area.so", &["-shared", "-fPIC"]);
        Self(folder)
    }

    fn large_area(&self) -> PathBuf {
        self.0.path().join("large_area.so")
    }

    /// Runs `traced_child` with these libraries preloaded and returns its output.
    fn run(&self, preloaded: &[PathBuf], arguments: &[&str]) -> String {
        let output = Command::new(self.0.path().join("traced_child"))
            .args(arguments)
            .env("LD_PRELOAD", env::join_paths(preloaded).unwrap())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && errors.is_empty(), "{errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn area(&self, preloaded: &[PathBuf], length: usize) -> String {
        self.run(preloaded, &["area", &length.to_string()])
    }
}

/// Returns the path of cargo's build for this test.
fn library() -> PathBuf {
    let library = env::current_exe().unwrap().with_file_name(LIBRARY);
    assert!(library.is_file(), "{}", library.display());
    library
}

/// Returns the bits of the components that the child had afterwards.
fn components(line: &str) -> u64 {
    let bits = line.split("components 0x").nth(1).unwrap();
    u64::from_str_radix(bits.split(',').next().unwrap(), 16).unwrap()
}

#[test]
fn the_kernel_refuses_a_short_area_and_takes_it_with_the_library() {
    assert!(
        host_area() > SHORTEST,
        "a CPU without AVX cannot run this test: its areas have {} bytes",
        host_area()
    );
    let helpers = CompiledHelpers::compile();
    assert_eq!(helpers.area(&[], SHORTEST), "576: errno 14, xmm0 as it was\n");
    let extended = helpers.area(&[library()], SHORTEST);
    assert!(extended.starts_with("576: length 576, "), "{extended}");
    assert!(extended.ends_with("xmm0 as set\n"), "{extended}");
    assert_eq!(
        components(&extended),
        0b11,
        "components beyond the area are initial"
    );
}

#[test]
fn all_else_is_answered_as_without_the_library() {
    let helpers = CompiledHelpers::compile();
    let whole = host_area();
    // Long enough, longer, without a complete header, not a multiple of 8, empty.
    for length in [whole, whole + 8, 65_536, SHORTEST - 8, SHORTEST - 4, 0] {
        let with = helpers.area(&[library()], length);
        assert_eq!(with, helpers.area(&[], length));
        assert_eq!(with.contains("as set"), length >= whole, "{with}");
    }
}

#[test]
fn a_register_of_minus_one_is_no_error() {
    let helpers = CompiledHelpers::compile();
    assert_eq!(helpers.run(&[], &["peek"]), "-1, errno 0\n");
    assert_eq!(helpers.run(&[library()], &["peek"]), "-1, errno 0\n");
}

#[test]
fn a_kernel_with_amx_refuses_the_buffer_of_user_mode_linux_and_takes_it_with_the_library() {
    let helpers = CompiledHelpers::compile();
    let amx = helpers.large_area();
    let refused = format!("{UML_AREA}: errno 14, xmm0 as it was\n");
    assert_eq!(helpers.area(slice::from_ref(&amx), UML_AREA), refused);
    let extended = helpers.area(&[library(), amx], UML_AREA);
    let accepted = format!("{UML_AREA}: length {UML_AREA}, ");
    assert!(extended.starts_with(&accepted), "{extended}");
    assert!(extended.ends_with("xmm0 as set\n"), "{extended}");
}

#[test]
fn one_process_may_set_areas_of_several_lengths() {
    let helpers = CompiledHelpers::compile();
    let lengths = ["576", "2696", "576", "11008", "640"];
    let arguments: Vec<&str> = ["area"].into_iter().chain(lengths).collect();
    let printed = helpers.run(&[library()], &arguments);
    assert_eq!(printed.lines().count(), lengths.len(), "{printed}");
    assert!(printed.lines().all(|line| line.ends_with("as set")), "{printed}");
}
