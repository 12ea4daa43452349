//! Names of this process: host, command line, program.

use understudy_formats::proc_file::ProcFile;

/// Returns the name of this host.
pub fn host_name() -> String {
    static NAME: ProcFile = ProcFile::new("/proc/sys/kernel/hostname");
    NAME.read()
        .map_or_else(|| "?".into(), |name| name.trim_end().to_owned())
}

/// Returns the words of the program's command line (proc(5), `/proc/pid/cmdline`).
pub fn command_line() -> Vec<String> {
    let text = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let words = text
        .strip_suffix(&[0])
        .unwrap_or(&text)
        .split(|&byte| byte == 0);
    words
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

/// Returns the path of the program.
pub fn program_name() -> String {
    std::fs::read_link("/proc/self/exe")
        .map_or_else(|_| "?".into(), |path| path.to_string_lossy().into_owned())
}
