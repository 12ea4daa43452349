//! Recipes of the program's operators.

/// A reduction function of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Function {
    /// Its address.
    pub address: u64,
    /// What it gets behind the arguments that MPI says, if it is of C++: the address of another function, which it calls; else 0.
    pub inner: u64,
}

/// What is needed to make an operator again.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Op {
    pub function: Function,
    /// Whether it is commutative.
    pub commutes: bool,
    /// Whether the function gets the number of elements as an `MPI_Count`.
    pub is_large: bool,
    /// Persistent requests that use it.
    pub holders: u32,
    /// The program has freed it.
    pub freed: bool,
}
