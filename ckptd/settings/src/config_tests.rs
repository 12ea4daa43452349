//! Tests of reading and checking settings.

use super::*;
use crate::setting::Form;
use crate::settings_table::SETTINGS;

fn read(name: &str, value: &str) -> Result<Config, String> {
    Config::read(|variable| (variable == name).then(|| value.to_owned()))
}

#[test]
fn intervals_are_times_call_counts_or_off() {
    let interval = |text| read("UNDERSTUDY_INTERVAL", text).map(|config| config.interval);
    assert_eq!(interval("10s"), Ok(Interval::Time(Duration::from_secs(10))));
    assert_eq!(
        interval("0.5s"),
        Ok(Interval::Time(Duration::from_millis(500)))
    );
    assert_eq!(
        interval("250ms"),
        Ok(Interval::Time(Duration::from_millis(250)))
    );
    assert_eq!(interval("100calls"), Ok(Interval::Calls(100)));
    assert_eq!(interval("off"), Ok(Interval::Off));
    assert_eq!(interval("auto"), Ok(Interval::Auto));
    let mtbf = |text| read("UNDERSTUDY_MTBF", text).map(|config| config.mtbf);
    assert_eq!(mtbf("6h"), Ok(Duration::from_secs(6 * 3600)));
    assert!(mtbf("often").is_err_and(|why| why.starts_with("UNDERSTUDY_MTBF")));
    for wrong in [
        "10", "s", "0calls", "-1s", "0s", "1.5calls", "soon", "31d", "100y",
    ] {
        assert!(
            interval(wrong).unwrap_err().contains("UNDERSTUDY_INTERVAL"),
            "{wrong}"
        );
    }
}

#[test]
fn silent_nodes_are_waited_for_at_least_five_seconds() {
    let wait = |text| read("UNDERSTUDY_NODE_TIMEOUT", text).map(|config| config.node_timeout);
    assert_eq!(wait(""), Ok(DEFAULT_NODE_TIMEOUT));
    assert_eq!(wait("5s"), Ok(Duration::from_secs(5)));
    assert_eq!(wait("10m"), Ok(Duration::from_secs(600)));
    for wrong in ["4.9s", "0s", "60", "off"] {
        let refused = wait(wrong).unwrap_err();
        assert!(refused.contains("UNDERSTUDY_NODE_TIMEOUT"), "{refused}");
    }
}

#[test]
fn schemes_are_copies_or_parity() {
    let scheme = |text| read("UNDERSTUDY_COPIES", text).map(|config| config.scheme);
    assert_eq!(scheme("auto"), Ok(None));
    assert_eq!(scheme("1"), Ok(Some(Scheme::Copies(1))));
    assert_eq!(scheme("2"), Ok(Some(Scheme::Copies(2))));
    assert_eq!(scheme("xor:4"), Ok(Some(Scheme::Parity(4))));
    let both = |name: &str| match name {
        "UNDERSTUDY_COPIES" => Some("xor:4".to_owned()),
        "UNDERSTUDY_STATIC" => Some("replay".to_owned()),
        _ => None,
    };
    assert!(Config::read(both).is_err_and(|why| why.contains("UNDERSTUDY_STATIC=replay")));
    let auto = |name: &str| {
        if name == "UNDERSTUDY_STATIC" {
            Some("auto".to_owned())
        } else {
            both(name)
        }
    };
    assert!(Config::read(auto).is_ok());
    for wrong in [
        "0", "3", "xor", "xor:", "xor:1", "xor:0", "xor:-2", "xor:many",
    ] {
        assert!(
            scheme(wrong).unwrap_err().contains("UNDERSTUDY_COPIES"),
            "{wrong}"
        );
    }
}

#[test]
fn pages_are_shared_in_whole_copies_only() {
    let shared = |text| read("UNDERSTUDY_SHARED_PAGES", text).map(|config| config.shared_pages);
    assert_eq!(shared("auto"), Ok(SharedPages::Auto));
    assert_eq!(shared("1"), Ok(SharedPages::Always));
    assert_eq!(shared("0"), Ok(SharedPages::Never));
    assert!(shared("some").is_err_and(|why| why.contains("UNDERSTUDY_SHARED_PAGES")));
    let with_parity = |shared: &'static str| {
        Config::read(move |name| match name {
            "UNDERSTUDY_COPIES" => Some("xor:4".to_owned()),
            "UNDERSTUDY_SHARED_PAGES" => Some(shared.to_owned()),
            _ => None,
        })
    };
    assert!(with_parity("1").is_err_and(|why| why.contains("UNDERSTUDY_SHARED_PAGES=1")));
    assert!(with_parity("auto").is_ok());
}

#[test]
fn the_end_of_the_phase_has_a_rule() {
    let rule = |text| read("UNDERSTUDY_INIT_END", text).map(|config| config.init_end);
    assert_eq!(rule("auto"), Ok(InitEndRule::Auto));
    assert_eq!(
        rule("MPI_Allreduce#120"),
        Ok(InitEndRule::Calls("MPI_Allreduce".into(), 120))
    );
    assert_eq!(rule("pcontrol:1"), Ok(InitEndRule::Pcontrol(1)));
    assert_eq!(
        rule("function:main_loop"),
        Ok(InitEndRule::Function("main_loop".into()))
    );
    assert_eq!(
        rule("time:30s"),
        Ok(InitEndRule::Time(Duration::from_secs(30)))
    );
    for wrong in [
        "never",
        "MPI_Allreduce#0",
        "pcontrol:x",
        "function:",
        "time:3calls",
    ] {
        assert!(
            rule(wrong).unwrap_err().contains("UNDERSTUDY_INIT_END"),
            "{wrong}"
        );
    }
}

#[test]
fn a_rule_names_a_procedure_that_exists() {
    let checked =
        |text| read("UNDERSTUDY_INIT_END", text)?.check_procedures(|name| name == "MPI_Allreduce");
    assert_eq!(checked("MPI_Allreduce#3"), Ok(()));
    assert!(
        checked("MPI_Nothing#3")
            .unwrap_err()
            .contains("`MPI_Nothing` is not an MPI procedure")
    );
}

#[test]
fn workers_keep_each_others_copies() {
    let config = |name, value| read(name, value).expect("a value");
    for (copies, fewest) in [("2", 3), ("xor:4", 4)] {
        let config = config("UNDERSTUDY_COPIES", copies);
        assert!(
            config.check_workers(fewest).is_ok() && config.check_workers(fewest - 1).is_err(),
            "{copies}"
        );
    }
}

#[test]
fn files_that_settings_name_are_checked() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let checked = |name: &str| {
        read(name, &file.path().to_string_lossy()).and_then(|config| config.check_files())
    };
    std::fs::write(file.path(), "n1 left\nn2\n").expect("written");
    assert!(
        checked("UNDERSTUDY_DOMAIN")
            .unwrap_err()
            .contains("line 2 is not `host domain`")
    );
    std::fs::write(file.path(), "n1 left\n").expect("written");
    assert_eq!(checked("UNDERSTUDY_DOMAIN"), Ok(()));
    let missing =
        read("UNDERSTUDY_DOMAIN", "/nowhere/domains").and_then(|config| config.check_files());
    assert!(
        missing
            .unwrap_err()
            .starts_with("UNDERSTUDY_DOMAIN: /nowhere/domains: ")
    );
}

#[test]
fn static_data_on_disk_need_a_directory() {
    let why = read("UNDERSTUDY_STATIC", "disk").unwrap_err();
    assert!(why.contains("UNDERSTUDY_DISK"), "{why}");
    assert!(
        read("UNDERSTUDY_STATIC", "memory")
            .unwrap_err()
            .contains("`auto`")
    );
    let both = |name: &str| match name {
        "UNDERSTUDY_STATIC" => Some("disk".to_owned()),
        "UNDERSTUDY_DISK" => Some("epochs".to_owned()),
        _ => None,
    };
    assert_eq!(
        Config::read(both).map(|config| config.static_data),
        Ok(StaticData::Disk)
    );
}

#[test]
fn journals_have_a_limit() {
    let limit =
        |text| read("UNDERSTUDY_JOURNAL_LIMIT", text).map(|config| config.journal_limit.of(1000));
    assert_eq!(limit("25%"), Ok(4 << 20), "a small program");
    assert_eq!(
        read("UNDERSTUDY_JOURNAL_LIMIT", "25%").map(|config| config.journal_limit.of(1 << 30)),
        Ok(1 << 28)
    );
    assert_eq!(limit("2K"), Ok(2048));
    assert_eq!(limit("77"), Ok(77));
    for wrong in ["0", "-1%", "5X", "M", "%", "17179869184G"] {
        assert!(
            limit(wrong)
                .unwrap_err()
                .contains("UNDERSTUDY_JOURNAL_LIMIT"),
            "{wrong}"
        );
    }
}

#[test]
fn former_names_are_accepted_and_present_ones_win() {
    let events = |names: &[&str]| {
        let lookup = |name: &str| names.contains(&name).then(|| name.to_owned());
        Config::read(lookup).map(|config| config.event_directory)
    };
    let (present, former) = ("UNDERSTUDY_EVENTS", "UNDERSTUDY_LOG_DIR");
    for (names, expected) in [
        (&[former][..], former),
        (&[present], present),
        (&[former, present], present),
    ] {
        assert_eq!(events(names), Ok(Some(expected.into())));
    }
}

#[test]
fn every_setting_can_be_read() {
    let names = SETTINGS.iter().map(|setting| setting.variable);
    assert!(names.eq(VALUES.iter().map(|(name, _)| *name)));
}

#[test]
fn a_daemon_is_a_socket_here_or_an_address_in_numbers() {
    let daemon = |text| read("UNDERSTUDY_DAEMON", text).map(|config| config.daemon);
    assert_eq!(
        daemon("/run/ckptd"),
        Ok(Some(DaemonAddress::Local("/run/ckptd".into())))
    );
    let address = DaemonAddress::Remote(([10, 0, 0, 7], 4711).into());
    assert_eq!(daemon("tcp:10.0.0.7:4711"), Ok(Some(address)));
    for wrong in ["ckptd.socket", "tcp:node7:4711", "tcp:10.0.0.7", "tcp:"] {
        assert!(
            daemon(wrong).unwrap_err().contains("UNDERSTUDY_DAEMON"),
            "{wrong}"
        );
    }
}

#[test]
fn a_bad_value_names_its_variable() {
    assert!(
        read("UNDERSTUDY_SPARES", "two")
            .unwrap_err()
            .starts_with("UNDERSTUDY_SPARES: `two`")
    );
    assert!(
        read("UNDERSTUDY_BUDDY_OFFSET", "0")
            .unwrap_err()
            .contains("rank itself")
    );
    assert!(read("UNDERSTUDY_REQUIRE", "maybe").is_err());
    assert!(read("UNDERSTUDY_TRACKING", "magic").is_err());
}

/// No switch has the default 1, because its option sets the value 1.
#[test]
fn no_option_can_only_set_its_default() {
    let useless: Vec<&str> = SETTINGS
        .iter()
        .filter(|it| matches!(it.form, Form::Switch) && it.default == "1")
        .map(|it| it.variable)
        .collect();
    assert!(
        useless.is_empty(),
        "options with a value are needed: {useless:?}"
    );
}

#[test]
fn ports_are_a_range_without_port_0() {
    let ports = |text: &str| ports_of(|_| Some(text.to_owned()));
    assert_eq!(ports(""), Ok(0..=0));
    assert_eq!(ports("50000-50099"), Ok(50000..=50099));
    assert_eq!(ports("1-65535"), Ok(1..=65535));
    for wrong in ["50000", "0-9", "9-8", "1-65536", "-", "a-b", "1-2-3"] {
        let refused = ports(wrong).unwrap_err();
        assert!(refused.contains(wrong), "{refused}");
        assert_eq!(read("UNDERSTUDY_PORTS", wrong).err(), Some(refused));
    }
}
