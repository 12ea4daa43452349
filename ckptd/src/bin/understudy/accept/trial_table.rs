//! The table of the jobs that are tried.

/// A kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// A worker is killed before the first checkpoint.
    Start,
    /// A worker is killed between two checkpoints.
    Worker,
    /// A worker is killed while it receives the replica of another one.
    Shipping,
    /// A worker is killed, and another one during the recovery.
    Recovery,
    /// All processes of a host are killed.
    Node,
}

impl Disturbance {
    fn described(self) -> &'static str {
        match self {
            Self::Start => "a worker is killed before the first checkpoint",
            Self::Worker => "a worker is killed",
            Self::Shipping => "a worker is killed during a checkpoint",
            Self::Recovery => "two workers are killed, the second one during the recovery",
            Self::Node => "all processes of a node are killed",
        }
    }

    /// Returns the value of `UNDERSTUDY_FAULT`; `None` if processes are killed from outside.
    pub fn fault(self) -> Option<String> {
        let words: &[&str] = match self {
            Self::Start => &["kill", "rank=1", "at=init.begin"],
            Self::Worker => &["kill", "rank=1", "at=commit.end", "epoch=4", "delay=3ms"],
            Self::Shipping => &["kill", "rank=3", "at=ship.half", "epoch=4"],
            Self::Recovery => &[
                "kill",
                "rank=1",
                "at=commit.end",
                "epoch=3;",
                "kill",
                "rank=2",
                "at=rebuild.begin",
            ],
            Self::Node => return None,
        };
        Some(words.join(" "))
    }

    /// Returns the smallest number of killed processes.
    pub fn min_kills(self) -> usize {
        match self {
            Self::Start | Self::Worker | Self::Shipping => 1,
            Self::Recovery | Self::Node => 2,
        }
    }
}

/// A network, as a value of `--fabric`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriedFabric {
    Tcp,
    Native,
}

impl TriedFabric {
    pub fn option(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Native => "native",
        }
    }
}

/// A detection of modified pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detection {
    /// The kernel marks pages.
    Marks,
    /// Pages are compared with their copies.
    Compare,
    /// The kernel marks pages, and those that MPI calls receive to are compared.
    Landings,
}

impl Detection {
    /// Returns the value of `--tracking`.
    pub fn option(self) -> &'static str {
        match self {
            Self::Marks => "pagemap",
            Self::Compare => "compare",
            Self::Landings => "landings",
        }
    }

    fn described(self) -> &'static str {
        match self {
            Self::Marks => "marks",
            Self::Compare => "compare",
            Self::Landings => "landings",
        }
    }
}

/// A job that is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    pub fabric: TriedFabric,
    pub detection: Detection,
    pub disturbance: Disturbance,
}

impl Trial {
    pub fn name(&self) -> String {
        format!(
            "{}, {}: {}",
            self.fabric.option(),
            self.detection.described(),
            self.disturbance.described()
        )
    }
}

/// All jobs. With the native fabric, the runtime compares pages whatever the setting is, or those
/// that MPI calls receive to. A worker that dies before the first checkpoint needs no detection.
const TABLE: &[(TriedFabric, Detection, Disturbance)] = &[
    (TriedFabric::Tcp, Detection::Marks, Disturbance::Start),
    (TriedFabric::Tcp, Detection::Marks, Disturbance::Worker),
    (TriedFabric::Tcp, Detection::Marks, Disturbance::Shipping),
    (TriedFabric::Tcp, Detection::Marks, Disturbance::Recovery),
    (TriedFabric::Tcp, Detection::Marks, Disturbance::Node),
    (TriedFabric::Tcp, Detection::Compare, Disturbance::Worker),
    (TriedFabric::Native, Detection::Compare, Disturbance::Start),
    (TriedFabric::Native, Detection::Compare, Disturbance::Worker),
    (
        TriedFabric::Native,
        Detection::Compare,
        Disturbance::Shipping,
    ),
    (
        TriedFabric::Native,
        Detection::Compare,
        Disturbance::Recovery,
    ),
    (TriedFabric::Native, Detection::Compare, Disturbance::Node),
    (
        TriedFabric::Native,
        Detection::Landings,
        Disturbance::Worker,
    ),
    (
        TriedFabric::Native,
        Detection::Landings,
        Disturbance::Shipping,
    ),
    (
        TriedFabric::Native,
        Detection::Landings,
        Disturbance::Recovery,
    ),
    (TriedFabric::Native, Detection::Landings, Disturbance::Node),
];

/// Returns the jobs for a site; without marks, all compare all pages.
pub fn trials(has_marks: bool, has_native_fabric: bool) -> Vec<Trial> {
    let mut trials: Vec<Trial> = Vec::new();
    for &(fabric, detection, disturbance) in TABLE {
        let detection = match (has_marks, detection) {
            (true, _) => detection,
            (false, Detection::Landings) => continue,
            (false, _) => Detection::Compare,
        };
        let trial = Trial {
            fabric,
            detection,
            disturbance,
        };
        let is_possible = fabric == TriedFabric::Tcp || has_native_fabric;
        if is_possible && !trials.contains(&trial) {
            trials.push(trial);
        }
    }
    trials
}

#[cfg(test)]
mod tests {
    use super::*;
    use understudy_settings::Config;

    #[test]
    fn every_fault_is_one_that_ranks_accept() {
        for (_, _, disturbance) in TABLE {
            if let Some(fault) = disturbance.fault() {
                let read = |name: &str| (name == "UNDERSTUDY_FAULT").then(|| fault.clone());
                assert!(Config::read(read).is_ok(), "{fault}");
            }
        }
    }

    #[test]
    fn what_a_site_does_not_have_is_left_out() {
        assert_eq!(trials(true, true).len(), TABLE.len());
        let tcp = trials(true, false);
        assert!(tcp.iter().all(|it| it.fabric == TriedFabric::Tcp) && tcp.len() == 6);
        let compare = trials(false, false);
        assert!(compare.iter().all(|it| it.detection == Detection::Compare));
        assert_eq!(compare.len(), 5);
        let native = trials(false, true);
        assert!(native.iter().all(|it| it.detection == Detection::Compare));
        assert_eq!(native.len(), 10);
    }
}
