//! Parser of `procedures.tbl` and `exports.tbl`, and printer of a procedure's row.

use crate::kind::ParamKind;
use crate::model::{
    Class, Data, Direction, Flag, Function, Handle, Parameter, Policy, Procedure, Rule, Source,
    Table,
};
use std::collections::HashSet;
use std::fmt;

/// Error in a table, with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableError {
    /// Number of the line, from 1.
    pub line: usize,
    pub message: String,
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for TableError {}

/// Result whose error message lacks the line number.
type RowResult<T> = Result<T, String>;

/// Returns the rows of a table with line numbers, split into trimmed columns.
pub(crate) fn rows(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    let lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()));
    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(number, line)| (number, line.split('|').map(str::trim).collect()))
}

/// Returns the value that `find` returns for a name, or an error that names `what`.
fn lookup<T>(what: &str, name: &str, find: impl Fn(&str) -> Option<T>) -> RowResult<T> {
    find(name).ok_or_else(|| format!("unknown {what} `{name}`"))
}

fn number(text: &str) -> RowResult<usize> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

fn single_char(text: &str, allowed: &str) -> RowResult<char> {
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(c), None) if allowed.contains(c) => Ok(c),
        _ => Err(format!("`{text}` is none of {allowed}")),
    }
}

/// Parses `name: C-type Kind Direction [length]`.
fn parameter(text: &str) -> RowResult<Parameter> {
    let malformed = || format!("malformed parameter `{text}`");
    let (name, rest) = text.split_once(':').ok_or_else(malformed)?;
    let (rest, length) = match rest.split_once(" [") {
        Some((rest, length)) => (
            rest,
            Some(length.strip_suffix(']').ok_or_else(malformed)?.to_owned()),
        ),
        None => (rest, None),
    };
    let (rest, direction) = rest.trim().rsplit_once(' ').ok_or_else(malformed)?;
    let (c_type, kind) = rest.trim().rsplit_once(' ').ok_or_else(malformed)?;
    Ok(Parameter {
        name: name.trim().to_owned(),
        c_type: c_type.trim().to_owned(),
        kind: lookup("kind", kind, ParamKind::from_name)?,
        direction: lookup("direction", direction, Direction::from_name)?,
        length,
    })
}

fn procedure(columns: &[&str]) -> RowResult<Procedure> {
    let &[
        name,
        class,
        source,
        rules,
        fortran,
        returns,
        flags,
        parameters,
    ] = columns
    else {
        return Err(format!("{} columns instead of 8", columns.len()));
    };
    let differs_from = |text: &'static str| move |word: &&str| *word != text;
    Ok(Procedure {
        name: name.to_owned(),
        class: lookup("class", class, Class::from_name)?,
        source: lookup(
            "source",
            source.split_whitespace().next().unwrap_or_default(),
            Source::from_name,
        )?,
        arguments: source
            .split_whitespace()
            .skip(1)
            .map(str::to_owned)
            .collect(),
        rules: rules
            .split_whitespace()
            .filter(differs_from("-"))
            .map(|rule| lookup("rule", rule, Rule::from_name))
            .collect::<RowResult<_>>()?,
        fortran: (fortran != "-").then(|| fortran.to_owned()),
        returns: returns.to_owned(),
        flags: flags
            .split_whitespace()
            .filter(differs_from("-"))
            .map(|flag| lookup("flag", flag, Flag::from_name))
            .collect::<RowResult<_>>()?,
        parameters: parameters
            .split(';')
            .map(str::trim)
            .filter(differs_from("-"))
            .map(parameter)
            .collect::<RowResult<_>>()?,
    })
}

/// Parses `procedures.tbl`; no procedure may occur twice.
pub fn parse_procedures(text: &str) -> Result<Vec<Procedure>, TableError> {
    let mut seen = HashSet::new();
    rows(text)
        .map(|(line, columns)| {
            let error = |message| TableError { line, message };
            let row = procedure(&columns).map_err(error)?;
            if !seen.insert(row.name.clone()) {
                return Err(error(format!("`{}` twice", row.name)));
            }
            Ok(row)
        })
        .collect()
}

fn data(name: &str, columns: &[&str]) -> RowResult<Data> {
    let &[section, size, alignment, predefined] = columns else {
        return Err("a data row has 6 columns".to_owned());
    };
    let (size, alignment) = (number(size)?, number(alignment)?);
    if size == 0 || !alignment.is_power_of_two() || size % alignment != 0 {
        return Err(format!(
            "`{name}`: impossible size {size} or alignment {alignment}"
        ));
    }
    let predefined = match predefined {
        "-" => None,
        kind => Some(lookup("handle", kind, Handle::from_name)?),
    };
    Ok(Data {
        name: name.to_owned(),
        section: single_char(section, "BDR")?,
        size,
        alignment,
        predefined,
    })
}

fn function(name: &str, columns: &[&str]) -> RowResult<Function> {
    let &[binding, policy] = columns else {
        return Err("a function row has 4 columns".to_owned());
    };
    let policy = lookup("policy", policy, Policy::from_name)?;
    Ok(Function {
        name: name.to_owned(),
        binding: single_char(binding, "TW")?,
        policy,
    })
}

/// Adds a row of `exports.tbl`.
fn export(table: &mut Table, columns: &[&str]) -> RowResult<()> {
    let [name, what, rest @ ..] = columns else {
        return Err("too few columns".to_owned());
    };
    match *what {
        "function" => table.functions.push(function(name, rest)?),
        "data" => table.data.push(data(name, rest)?),
        "tls" => table.thread_locals.push((*name).to_owned()),
        _ => return Err(format!("unknown sort of symbol `{what}`")),
    }
    Ok(())
}

/// Returns the twin for large counts (MPI 4.1, 2.5.8), if the row has one.
pub(crate) fn large_twin(procedure: &Procedure) -> Option<Procedure> {
    let is_of_packed = procedure.class == Class::Pack;
    let widened = |parameter: &Parameter| {
        let (c_type, kind) = match (parameter.c_type.as_str(), parameter.kind) {
            ("int", ParamKind::Count) => ("MPI_Count", ParamKind::BigCount),
            ("const int*", ParamKind::CountArray) => ("const MPI_Count*", ParamKind::CountArray),
            ("const int*", ParamKind::DisplArray) => ("const MPI_Aint*", ParamKind::DisplArray),
            ("int", ParamKind::Int) if is_of_packed => ("MPI_Count", ParamKind::BigCount),
            ("int*", ParamKind::Int) if is_of_packed => ("MPI_Count*", ParamKind::BigCount),
            (c_type, kind) => (c_type, kind),
        };
        Parameter {
            c_type: c_type.to_owned(),
            kind,
            ..parameter.clone()
        }
    };
    let flags = procedure
        .flags
        .iter()
        .copied()
        .filter(|&flag| flag != Flag::Large);
    let rules = procedure
        .rules
        .iter()
        .copied()
        .filter(|&rule| rule != Rule::Older);
    procedure.has(Flag::Large).then(|| Procedure {
        name: format!("{}_c", procedure.name),
        flags: flags.chain([Flag::Newer]).collect(),
        rules: rules.collect(),
        fortran: None,
        parameters: procedure.parameters.iter().map(widened).collect(),
        ..procedure.clone()
    })
}

/// Parses both files, and adds the twins for large counts; no symbol may occur twice.
pub fn parse(procedures: &str, exports: &str) -> Result<Table, TableError> {
    let mut all = Vec::new();
    for procedure in parse_procedures(procedures)? {
        let twin = large_twin(&procedure);
        all.extend([procedure].into_iter().chain(twin));
    }
    let mut seen: HashSet<String> = all.iter().flat_map(Procedure::exported_names).collect();
    let mut table = Table {
        procedures: all,
        functions: Vec::new(),
        data: Vec::new(),
        thread_locals: Vec::new(),
    };
    for (line, columns) in rows(exports) {
        let error = |message| TableError { line, message };
        export(&mut table, &columns).map_err(error)?;
        if !seen.insert(columns[0].to_owned()) {
            return Err(error(format!("`{}` twice", columns[0])));
        }
    }
    Ok(table)
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} {} {}",
            self.name,
            self.c_type,
            self.kind.name(),
            self.direction.name()
        )?;
        self.length
            .as_ref()
            .map_or(Ok(()), |length| write!(f, " [{length}]"))
    }
}

/// Joins the parts of a column; an empty column is a dash.
fn column(parts: impl Iterator<Item = String>, separator: &str) -> String {
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() {
        "-".to_owned()
    } else {
        parts.join(separator)
    }
}

impl fmt::Display for Procedure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = column(self.flags.iter().map(|flag| flag.name().to_owned()), " ");
        let parameters = column(self.parameters.iter().map(Parameter::to_string), " ; ");
        let rules = column(self.rules.iter().map(|rule| rule.name().to_owned()), " ");
        let fortran = self.fortran.as_deref().unwrap_or("-");
        let class = self.class.name();
        let source = [self.source.name()].into_iter();
        let source: Vec<&str> = source
            .chain(self.arguments.iter().map(String::as_str))
            .collect();
        let source = source.join(" ");
        write!(
            f,
            "{} | {class} | {source} | {rules} | {fortran} | {} | {flags} | ",
            self.name, self.returns
        )?;
        f.write_str(&parameters)
    }
}
