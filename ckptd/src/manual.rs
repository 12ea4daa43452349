//! Man pages of a program, from the grammar of its command line.

use clap_mangen::Man;
use std::io;
use std::path::Path;

/// Writes the man pages of a command and its subcommands into a directory.
///
/// The directory is created if missing.
///
/// # Errors
/// Fails if the directory cannot be created, or a page cannot be written.
pub fn write(mut grammar: clap::Command, directory: &Path) -> io::Result<()> {
    grammar = grammar.disable_help_subcommand(true);
    grammar.build();
    std::fs::create_dir_all(directory)?;
    write_all(&grammar, directory)
}

fn write_all(command: &clap::Command, directory: &Path) -> io::Result<()> {
    for subcommand in command
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set())
    {
        write_all(subcommand, directory)?;
    }
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render(&mut page)?;
    // The text after the help begins with the exit statuses.
    let page = String::from_utf8_lossy(&page)
        .replace(".SH EXTRA\nExit status:\n", ".SH \"EXIT STATUS\"\n");
    std::fs::write(directory.join(man.get_filename()), page)
}
