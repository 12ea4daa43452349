//! Who talked to whom: the program's messages as a drawing, and what went through each communicator.

use super::chart::table;
use ckptd::events::Amount;
use ckptd::report::{Report, Traffic, bytes};
use maud::{Markup, html};

/// Rows and columns at most: more workers are put together in groups of neighbours.
const MOST: u32 = 64;
/// Up to so many columns there is room for numbers on a phone.
const WITH_NUMBERS: u32 = 5;
/// Pairs, and communicators, that are listed.
const LISTED: usize = 500;
/// Room for the names of rows, in percent of the width.
const LABELS: f64 = 12.0;

/// The workers' traffic, `side` × `side`, each row and column standing for `each` workers.
struct Grid {
    side: u32,
    each: u32,
    workers: u32,
    cells: Vec<Amount>,
}

impl Grid {
    fn new(traffic: &Traffic) -> Self {
        let workers = traffic.workers.max(1);
        let each = workers.div_ceil(MOST);
        let side = workers.div_ceil(each);
        let mut cells = vec![Amount::default(); (side * side) as usize];
        for pair in &traffic.pairs {
            let at = (pair.from.0 / each) * side + pair.to.0 / each;
            if let Some(cell) = cells.get_mut(at as usize) {
                *cell += pair.messages;
            }
        }
        Self {
            side,
            each,
            workers,
            cells,
        }
    }

    fn at(&self, from: u32, to: u32) -> Amount {
        self.cells[(from * self.side + to) as usize]
    }

    /// The workers of a row or a column.
    fn name(&self, index: u32) -> String {
        let (first, last) = (
            index * self.each,
            ((index + 1) * self.each).min(self.workers) - 1,
        );
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    }

    fn most(&self) -> u64 {
        self.cells.iter().map(|cell| cell.bytes).max().unwrap_or(0)
    }
}

/// Drawing, communicators, and what was undone.
pub fn matrix(report: &Report) -> Markup {
    let Some(traffic) = &report.traffic else {
        return html! { p { "No worker has told what it has sent." } };
    };
    html! {
        @if traffic.pairs.is_empty() {
            p { "The program's workers have sent no messages from one to another." }
        } @else {
            (drawing(&Grid::new(traffic)))
            (pairs(traffic))
        }
        @if traffic.undone.count > 0 {
            p {
                "Besides, " (traffic.undone.count) " messages (" (bytes(traffic.undone.bytes))
                ") were undone by rollbacks, and sent again."
            }
        }
        h3 { "Communicators" }
        (communicators(traffic))
    }
}

fn drawing(grid: &Grid) -> Markup {
    let (side, most) = (grid.side, grid.most().max(1));
    let row: u32 = if side <= 16 { 24 } else { 480 / side };
    let left = |to: u32| LABELS + f64::from(to) * (100.0 - LABELS) / f64::from(side);
    let width = (100.0 - LABELS) / f64::from(side);
    // Not more names than there is room for.
    let step = side.div_ceil(8);
    let what = "messages of the program, by worker from (down) and to (across)";
    let groups = if grid.each > 1 {
        format!(", in groups of {} workers", grid.each)
    } else {
        String::new()
    };
    html! {
        p { "Messages from worker (down) to worker (across)" (groups) "; the darkest cell: " (bytes(grid.most())) "." }
        svg.traffic role="img" aria-label=(what) width="100%" height=(20 + side * row) {
            title { (what) }
            @for index in (0..side).step_by(step as usize) {
                text.label x=(format!("{:.2}%", left(index))) y="14" { (grid.name(index)) }
                text.label x="0" y=(20 + index * row + row.min(16)) { (grid.name(index)) }
            }
            @for from in 0..side {
                @for to in 0..side {
                    @let cell = grid.at(from, to);
                    @let (x, y) = (format!("{:.3}%", left(to)), 20 + from * row);
                    @if cell.count > 0 {
                        rect.message x=(x) y=(y) width=(format!("{width:.3}%")) height=(row)
                            fill-opacity=(format!("{:.3}", 0.12 + 0.88 * cell.bytes as f64 / most as f64)) {
                            title { (grid.name(from)) " to " (grid.name(to)) ": " (cell.count) " messages, " (bytes(cell.bytes)) }
                        }
                        @if side <= WITH_NUMBERS {
                            text.amount x=(format!("{:.2}%", left(to) + width / 2.0)) y=(y + 16) { (bytes(cell.bytes)) }
                        }
                    } @else {
                        rect.nothing x=(x) y=(y) width=(format!("{width:.3}%")) height=(row) {}
                    }
                }
            }
        }
    }
}

fn pairs(traffic: &Traffic) -> Markup {
    let data: Vec<Vec<String>> = traffic
        .heaviest(LISTED)
        .into_iter()
        .map(|pair| {
            let Amount { count, bytes: size } = pair.messages;
            vec![
                pair.from.to_string(),
                pair.to.to_string(),
                count.to_string(),
                bytes(size),
            ]
        })
        .collect();
    let caption = if traffic.pairs.len() > LISTED {
        format!(
            "The {LISTED} of {} pairs with the most bytes as a table",
            traffic.pairs.len()
        )
    } else {
        "The same as a table".to_owned()
    };
    table(&caption, &["from", "to", "messages", "bytes"], &data)
}

fn communicators(traffic: &Traffic) -> Markup {
    let shown = traffic.communicators.iter().take(LISTED);
    let [messages, collectives] = traffic.other_communicators;
    html! {
        div.wide {
            table.numbers {
                thead { tr { th { "communicator" } th { "members" } th { "messages" } th { "bytes" } th { "collectives" } th { "bytes" } } }
                tbody {
                    @for it in shown {
                        tr {
                            td.place { (it.name) } td { (it.traffic.size) }
                            (amounts(it.traffic.messages)) (amounts(it.traffic.collectives))
                        }
                    }
                    @if messages.count + collectives.count > 0 {
                        tr { td { "others" } td {} (amounts(messages)) (amounts(collectives)) }
                    }
                }
            }
        }
        p { "Bytes of collectives are those that each worker has handed over to be sent, once, however many get them." }
    }
}

fn amounts(amount: Amount) -> Markup {
    html! { td { (amount.count) } td { (bytes(amount.bytes)) } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckptd::events::Worker;
    use ckptd::report::Pair;

    #[test]
    fn many_workers_are_put_together() {
        let pair = |from, to, bytes| Pair {
            from: Worker(from),
            to: Worker(to),
            messages: Amount { count: 1, bytes },
        };
        let traffic = Traffic {
            workers: 130,
            pairs: vec![
                pair(0, 1, 5),
                pair(2, 129, 7),
                pair(3, 3, 11),
                pair(129, 128, 2),
            ],
            other_pairs: Amount::default(),
            communicators: Vec::new(),
            other_communicators: Default::default(),
            undone: Amount::default(),
        };
        let grid = Grid::new(&traffic);
        assert_eq!((grid.side, grid.each), (44, 3));
        // Workers 0 to 2 are the first row, 129 is alone in the last one.
        assert_eq!(grid.at(0, 0), Amount { count: 1, bytes: 5 });
        assert_eq!(grid.at(0, 43), Amount { count: 1, bytes: 7 });
        assert_eq!(
            grid.at(1, 1),
            Amount {
                count: 1,
                bytes: 11
            }
        );
        assert_eq!(grid.at(43, 42), Amount { count: 1, bytes: 2 });
        assert_eq!((grid.name(0), grid.name(43)), ("0-2".into(), "129".into()));
        assert_eq!(grid.most(), 11);
    }
}
