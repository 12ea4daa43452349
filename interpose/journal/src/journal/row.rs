//! What is known of a procedure's arguments: a row of the call table, or of those of clocks.

/// The argument with this number is a number, or points to some, of so many bytes each (4 or 8).
#[derive(Clone, Copy, Debug)]
pub struct Numbers(pub u8, pub u8);

/// What an output is counted in.
#[derive(Clone, Copy, Debug)]
pub enum Unit {
    /// So many bytes each.
    Bytes(u16),
    /// The datatype in this argument.
    Datatype(u8),
    /// Characters up to the first NUL, at most one more than the amount.
    Text,
    /// What so many elements of a datatype (argument) take, up to the position in the buffer that
    /// the last one points to.
    Packed(Numbers, u8, Numbers),
    /// Not known: such a call cannot be recorded.
    Unknown,
}

/// A factor of how many there are; numbers are those of arguments.
#[derive(Clone, Copy, Debug)]
pub enum Amount {
    Value(Numbers),
    /// A number that is pointed to.
    At(Numbers),
    Constant(u32),
    /// The members of the communicator, of its remote group if it has one.
    Members,
    /// Those that send to this process in the communicator's topology.
    Neighbours,
    /// This process's entry of an array of counts.
    Own(Numbers),
    /// Up to the end of the last of the blocks with these counts and displacements; one for each
    /// member or neighbour.
    Span(Numbers, Numbers, bool),
}

/// Who has an output.
#[derive(Clone, Copy, Debug)]
pub enum Members {
    All,
    /// The root, which this argument names.
    Only(u8),
    AllBut(u8),
}

/// An output of a procedure.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// The argument that points to it.
    pub argument: u8,
    /// What it is counted in.
    pub unit: Unit,
    /// Factors of how many there are.
    pub amounts: &'static [Amount],
    pub members: Members,
    /// It is written when a request ends.
    pub later: bool,
}

/// What is known of a procedure's arguments.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub outputs: &'static [Output],
    /// Which argument is the communicator.
    pub comm: Option<u8>,
    /// Which argument points to the request.
    pub request: Option<u8>,
    /// Bytes of each argument that mean something.
    pub widths: &'static [u8],
}
