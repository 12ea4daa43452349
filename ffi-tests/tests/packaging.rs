//! What `make install` installs works from its place; the files for service managers, module systems and package builders are good, as far as their tools
//! are here.

use ffi_tests::{daemon, place};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const FILES: &[&str] = &[
    "bin/understudy",
    "bin/ckptd",
    "lib/understudy/libunderstudy.so",
    "lib/understudy/libunderstudy_shim.so",
    "lib/understudy/libunderstudy_runtime.so",
    "lib/understudy/ckptd",
    "lib/systemd/user/ckptd.service",
    "share/man/man1/understudy-run.1",
    "share/bash-completion/completions/understudy",
    "share/doc/understudy/guide.md",
];

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", text(&output));
    text(&output)
}

/// Installs what was built, for a prefix, below a directory.
fn install(prefix: &str, below: &Path) {
    let mut release = place::product("ckptd");
    release.pop();
    let mut make = Command::new("make");
    make.current_dir(place::workspace()).args(["-s", "install"]);
    make.arg(format!("PREFIX={prefix}"))
        .arg(format!("DESTDIR={}", below.display()));
    make.arg(format!("RELEASE={}", release.display()));
    run(&mut make);
}

/// Installed in a prefix that is a temporary directory.
fn installed() -> (TempDir, PathBuf) {
    let directory = daemon::private_directory();
    let prefix = directory.path().join("opt");
    install(&prefix.to_string_lossy(), Path::new(""));
    (directory, prefix)
}

fn module_file(prefix: &Path) -> PathBuf {
    let directory = prefix.join("share/modulefiles/understudy");
    let mut files = std::fs::read_dir(directory).expect("it is installed");
    files.next().expect("there is a version").expect("readable").path()
}

#[test]
fn an_installed_tree_runs_a_job_from_its_place() {
    let (directory, prefix) = installed();
    for file in FILES {
        assert!(prefix.join(file).is_file(), "{file} is missing");
    }
    let _turn = place::turn();
    let mpirun = place::mpirun();
    let path = mpirun.parent().expect("it has a directory").display().to_string();
    let job = |program: &mut Command| {
        program.current_dir(directory.path()).env("TMPDIR", directory.path());
        program.env("PATH", format!("{path}:{}", std::env::var("PATH").unwrap_or_default()));
        program
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        program
            .env("OMPI_MCA_mpi_yield_when_idle", "1")
            .env("OMPI_MCA_btl", "self,sm");
        run(program)
    };
    let heat = place::example("heat2d");
    let mut under = Command::new(prefix.join("bin/understudy"));
    under.args([
        "run",
        "-n",
        "2",
        "--interval",
        "20calls",
        "--fault",
        "kill rank=1 at=commit.end epoch=3",
        "--",
    ]);
    let said = job(under.arg(&heat).args(["60", "60", "200"]));
    assert!(said.contains("spare rank 2 has taken its part"), "{said}");
    assert!(said.contains("heat2d: done"), "{said}");
    // The daemon, too, through its link.
    let second = run(Command::new(prefix.join("bin/ckptd")).arg("--version"));
    assert!(second.starts_with("ckptd "), "{second}");
}

#[test]
fn a_tree_for_packagers_names_its_later_place() {
    let directory = tempfile::tempdir().expect("there is room for temporary files");
    install("/usr", directory.path());
    let unit = std::fs::read_to_string(directory.path().join("usr/lib/systemd/user/ckptd.service")).expect("installed");
    assert!(unit.contains("ExecStart=/usr/lib/understudy/ckptd serve\n"), "{unit}");
    let module = std::fs::read_to_string(module_file(&directory.path().join("usr"))).expect("installed");
    assert!(
        module.contains("set prefix /usr\n") && !module.contains('@'),
        "{module}"
    );
}

#[test]
fn the_unit_is_one_that_systemd_takes() {
    let Some(analyze) = place::on_path("systemd-analyze") else {
        return place::skip("there is no systemd-analyze");
    };
    let (directory, prefix) = installed();
    let unit = prefix.join("lib/systemd/user/ckptd.service");
    let mut verify = Command::new(analyze);
    verify.args(["--user", "verify"]).arg(unit);
    run(verify.env("XDG_RUNTIME_DIR", directory.path()));
}

/// Tcl is what module files are written in; without Environment Modules its commands are stood in for.
const STAND_IN: &str = r#"
foreach command {module-whatis conflict} { proc $command {args} {} }
proc prepend-path {name value} { puts "$name=$value" }
proc setenv {name value} { puts "$name=$value" }
source [lindex $argv 0]
"#;

#[test]
fn the_module_file_sets_paths() {
    let (directory, prefix) = installed();
    let (module, name) = (module_file(&prefix), prefix.display().to_string());
    let said =
        if Path::new("/usr/lib/x86_64-linux-gnu/modulecmd.tcl").is_file() || place::on_path("modulecmd").is_some() {
            let mut command = match place::on_path("modulecmd") {
                Some(modulecmd) => Command::new(modulecmd),
                None => {
                    let mut tcl = Command::new("tclsh");
                    tcl.arg("/usr/lib/x86_64-linux-gnu/modulecmd.tcl");
                    tcl
                }
            };
            let path = prefix.join("share/modulefiles");
            run(command.args(["bash", "load", "understudy"]).env("MODULEPATH", path))
        } else if let Some(tclsh) = place::on_path("tclsh") {
            let script = directory.path().join("stand-in.tcl");
            std::fs::write(&script, STAND_IN).expect("the directory is ours");
            run(Command::new(tclsh).arg(script).arg(&module))
        } else {
            return place::skip("there is neither Environment Modules nor tclsh");
        };
    for wanted in [
        format!("{name}/bin"),
        format!("{name}/share/man"),
        format!("UNDERSTUDY_LIBRARY={name}/lib/understudy/libunderstudy.so"),
    ] {
        assert!(said.contains(&wanted), "{wanted} is not in {said}");
    }
}

/// Spack's own names, as far as the recipe uses them.
const SPACK: &str = r#"
import sys, types
class MakefilePackage: pass
names = {name: (lambda *a, **k: None) for name in "license version depends_on conflicts requires which make".split()}
module = types.ModuleType("spack.package"); module.__dict__.update(names, MakefilePackage=MakefilePackage)
sys.modules["spack"] = types.ModuleType("spack"); sys.modules["spack.package"] = module
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), globals := {})
print(*[name for name in ("build", "install", "setup_run_environment") if hasattr(globals["Understudy"], name)])
"#;

#[test]
fn the_recipe_for_spack_can_be_read() {
    let Some(python) = place::on_path("python3") else {
        return place::skip("there is no python3");
    };
    let recipe = place::workspace().join("packaging/spack/understudy/package.py");
    let said = run(Command::new(python).args(["-c", SPACK]).arg(recipe));
    assert_eq!(said.trim(), "build install setup_run_environment");
}

#[test]
fn a_debian_package_has_the_same_files() {
    if place::on_path("cargo-deb").is_none() || place::on_path("dpkg-deb").is_none() {
        return place::skip("there is no cargo-deb");
    }
    let directory = tempfile::tempdir().expect("there is room for temporary files");
    let tree = place::workspace().join("build/debian");
    install("/usr", &tree);
    let package = directory.path().join("understudy.deb");
    let mut deb = Command::new("cargo");
    deb.current_dir(place::workspace())
        .args(["deb", "-p", "ckptd", "--no-build", "--no-strip", "-o"]);
    run(deb.arg(&package));
    let list = run(Command::new("dpkg-deb").arg("--contents").arg(&package));
    for file in FILES {
        assert!(list.contains(&format!("./usr/{file}")), "{file} is not in {list}");
    }
}
