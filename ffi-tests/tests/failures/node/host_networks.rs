//! Networks between hosts, which are namespaces of one machine.

use ffi_tests::namespace_hosts::Hosts;
use ffi_tests::{daemon_process, paths};

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
