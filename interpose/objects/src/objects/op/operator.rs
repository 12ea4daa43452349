//! Recipes of the program's operators.

/// A reduction function of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Function {
    /// Address of the function.
    pub address: u64,
    /// Address of another function that a function of C++ calls; zero otherwise.
    ///
    /// The function gets it behind the arguments that MPI defines.
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
    /// Persistent requests that use it.
    pub holders: u32,
    /// The program has freed it.
    pub freed: bool,
}
