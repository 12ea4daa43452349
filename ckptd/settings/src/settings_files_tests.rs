use super::*;

fn values(text: &str) -> Result<FileValues, String> {
    parse(Path::new("/etc/f"), text)
}

#[test]
fn a_file_has_settings_comments_and_empty_lines() {
    let read =
        values("# a comment\n\n  interval = 30s\nfault=kill rank=1 at=commit.end\n").unwrap();
    let interval = FileValue {
        value: "30s".into(),
        place: "/etc/f:3".into(),
    };
    assert_eq!(read["UNDERSTUDY_INTERVAL"], interval);
    assert_eq!(read["UNDERSTUDY_FAULT"].value, "kill rank=1 at=commit.end");
    assert_eq!(read.len(), 2);
}

#[test]
fn a_wrong_line_is_named_with_its_cause() {
    for (text, words) in [
        ("\nspares", "/etc/f:2: it is not `setting = value`"),
        ("spare = 2", "did you mean `spares`?"),
        ("UNDERSTUDY_SPARES = 2", "did you mean `spares`?"),
        ("colour = red", "`colour` is not a setting"),
        ("spares =", "`spares` has no value"),
        ("spares = many", "/etc/f:1: spares: "),
        ("late = 1", "from the environment only (UNDERSTUDY_LATE)"),
        (
            "spares = 1\nspares = 2",
            "/etc/f:2: /etc/f:1 has the setting already",
        ),
    ] {
        let why = values(text).expect_err(text);
        assert!(why.contains(words), "{text}: {why}");
    }
}

#[test]
fn a_later_file_and_the_environment_take_precedence() {
    let place = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = place.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let site = file("site", "spares = 2\ninterval = 30s\n");
    let user = file("understudy.conf", "spares = 3\ndaemon = /run/socket\n");
    let missing = place.path().join("missing");
    let read = read([site, missing, user.clone()].into_iter()).unwrap();
    let shown: Vec<_> = read.iter().map(|(name, it)| (*name, &*it.value)).collect();
    let expected = [
        ("UNDERSTUDY_DAEMON", "/run/socket"),
        ("UNDERSTUDY_INTERVAL", "30s"),
        ("UNDERSTUDY_SPARES", "3"),
    ];
    assert_eq!(shown, expected);

    let home = place.path().to_string_lossy().into_owned();
    let environment = |name: &str| match name {
        "XDG_CONFIG_HOME" => Some(home.clone()),
        "UNDERSTUDY_CKPTD" => Some("the former name".into()),
        _ => None,
    };
    assert_eq!(user_file(environment), Some(user));
    let added = additions_from(user_file(environment).into_iter(), environment).unwrap();
    assert_eq!(
        added.get("UNDERSTUDY_SPARES").map(|it| &*it.value),
        Some("3")
    );
    assert_eq!(added.get("UNDERSTUDY_DAEMON"), None);
    let read_already = |name: &str| (name == FILES_READ).then(|| "1".to_owned());
    assert_eq!(additions(read_already), Ok(FileValues::new()));
}

#[test]
fn messages_name_the_lines_of_their_settings() {
    let value = |place: &str| FileValue {
        value: "2".into(),
        place: place.into(),
    };
    let values = FileValues::from([
        ("UNDERSTUDY_COPIES", value("/etc/understudy.conf:2")),
        ("UNDERSTUDY_DISK", value("/etc/understudy.conf:3")),
    ]);
    let places = places_of(&values);
    let named = add_places("UNDERSTUDY_COPIES=2 needs more".into(), &places);
    assert_eq!(
        named,
        "UNDERSTUDY_COPIES=2 needs more; /etc/understudy.conf:2 sets UNDERSTUDY_COPIES"
    );
    let without = places_without(&places, &["UNDERSTUDY_COPIES".into()].into());
    for (other, places) in [
        ("UNDERSTUDY_DISK_EVERY: `x`", &*places),
        ("UNDERSTUDY_COPIES=2", &without),
        ("UNDERSTUDY_COPIES=2", "1"),
    ] {
        assert_eq!(add_places(other.into(), places), other);
    }
    let read_already = |name: &str| (name == FILES_READ).then(|| without.clone());
    assert_eq!(additions(read_already), Ok(FileValues::new()));
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let place = tempfile::tempdir().unwrap();
    let why = read([place.path().to_owned()].into_iter()).unwrap_err();
    assert!(why.contains(&*place.path().to_string_lossy()), "{why}");
}
