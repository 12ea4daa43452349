//! Files that `make install` installs work from their place.
//!
//! The files for service managers, module systems and package builders are checked as far as their
//! tools are installed.

use ffi_tests::{Requirement, daemon_process, paths, skip};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// Files of an installation, relative to its prefix; not all of them.
const FILES: &[&str] = &[
    "bin/understudy",
    "bin/ckptd",
    "include/understudy.h",
    "lib/understudy/libunderstudy.so",
    "lib/understudy/libunderstudy_mpich.so",
    "lib/understudy/libunderstudy_debian.so",
    "lib/understudy/libunderstudy_standard.so",
    "lib/understudy/libunderstudy_fortran.so",
    "lib/understudy/libunderstudy_shim.so",
    "lib/understudy/libunderstudy_runtime.so",
    "lib/understudy/ckptd",
    "lib/systemd/user/ckptd.service",
    "share/doc/understudy/THIRD-PARTY",
    "share/man/man1/understudy-run.1",
    "share/man/man1/ckptd-serve.1",
    "share/bash-completion/completions/understudy",
    "share/zsh/site-functions/_understudy",
    "share/fish/vendor_completions.d/understudy.fish",
    "share/doc/understudy/README.md",
];

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"));
    assert!(
        output.status.success(),
        "{command:?} fails: {}",
        text(&output)
    );
    text(&output)
}

/// Returns a `make` command that uses the files that were built.
fn make(target: &str) -> Command {
    let mut release = paths::product("ckptd");
    release.pop();
    let mut make = Command::new("make");
    make.current_dir(paths::workspace()).args(["-s", target]);
    make.arg(format!("RELEASE={}", release.display()));
    make
}

/// Installs files for the prefix `prefix` below a directory (DESTDIR).
fn install(prefix: &str, below: &Path) {
    let mut install = make("install");
    install
        .arg(format!("PREFIX={prefix}"))
        .arg(format!("DESTDIR={}", below.display()));
    run(&mut install);
}

/// Installs into a prefix of this name in a temporary directory.
fn installed(name: &str) -> (TempDir, PathBuf) {
    let directory = daemon_process::private_directory();
    let prefix = directory.path().join(name);
    install(&prefix.to_string_lossy(), Path::new(""));
    (directory, prefix)
}

fn module_file(prefix: &Path) -> PathBuf {
    let directory = prefix.join("share/modulefiles/understudy");
    let mut files = std::fs::read_dir(directory).expect("module files are installed");
    files
        .next()
        .expect("there is a version")
        .expect("readable")
        .path()
}

fn assert_complete(prefix: &Path) {
    for file in FILES {
        // Packages compress man pages.
        let is_there = prefix.join(file).is_file() || prefix.join(format!("{file}.gz")).is_file();
        assert!(is_there, "{file} is missing");
    }
    let unit = prefix.join("lib/systemd/user/ckptd.service");
    let unit = std::fs::read_to_string(unit).expect("installed");
    let page = unit
        .lines()
        .find_map(|line| line.strip_prefix("Documentation=file:"));
    let (_, page) = page
        .and_then(|page| page.split_once("/share/"))
        .expect("a page");
    let page = prefix.join("share").join(page);
    let is_there = page.is_file() || page.with_extension("md.gz").is_file();
    assert!(is_there, "{} is missing", page.display());
}

/// Licences of linked crates require that their text is distributed with the files.
#[test]
fn the_notices_are_those_of_what_is_linked() {
    let notices = paths::workspace().join("packaging/notices.py");
    run(Command::new("python3").arg(notices).arg("--check"));
}

/// Only tests read mpi.h, by bindgen, which calls mpicc and needs libclang.
#[test]
fn the_build_needs_no_mpi_and_no_libclang() {
    let mut tree = Command::new(env!("CARGO"));
    tree.args("tree --workspace --exclude ffi-tests --edges normal,build --prefix none".split(' '));
    tree.args(["--locked", "--offline"])
        .current_dir(paths::workspace());
    let tree = run(&mut tree);
    assert!(
        tree.lines().any(|line| line.starts_with("bincode ")),
        "{tree}"
    );
    for name in ["bindgen ", "clang-sys ", "mpi-sys ", "build-probe-mpi "] {
        assert!(
            !tree.lines().any(|line| line.starts_with(name)),
            "{name}: {tree}"
        );
    }
}

/// Symbol tables would be a quarter of the bytes, and nothing reads them.
#[test]
fn installed_files_have_no_symbol_tables() {
    let (_directory, prefix) = installed("opt");
    for file in FILES
        .iter()
        .filter(|file| file.ends_with(".so") || file.ends_with("/ckptd"))
    {
        let sections = run(Command::new("readelf").args(["-SW"]).arg(prefix.join(file)));
        assert!(!sections.contains(".symtab"), "{file}: {sections}");
    }
}

/// Runs a job with a failure, and the daemon, from the files below a prefix.
fn assert_works(prefix: &Path, work: &Path) {
    paths::wait_for_turn();
    let mpirun = paths::mpirun();
    let path = mpirun
        .parent()
        .expect("mpirun is in a directory")
        .display()
        .to_string();
    let mut job = Command::new(prefix.join("bin/understudy"));
    job.args("run -n 2 --interval 20calls --fault".split(' '));
    job.args(["kill rank=1 at=commit.end epoch=3", "--"]);
    job.arg(paths::example("heat2d")).args(["60", "60", "200"]);
    job.current_dir(work).env("TMPDIR", work);
    job.env(
        "PATH",
        format!("{path}:{}", std::env::var("PATH").unwrap_or_default()),
    );
    job.env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    job.env("OMPI_MCA_mpi_yield_when_idle", "1")
        .env("OMPI_MCA_btl", "self,sm");
    let said = run(&mut job);
    assert!(said.contains("replaced by rank 2"), "{said}");
    assert!(said.contains("heat2d: done"), "{said}");
    let daemon = run(Command::new(prefix.join("bin/ckptd")).arg("--version"));
    assert!(daemon.starts_with("ckptd "), "{daemon}");
}

/// Files below a directory, with their sizes in bytes.
fn tree(directory: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).expect("readable").flatten() {
        let kind = entry.file_type().expect("readable");
        match kind.is_dir() {
            true => found.extend(tree(&entry.path())),
            false => found.push((
                entry.path(),
                entry.metadata().map_or(0, |about| about.len()),
            )),
        }
    }
    found
}

/// Upper limit of the size of an installation, in bytes.
const MAX_INSTALLED_BYTES: u64 = 30 << 20;

/// Fails unless the links of the installed documentation lead to installed files.
fn assert_links(documentation: &Path) {
    let link = regex::Regex::new(r"\]\(([^)#:]+)[)#]").expect("a pattern");
    for (file, _) in tree(documentation)
        .iter()
        .filter(|(file, _)| file.extension().is_some_and(|it| it == "md"))
    {
        let text = std::fs::read_to_string(file).expect("readable");
        for found in link.captures_iter(&text) {
            let place = file.with_file_name("").join(&found[1]);
            assert!(
                place.exists(),
                "{}: {} leads nowhere",
                file.display(),
                &found[1]
            );
        }
    }
}

#[test]
fn what_is_installed_is_small_and_can_be_removed() {
    let (_directory, prefix) = installed("opt");
    let size: u64 = tree(&prefix).iter().map(|(_, size)| size).sum();
    assert!(size < MAX_INSTALLED_BYTES, "{size} bytes");
    assert_links(&prefix.join("share/doc/understudy"));
    run(make("uninstall").arg(format!("PREFIX={}", prefix.display())));
    assert!(tree(&prefix).is_empty());
}

#[test]
fn an_installed_tree_runs_a_job_from_its_place() {
    let (directory, prefix) = installed("opt");
    assert_complete(&prefix);
    assert_works(&prefix, directory.path());
}

/// Jobs on one host are protected, and jobs on several hosts are refused.
///
/// LD_PRELOAD cannot contain the path: ld.so would split the path into two names, ignore both, and
/// preload nothing.
#[test]
#[ignore = "a variant: make test-all"]
fn a_path_with_a_blank_and_a_colon_can_be_preloaded() {
    let (directory, prefix) = installed("a b:c");
    assert_works(&prefix, directory.path());
    let mut doctor = Command::new(prefix.join("bin/understudy"));
    let said = text(&doctor.arg("doctor").output().expect("an executable"));
    assert!(
        said.contains("a blank or a colon") && said.contains("--library"),
        "{said}"
    );
    let mut several = Command::new(prefix.join("bin/understudy"));
    several.args("run -n 2 --host localhost:2,elsewhere --".split(' '));
    several.arg(paths::example("heat2d"));
    let refused = several
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .output();
    let refused = refused.expect("understudy is installed");
    let said = text(&refused);
    assert!(
        !refused.status.success() && said.contains("ld.so cannot preload"),
        "{said}"
    );
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_tree_for_packagers_names_its_later_place() {
    let directory = tempfile::tempdir().expect("there is room for temporary files");
    install("/usr", directory.path());
    let unit = std::fs::read_to_string(directory.path().join("usr/lib/systemd/user/ckptd.service"))
        .expect("installed");
    assert!(
        unit.contains("ExecStart=/usr/lib/understudy/ckptd serve\n"),
        "{unit}"
    );
    let module =
        std::fs::read_to_string(module_file(&directory.path().join("usr"))).expect("installed");
    assert!(
        module.contains("set prefix /usr\n") && !module.contains('@'),
        "{module}"
    );
}

#[test]
fn the_unit_is_one_that_systemd_takes() {
    let Some(analyze) = paths::on_path("systemd-analyze") else {
        return skip(Requirement::Tools, "there is no systemd-analyze");
    };
    let (directory, prefix) = installed("opt");
    let unit = prefix.join("lib/systemd/user/ckptd.service");
    let mut verify = Command::new(analyze);
    verify.args(["--user", "verify"]).arg(unit);
    run(verify.env("XDG_RUNTIME_DIR", directory.path()));
}

/// Runs a module file, which is written in Tcl.
///
/// The script replaces the commands of Environment Modules, which need not be installed.
const TCL_SCRIPT: &str = r#"
foreach command {module-whatis conflict} { proc $command {args} {} }
proc prepend-path {name value} { puts "$name=$value" }
proc setenv {name value} { puts "$name=$value" }
source [lindex $argv 0]
"#;

#[test]
fn the_module_file_sets_paths() {
    let Some(tclsh) = paths::on_path("tclsh") else {
        return skip(Requirement::Tools, "there is no tclsh");
    };
    let (directory, prefix) = installed("opt");
    let script = directory.path().join("stand-in.tcl");
    std::fs::write(&script, TCL_SCRIPT).expect("the directory is ours");
    let said = run(Command::new(tclsh).arg(script).arg(module_file(&prefix)));
    let name = prefix.display();
    for wanted in [
        format!("PATH={name}/bin"),
        format!("MANPATH={name}/share/man"),
        format!("UNDERSTUDY_LIBRARY={name}/lib/understudy/libunderstudy.so"),
    ] {
        assert!(
            said.lines().any(|line| line == wanted),
            "{wanted} is not in {said}"
        );
    }
}

/// Commands of a user's shell on a cluster.
const MODULES: &str = r#"
set -eu
module() { eval "$("$MODULECMD" bash "$@")"; }
module use "$PREFIX/share/modulefiles"
module load understudy
command -v understudy
printf '%s\n' "$UNDERSTUDY_LIBRARY"
man -w understudy-run 2>/dev/null || echo "$PREFIX/share/man/man1/understudy-run.1"
module help understudy 2>&1 | grep -o 'understudy run'
module unload understudy
command -v understudy || echo gone
printf '%s\n' "${UNDERSTUDY_LIBRARY-gone}"
"#;

#[test]
fn environment_modules_load_and_unload_it() {
    let Some(modulecmd) = paths::on_path("modulecmd") else {
        return skip(
            Requirement::Tools,
            "there is no modulecmd (Debian: apt-get install environment-modules)",
        );
    };
    let (_directory, prefix) = installed("opt");
    let mut shell = Command::new("bash");
    shell.args(["-c", MODULES]).env_clear();
    shell.env("PATH", "/usr/bin:/bin").env("HOME", &prefix);
    let said = run(shell.env("MODULECMD", modulecmd).env("PREFIX", &prefix));
    let place = |file: &str| prefix.join(file).display().to_string();
    let wanted = [
        place("bin/understudy"),
        place("lib/understudy/libunderstudy.so"),
        place("share/man/man1/understudy-run.1"),
        "understudy run".to_owned(),
        "gone".to_owned(),
        "gone".to_owned(),
    ];
    assert_eq!(said.lines().collect::<Vec<_>>(), wanted);
}

/// Replacement for the names of Spack that the recipe uses (Spack 1.0 and later).
const SPACK: &str = r#"
import sys, types
class MakefilePackage: pass
names = {name: (lambda *a, **k: None) for name in "license version depends_on conflicts requires which make".split()}
def module(name, **content):
    sys.modules[name] = types.ModuleType(name); sys.modules[name].__dict__.update(content)
for name in ["spack", "spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems"]: module(name)
module("spack.package", **names)
module("spack_repo.builtin.build_systems.makefile", MakefilePackage=MakefilePackage)
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), globals := {})
print(*[name for name in ("build", "install", "setup_run_environment") if hasattr(globals["Understudy"], name)])
"#;

const RECIPES: &str = "packaging/spack/spack_repo/understudy";

#[test]
fn the_recipe_for_spack_can_be_read() {
    let Some(python) = paths::on_path("python3") else {
        return skip(Requirement::Tools, "there is no python3");
    };
    let recipe = paths::workspace()
        .join(RECIPES)
        .join("packages/understudy/package.py");
    let said = run(Command::new(python).args(["-c", SPACK]).arg(recipe));
    assert_eq!(said.trim(), "build install setup_run_environment");
}

/// Path of cargo-deb: that of `make deb`, or one of the PATH.
fn cargo_deb() -> Option<PathBuf> {
    let own = paths::workspace().join("build/tools/bin/cargo-deb");
    if own.is_file() {
        Some(own)
    } else {
        paths::on_path("cargo-deb")
    }
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_debian_package_runs_a_job() {
    let (Some(cargo_deb), Some(dpkg_deb)) = (cargo_deb(), paths::on_path("dpkg-deb")) else {
        return skip(
            Requirement::Tools,
            "there is no cargo-deb (`make deb` installs it for this directory) or no dpkg-deb",
        );
    };
    let directory = daemon_process::private_directory();
    let (package, root) = (
        directory.path().join("understudy.deb"),
        directory.path().join("root"),
    );
    run(&mut make("deb-tree"));
    let mut deb = Command::new(cargo_deb);
    deb.current_dir(paths::workspace())
        .args(["-p", "ckptd", "--no-build", "--fast", "-o"]);
    run(deb.arg(&package));
    let about = run(Command::new(&dpkg_deb).arg("--info").arg(&package));
    assert!(
        about.contains("Package: understudy\n") && about.contains("Depends: libc6 "),
        "{about}"
    );
    run(Command::new(&dpkg_deb).arg("-x").arg(&package).arg(&root));
    assert_complete(&root.join("usr"));
    let link = std::fs::read_link(root.join("usr/bin/ckptd")).expect("a link");
    assert_eq!(link, Path::new("../lib/understudy/ckptd"));
    assert_works(&root.join("usr"), directory.path());
}
