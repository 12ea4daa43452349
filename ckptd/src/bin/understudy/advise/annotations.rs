//! Text about the savings of the program's annotations.

use super::percent;
use std::fmt::Write;
use understudy_formats::events::AnnotationKind;
use understudy_formats::pages::PAGE_SIZE;
use understudy_report::{MarkRow, MarkSavings, bytes, count, time};

/// Returns the paragraph, with a line for each annotation.
pub fn text(savings: &MarkSavings) -> String {
    let mut out = match savings.saved_pages {
        0 => "Annotations of understudy.h have left nothing out of checkpoints.\n".into(),
        _ => left_out(savings),
    };
    for row in savings.rows.iter().filter(|row| row.failing().is_none()) {
        let _ = writeln!(out, "  {}", saved(row));
    }
    for row in &savings.rows {
        if let Some(why) = row.failing() {
            let _ = writeln!(out, "  {} has saved nothing: {why}", name(row));
        }
    }
    if savings.recomputations > 0 {
        let _ = writeln!(
            out,
            "  After recoveries memory was recomputed {}, in {} at most",
            count(savings.recomputations as usize, "time", "times"),
            time(savings.longest_ns)
        );
    }
    if savings.reversals > 0 {
        let _ = writeln!(
            out,
            "  Surviving workers have undone steps {}, in {} at most{}",
            count(savings.reversals as usize, "time", "times"),
            time(savings.longest_reversal_ns),
            match savings.failed_reversals {
                0 => String::new(),
                failed => format!("; {failed} failed, so that a whole replica was fetched"),
            }
        );
    }
    out
}

fn left_out(savings: &MarkSavings) -> String {
    format!(
        "Because of annotations (understudy.h), {} omitted {} over all processes: {} of the data \
         that would have been copied and sent otherwise (about {} of copying).\n",
        count(savings.checkpoints as usize, "checkpoint", "checkpoints"),
        pages(savings.saved_pages),
        percent(savings.share()),
        time(savings.saved_ns()),
    )
}

fn name(row: &MarkRow) -> String {
    format!("{} of {} at {}", row.way, bytes(row.bytes), row.place)
}

fn saved(row: &MarkRow) -> String {
    if row.way == AnnotationKind::Reverse {
        return format!(
            "{} ({}): copied and sent as before, but a worker's own replica is smaller by up to {}",
            name(row),
            count(row.regions as usize, "region", "regions"),
            pages(row.held_pages)
        );
    }
    let mean = row.saved_pages / row.captures.max(1);
    let missed = match row.missed {
        0 => String::new(),
        missed => format!(", withdrawn before {missed} other captures"),
    };
    format!(
        "{} ({}): {} not copied, {} in the mean of {}{missed}; replicas are smaller by up to {}",
        name(row),
        count(row.regions as usize, "region", "regions"),
        pages(row.saved_pages),
        pages(mean),
        count(row.captures as usize, "capture", "captures"),
        pages(row.held_pages)
    )
}

fn pages(count: u64) -> String {
    bytes(count.saturating_mul(PAGE_SIZE as u64))
}
