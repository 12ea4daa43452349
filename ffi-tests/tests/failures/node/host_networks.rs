//! Networks between hosts, which are namespaces of one machine.

use super::hosts::{assert_good, spread};
use ffi_tests::namespace_hosts::{Hosts, Network};
use ffi_tests::native_runs::native;
use ffi_tests::{Launcher, Trigger, Verdicts, daemon_process, paths, programs, variants};

/// Other hosts connect to two ports of the first host: the leader's and the daemon's.
#[test]
fn a_job_without_a_free_port_names_the_range() {
    if !Hosts::are_possible() {
        return;
    }
    let hosts = Hosts::new(&[1, 2]).expect("possible");
    // By default, a socket at `::` excludes IPv4 on this host.
    let exclude = "echo 1 > /proc/sys/net/ipv6/bindv6only";
    let excluded = hosts.on(0, &["sh", "-c", exclude]).status();
    assert!(excluded.is_ok_and(|status| status.success()));
    let work = daemon_process::private_directory();
    paths::wait_for_turn();
    let heat = paths::example("heat2d").to_string_lossy().into_owned();
    for (ports, expected) in [
        (
            "50001-50000",
            "--ports: `50001-50000` is not a range of ports",
        ),
        (
            "50000-50000",
            "at a port from 50000 to 50000 (UNDERSTUDY_PORTS)",
        ),
        ("50000-50001", ""),
    ] {
        let options = ["-n", "2", "--spares", "1", "--events", "events", "--ports"];
        let program = [ports, "--", &heat, "20", "20", "10", "heat.field"];
        let options = [&options[..], &program].concat();
        let output = hosts.run(work.path(), &options).output().expect("nsenter");
        let said = String::from_utf8_lossy(&output.stderr);
        println!("{ports}: {}: {said}", output.status);
        assert_eq!(output.status.success(), expected.is_empty());
        assert!(said.contains(expected));
    }
}

#[test]
fn a_host_with_ipv6_only_may_be_lost() {
    if !Hosts::are_possible() {
        return;
    }
    let case = programs::short_heat2d();
    let undisturbed = native(spread(case.job()));
    let job = spread(case.job())
        .launched_by(Launcher::Ckptd)
        .network(Network::IPV6);
    let outcome = job.lose_host(Trigger::Lines(15), 1).run();
    assert_good(&outcome, &undisturbed, &case, &[2, 3]);
}

/// `understudy run` finds this host by its address, and the daemon listens at an IPv6 address.
#[test]
fn hosts_may_be_named_by_ipv6_addresses() {
    if !Hosts::are_possible() {
        return;
    }
    let hosts = Hosts::on_network(&[1, 2], Network::IPV6).expect("possible");
    // The agent starts commands on hosts for which there is a file.
    let file = |name: &str| hosts.directory().join(name);
    std::fs::copy(file(&hosts.name(1)), file("fd77::2")).expect("the directory is writable");
    let work = daemon_process::private_directory();
    paths::wait_for_turn();
    let mut command = hosts.enter_at(work.path());
    command
        .arg(paths::product("understudy"))
        .args(["run", "--agent"])
        .arg(hosts.agent());
    command.args([
        "--host",
        "[fd77::1]:1,[fd77::2]:2",
        "-n",
        "2",
        "--spares",
        "1",
    ]);
    command.args(["--events", "events", "--fault", "kill rank=1 at=call:300"]);
    command
        .args(["--interval", "60calls", "--"])
        .arg(paths::example("heat2d"));
    let output = command
        .args(["200", "200", "300", "heat.field"])
        .output()
        .expect("nsenter");
    let said = String::from_utf8_lossy(&output.stderr);
    println!("{}: {said}", output.status);
    assert!(output.status.success());
    assert!(!said.contains("no daemon") && said.contains("; replaced by "));
}

/// The hosts cannot use the network that their names stand for; another network joins them.
#[test]
fn hosts_connect_by_a_network_that_answers() {
    if !Hosts::are_possible() {
        return;
    }
    let case = programs::short_heat2d();
    let undisturbed = native(spread(case.job()));
    let mut verdicts = Verdicts::default();
    for launcher in variants([Launcher::Mpirun, Launcher::Ckptd], 1) {
        let job = spread(case.job()).launched_by(launcher).interval("60calls");
        let job = job.network(Network::WRONG_NAMES);
        let outcome = job.fault("kill rank=2 at=call:300").run();
        verdicts.judge(&format!("{launcher:?}"), || {
            assert_good(&outcome, &undisturbed, &case, &[2])
        });
    }
    verdicts.assert_all_good();
}
