//! Other users of a node can neither disturb a job nor gain anything by it.

mod other_users;
