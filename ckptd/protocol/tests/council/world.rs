//! Simulated nodes and the network between them.

use crate::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use understudy_protocol::{
    Council, CouncilAction, CouncilLimits, CouncilMessage, Memory, Node, Roster, Term,
};

/// Time of a step.
const STEP: Duration = Duration::from_millis(50);
const ELECTION: Duration = Duration::from_secs(4);
/// Silence after which a leader counts a node as dead.
const WAIT: Duration = Duration::from_secs(12);
/// Time after which kernel timers kill a node that no acting leader confirms.
const FENCE: Duration = Duration::from_millis(10_700);
/// Steps within which a connected majority must have a leader: two elections and some attempts.
pub const LEADERLESS_LIMIT: u32 = 220;

#[derive(Debug)]
struct Machine {
    council: Council,
    /// Memory that outlives the process.
    stored: Memory,
    /// Speed and start of the clock.
    clock: (f64, Duration),
    is_dead: bool,
    frozen_until: u32,
    /// Time, by its own clock, of the last heartbeat that an acting leader has confirmed.
    confirmed: Duration,
    /// Times, by its own clock, at which it last heard from other nodes while it acted.
    heard: BTreeMap<Node, Duration>,
    /// Time by its own clock since which it has acted.
    acting_since: Option<Duration>,
}

#[derive(Debug)]
enum Delivery {
    Message(Node, CouncilMessage),
    Death(Node),
}

#[derive(Debug)]
pub struct World {
    random: Seeded,
    step: u32,
    machines: BTreeMap<Node, Machine>,
    /// Deliveries by step and order, with the node that receives each.
    on_the_way: BTreeMap<(u32, u64), (Node, Delivery)>,
    order: u64,
    /// Nodes that are cut off, each on its own.
    cut: BTreeSet<Node>,
    /// Nodes on the other side of a partition.
    other_side: BTreeSet<Node>,
    loss_percent: u64,
    pub leaders_seen: BTreeSet<Term>,
    pub leaderless_steps: u32,
    pub joined: u32,
}

struct Seeded(Random);

impl std::fmt::Debug for Seeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0.0)
    }
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut random = Random(seed);
        let count = 1 + random.below(7) as u32;
        let members: BTreeSet<Node> = (0..count).map(Node).collect();
        let mut world = World {
            random: Seeded(random),
            step: 0,
            machines: BTreeMap::new(),
            on_the_way: BTreeMap::new(),
            order: 0,
            cut: BTreeSet::new(),
            other_side: BTreeSet::new(),
            loss_percent: 0,
            leaders_seen: BTreeSet::new(),
            leaderless_steps: 0,
            joined: 0,
        };
        for &node in &members {
            let term = Term {
                number: 0,
                leader: Node(0),
            };
            let memory = Memory {
                term,
                roster: Roster::new(term, members.clone()),
            };
            world.start(node, memory);
        }
        let now = world.now(Node(0));
        let founding = Council::founding(Node(0), limits(), members, now);
        world.machine(Node(0)).council = founding;
        world
    }

    fn start(&mut self, node: Node, memory: Memory) {
        let rate = 0.991 + self.random.0.below(18) as f64 / 1000.0;
        let clock = (rate, Duration::from_secs(self.random.0.below(1_000)));
        let now = time(clock, self.step);
        let machine = Machine {
            council: Council::new(node, limits(), memory.clone(), now),
            stored: memory,
            clock,
            is_dead: false,
            frozen_until: 0,
            confirmed: now,
            heard: BTreeMap::new(),
            acting_since: None,
        };
        self.machines.insert(node, machine);
    }

    fn machine(&mut self, node: Node) -> &mut Machine {
        self.machines.get_mut(&node).expect("a node")
    }

    /// Time of a node's clock.
    fn now(&self, node: Node) -> Duration {
        time(self.machines[&node].clock, self.step)
    }

    fn is_connected(&self, a: Node, b: Node) -> bool {
        let is_cut = self.cut.contains(&a) || self.cut.contains(&b);
        !is_cut && self.other_side.contains(&a) == self.other_side.contains(&b)
    }

    fn runs(&self, node: Node) -> bool {
        let machine = &self.machines[&node];
        !machine.is_dead && machine.frozen_until <= self.step
    }

    fn living(&self) -> Vec<Node> {
        let living = self.machines.iter().filter(|(_, it)| !it.is_dead);
        living.map(|(&node, _)| node).collect()
    }

    pub fn count(&self) -> u32 {
        self.machines.len() as u32
    }

    pub fn count_dead(&self) -> u32 {
        self.count() - self.living().len() as u32
    }

    /// Returns the node that may act now.
    pub fn acting(&self) -> Option<Node> {
        let acts =
            |&node: &Node| self.runs(node) && self.machines[&node].council.may_act(self.now(node));
        let acting: Vec<Node> = self.living().into_iter().filter(acts).collect();
        assert!(acting.len() <= 1, "two nodes act: {acting:?} {self:?}");
        acting.first().copied()
    }

    /// Lets something happen at random, to any node.
    pub fn disturb(&mut self) {
        let all: BTreeSet<Node> = self.machines.keys().copied().collect();
        self.disturb_only(&all);
    }

    /// Lets something happen at random, to one of these nodes.
    pub fn disturb_only(&mut self, victims: &BTreeSet<Node>) {
        let Some(&victim) = victims.iter().nth(self.random.0.below(8) as usize) else {
            return;
        };
        match self.random.0.below(900) {
            0..6 => {
                let steps = 1 + self.random.0.below(250) as u32;
                let step = self.step;
                self.machine(victim).frozen_until = step + steps;
            }
            6..12 => drop(self.cut.insert(victim)),
            12..30 => self.cut.clear(),
            30..34 if victims.len() == self.machines.len() => {
                let random = &mut self.random.0;
                let other = victims.iter().filter(|_| random.below(2) == 0);
                self.other_side = other.copied().collect();
            }
            34..40 => self.other_side.clear(),
            40..44 => self.restart(victim),
            44..46 => self.kill(victim, true),
            46 => self.kill(victim, false),
            47..49 => self.loss_percent = self.random.0.below(20),
            49..55 => self.loss_percent = 0,
            55..58 => self.add_node(),
            _ => {}
        }
    }

    /// Ends all disturbances.
    pub fn heal(&mut self) {
        self.cut.clear();
        self.other_side.clear();
        self.loss_percent = 0;
        let step = self.step;
        self.machines
            .values_mut()
            .for_each(|it| it.frozen_until = it.frozen_until.min(step));
    }

    /// Returns a random minority of the members.
    pub fn choose_minority(&mut self) -> BTreeSet<Node> {
        let count = self.machines.len();
        let mut victims = BTreeSet::new();
        for node in self.machines.keys() {
            if 2 * (victims.len() + 1) < count && self.random.0.below(2) == 0 {
                victims.insert(*node);
            }
        }
        victims
    }

    pub fn has_lost_other_than(&self, victims: &BTreeSet<Node>) -> bool {
        let mut lost = self.machines.iter().filter(|(_, it)| it.is_dead);
        lost.any(|(node, _)| !victims.contains(node))
    }

    /// Replaces the manager of a node.
    fn restart(&mut self, node: Node) {
        let now = self.now(node);
        let machine = self.machine(node);
        machine.council = Council::new(node, limits(), machine.stored.clone(), now);
        machine.acting_since = None;
    }

    /// Kills a node; if all its processes end, the nodes that are connected learn it.
    fn kill(&mut self, node: Node, is_noticed: bool) {
        if std::mem::replace(&mut self.machine(node).is_dead, true) || !is_noticed {
            return;
        }
        for other in self.living() {
            if self.is_connected(node, other) {
                self.deliver(other, Delivery::Death(node));
            }
        }
    }

    /// Adds a node, which the leader makes a member.
    fn add_node(&mut self) {
        let Some(leader) = self.acting() else { return };
        if self.living().len() > 7 {
            return;
        }
        let node = Node(self.count());
        let term = Term {
            number: 0,
            leader: node,
        };
        let roster = Roster::new(term, BTreeSet::new());
        self.start(node, Memory { term, roster });
        let now = self.now(leader);
        self.machine(leader).heard.insert(node, now);
        self.machine(leader).council.add(now, node);
    }

    fn deliver(&mut self, to: Node, delivery: Delivery) {
        let delay = match self.random.0.below(20) {
            0 => self.random.0.below(60),
            _ => self.random.0.below(2),
        };
        self.order += 1;
        let at = (self.step + delay as u32, self.order);
        self.on_the_way.insert(at, (to, delivery));
    }

    fn act(&mut self, node: Node, actions: Vec<CouncilAction>) {
        for action in actions {
            match action {
                CouncilAction::Remember(memory) => self.machine(node).stored = memory,
                CouncilAction::Send(to, message) => {
                    let is_lost = self.random.0.below(100) < self.loss_percent;
                    if self.is_connected(node, to) && !is_lost {
                        self.deliver(to, Delivery::Message(node, message));
                    }
                }
            }
        }
    }

    pub fn step(&mut self) {
        self.step += 1;
        let due: Vec<(u32, u64)> = self
            .on_the_way
            .range(..(self.step + 1, 0))
            .map(|(&at, _)| at)
            .collect();
        for at in due {
            let (to, delivery) = self.on_the_way.remove(&at).expect("a delivery");
            if self.machines[&to].is_dead {
                continue;
            }
            if !self.runs(to) {
                let later = (self.machines[&to].frozen_until, at.1);
                self.on_the_way.insert(later, (to, delivery));
                continue;
            }
            let now = self.now(to);
            match delivery {
                Delivery::Death(node) => self.machine(to).council.note_death(now, node),
                Delivery::Message(from, message) => {
                    let actions = self.machine(to).council.receive(now, from, message);
                    self.act(to, actions);
                }
            }
            if self.machines[&to].council.may_act(now) {
                self.acting();
            }
        }
        for node in self.living() {
            if self.runs(node) {
                let now = self.now(node);
                let actions = self.machine(node).council.tick(now);
                self.act(node, actions);
            }
        }
        self.confirm_nodes();
        self.fence_nodes();
    }

    /// Lets the leader confirm the heartbeats of connected nodes, and find nodes that are dead.
    fn confirm_nodes(&mut self) {
        let acting = self.acting();
        for (&node, machine) in &mut self.machines {
            if Some(node) != acting {
                machine.acting_since = None;
            }
        }
        let Some(leader) = acting else {
            self.leaderless_steps += 1;
            return;
        };
        self.leaderless_steps = 0;
        let now = self.now(leader);
        let term = self.machines[&leader].council.term();
        self.leaders_seen.insert(term);
        self.machine(leader).acting_since.get_or_insert_with(|| now);
        let members = self.machines[&leader].council.members().len() as u32;
        self.joined = self.joined.max(members);
        for node in self.living() {
            if node != leader && self.runs(node) && self.is_connected(node, leader) {
                let theirs = self.now(node);
                self.machine(node).confirmed = theirs;
                self.machine(leader).heard.insert(node, now);
            }
        }
        for node in self.machines.keys().copied().collect::<Vec<_>>() {
            let machine = &self.machines[&leader];
            let since = machine.acting_since.unwrap_or(now);
            let heard = machine.heard.get(&node).copied().unwrap_or_default();
            if node != leader && now >= heard.max(since) + WAIT {
                assert!(self.machines[&node].is_dead, "{node:?} is fenced: {self:?}");
                self.machine(leader).council.note_death(now, node);
            }
        }
    }

    /// Kills nodes that no acting leader has confirmed for the time of the fence.
    fn fence_nodes(&mut self) {
        for node in self.living() {
            let now = self.now(node);
            let machine = self.machine(node);
            if let Some(confirmed) = machine.council.confirmed_at(now) {
                machine.confirmed = machine.confirmed.max(confirmed);
            }
            if now >= machine.confirmed + FENCE {
                machine.is_dead = true;
            }
        }
    }
}

fn limits() -> CouncilLimits {
    CouncilLimits::new(ELECTION)
}

fn time((rate, start): (f64, Duration), step: u32) -> Duration {
    start + (STEP * step).mul_f64(rate)
}
