//! Lengths of arrays and buffers.
//!
//! A length is a product of terms, such as `recvcount*recvtype*comm_size`. A term is the name of a
//! parameter, a special word, or a function of parameters such as `sum(counts)`. The name of a
//! datatype means its extent in bytes; an array of datatypes occurs only in `spanw`.

/// Words in a length that are not parameters.
pub const SPECIAL_LENGTHS: [&str; 14] = [
    "comm_size",
    "local_size",
    "indegree",
    "outdegree",
    "cart_ndims",
    "null_terminated",
    "MPI_MAX_DATAREP_STRING",
    "MPI_MAX_ERROR_STRING",
    "MPI_MAX_INFO_KEY",
    "MPI_MAX_LIBRARY_VERSION_STRING",
    "MPI_MAX_OBJECT_NAME",
    "MPI_MAX_PORT_NAME",
    "MPI_MAX_PROCESSOR_NAME",
    "MPI_F_STATUS_SIZE",
];

/// A factor of a length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LengthTerm {
    /// The value of a parameter, or a special word.
    Word(String),
    /// `sum(counts)`: the sum of all entries.
    Sum(String),
    /// `own(counts)`: the entry of the calling rank.
    Own(String),
    /// `last(array)`: the last entry.
    Last(String),
    /// `span(counts,displs)`: the end of the last block.
    Span(String, String),
    /// `spanw(counts,displs,types)`: the end of the last block in bytes, with one datatype per
    /// block.
    SpanW(String, String, String),
}

impl LengthTerm {
    /// Returns the words in the term.
    pub fn words(&self) -> Vec<&str> {
        match self {
            LengthTerm::Word(a) | LengthTerm::Sum(a) | LengthTerm::Own(a) | LengthTerm::Last(a) => {
                vec![a]
            }
            LengthTerm::Span(a, b) => vec![a, b],
            LengthTerm::SpanW(a, b, c) => vec![a, b, c],
        }
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn term(text: &str) -> Option<LengthTerm> {
    let Some((function, rest)) = text.split_once('(') else {
        return is_word(text).then(|| LengthTerm::Word(text.to_owned()));
    };
    let arguments: Vec<&str> = rest.strip_suffix(')')?.split(',').collect();
    if !arguments.iter().all(|argument| is_word(argument)) {
        return None;
    }
    let owned = |index: usize| arguments[index].to_owned();
    Some(match (function, arguments.len()) {
        ("sum", 1) => LengthTerm::Sum(owned(0)),
        ("own", 1) => LengthTerm::Own(owned(0)),
        ("last", 1) => LengthTerm::Last(owned(0)),
        ("span", 2) => LengthTerm::Span(owned(0), owned(1)),
        ("spanw", 3) => LengthTerm::SpanW(owned(0), owned(1), owned(2)),
        _ => return None,
    })
}

/// Returns the factors of a length, or `None` if the length is malformed.
pub fn length_terms(length: &str) -> Option<Vec<LengthTerm>> {
    length.split('*').map(term).collect()
}
