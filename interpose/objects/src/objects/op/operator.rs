//! Recipes of the program's operators.

/// Reduction function of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Function {
    /// Address of the function.
    pub address: u64,
    /// Address of the program's function behind a function of the C++ bindings; else zero.
    ///
    /// The bindings' function receives this address after the arguments that MPI defines, and calls
    /// the program's function.
    pub inner: u64,
}

/// Recipe of an operator.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Op {
    pub function: Function,
    /// True if the operator is commutative.
    pub commutes: bool,
    /// True if the function gets the number of elements as an `MPI_Count`.
    pub is_large: bool,
    /// Number of persistent requests that use the operator.
    pub references: u32,
    /// True if the program has freed the operator.
    pub freed: bool,
}
